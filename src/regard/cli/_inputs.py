"""What `regard predict` reads: texts given, lines of a file, or what a pipe brings."""

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli._common import say
from regard.data.files.lines import Line, lines_of
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["inputs_of"]

CONTROLS = {*range(32)} - set(b"\t\n\v\f\r\x1b")
"""Bytes that no text has."""
LARGEST = 1 << 28
"""Bytes of a file from a pipe that are read."""


def inputs_of(
    loaded: "Loaded",
    texts: Sequence[str] | None = None,
    source: str | None = None,
    columns: Mapping[str, str | int] | None = None,
) -> Iterator[Line]:
    """The inputs, one after another: texts, a file, or standard input.

    A file of JSON lines (`.jsonl`, `.ndjson`) has its inputs under the keys that `regard predict
    -o` finds them under; `.gz` and `.zst` are unpacked.

    Args:
        source: a file, or "-": standard input.
        columns: keys of JSON lines that are said, by input.

    Raises:
        RequestError: the file cannot be read to its end; or keys are said, and it has none.
    """
    from regard.bulk.shards import form_at  # numpy, which --help does without
    from regard.inference.records import JSONL, TEXT

    form, suffix = (TEXT, "") if texts or source in {None, "-"} else form_at(Path(str(source)))
    if columns and form != JSONL:
        raise RequestError(
            "--columns: it says which column of a data file is what; expected --into, -o, or lines"
            " of JSON (.jsonl)"
        )
    if texts and texts != ["-"]:
        for text in texts:
            if os.path.isfile(text) and not loaded.task.reads_files:
                say(f"{text} is taken as a text; the file of that name is read by -i {text}")
        return _joined(map(_given, texts), loaded.task.join)
    if source is None or source == "-":
        return _joined(_standard(loaded.task.reads_files), loaded.task.join)
    lines = _of_file(Path(source), suffix, loaded.task.reads_files)
    if form == JSONL:
        return _objects(lines, loaded, columns or {})
    return _joined(lines, loaded.task.join)  # an input may be several lines


def _standard(files: bool) -> Iterator[Line]:
    if sys.stdin.isatty():
        say("reading from the terminal, one input a line; Ctrl-D ends")
    if not files:
        yield from lines_of(sys.stdin.buffer.readline)
        return
    source: Any = io.BufferedReader(sys.stdin.buffer)
    try:
        url = _piped(source)
        yield from [Line(url)] if url else lines_of(source.readline)
    finally:
        source.detach()  # standard input stays open


def _of_file(path: Path, suffix: str, files: bool) -> Iterator[Line]:
    """Lines of a file; where inputs are files themselves, it may be one of those."""
    from regard.data.files.packing import Unreadable, reading

    if files and not suffix:
        with path.open("rb") as file:
            if not _is_text(file.peek()):
                yield Line(str(path))
                return
    path.open("rb").close()  # a missing file is told of as everywhere
    try:
        with reading(path, suffix) as packed:
            yield from lines_of(packed.readline)
    except Unreadable as error:
        raise RequestError(f"{path}: {error}") from error


def _objects(
    lines: Iterator[Line], loaded: "Loaded", columns: Mapping[str, str | int]
) -> Iterator[Line]:
    from regard.inference.records import JSONL, form_of

    form = form_of(JSONL, loaded.task, loaded.config, columns, as_json=False, align=False)
    for item in form.items(lines):
        yield Line(item.text, item.refused)


def _is_text(begins: bytes) -> bool:
    """Whether what begins so can be lines of text, in whatever encoding."""
    return not (set(begins) & CONTROLS)


def _piped(source: io.BufferedReader) -> str:
    """A file that comes from a pipe as a `data:` URL; "" where lines of text come."""
    import base64

    if _is_text(source.peek()):
        return ""
    return f"data:;base64,{base64.b64encode(source.read(LARGEST)).decode()}"


def _given(text: str) -> Line:
    """A text of the command line; its bytes may be no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return Line(os.fsencode(text).decode("utf-8", "replace"), "not UTF-8")
    return Line(text)


def _joined(
    lines: Iterator[Line], join: Callable[[Iterator[str]], Iterator[str]]
) -> Iterator[Line]:
    """Inputs of several lines, as the task joins them; refused lines stay by themselves."""
    refused: list[Line] = []

    def good() -> Iterator[str]:
        for line in lines:
            if line.refused:
                refused.append(line)
            else:
                yield line.text

    for text in join(good()):
        yield from refused
        refused.clear()
        yield Line(text)
    yield from refused
