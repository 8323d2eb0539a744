"""Letters on the way in and out: UTF-8 where the locale says nothing, escapes where it cannot."""

import codecs
import os
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["prepare_streams", "say_escaped", "writable", "written_words"]

_HANDLER = "regard.escape"
_SAID: set[str] = set()


def prepare_streams() -> None:
    """Make every letter writable on standard output and error.

    Where the locale is C or POSIX, which names no letters, they are in UTF-8. Where another
    encoding was asked for, letters that it lacks are escaped, and one line on stderr says so.
    """
    codecs.register_error(_HANDLER, _escaped)
    _SAID.clear()
    for stream in (sys.stdout, sys.stderr):
        if not hasattr(stream, "reconfigure") or stream.errors == _HANDLER:
            continue
        if _is_ascii(stream) and not os.environ.get("PYTHONIOENCODING"):
            stream.reconfigure(encoding="utf-8", errors=_HANDLER)
        elif stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors=_HANDLER)


def writable(text: str) -> bool:
    """Whether standard output can write a text as it is."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def say_escaped(encoding: str) -> None:
    """Say once that letters are escaped."""
    if encoding not in _SAID:
        _SAID.add(encoding)
        sys.stderr.write(
            f"regard: the encoding {encoding} cannot write some of the letters: they are escaped, "
            "as \\xfc; PYTHONIOENCODING=utf-8 writes them\n"
        )


def written_words(words: Sequence[str]) -> list[str]:
    """Words of a command line as they were typed: in UTF-8, also where the locale cannot read it.

    Names of files that are there stay as the system knows them.
    """
    return [_as_utf8(word) for word in words]


def _as_utf8(word: str) -> str:
    try:
        word.encode()
    except UnicodeEncodeError:
        if os.path.lexists(word):
            return word
        try:
            return os.fsencode(word).decode("utf-8")
        except UnicodeError:
            return word
    return word


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeEncodeError):
        say_escaped(error.encoding)
    return codecs.backslashreplace_errors(error)


def _is_ascii(stream: Any) -> bool:
    try:
        return codecs.lookup(stream.encoding).name == "ascii"
    except (LookupError, TypeError):
        return False
