"""Errors in one sentence: what was expected, what was given, where, and what to try."""

import difflib
from collections.abc import Iterable

__all__ = ["RegardError", "RequestError", "nearest"]


MOST = 1000
"""Characters of a sentence; what is longer repeats a long input, and loses its middle."""


class RegardError(Exception):
    """Something ran and failed. The command line exits with 1."""

    exit_code = 1

    def __str__(self) -> str:
        said = super().__str__()
        if len(said) <= MOST or "\n" in said:  # lines are a list of what is wrong, by intent
            return said
        return f"{said[: MOST // 2]} … {said[-MOST // 2 :]}"


class RequestError(RegardError, ValueError):
    """The request itself is wrong: an unknown name, a missing file, a bad value. Exits with 2."""

    exit_code = 2


def nearest(name: str, names: Iterable[str]) -> str:
    """End a sentence about an unknown `name` with the closest valid one, or with the valid ones.

    Example:
        >>> nearest("hiden", ["hidden", "embed"])
        "did you mean 'hidden'?"
        >>> nearest("char", ["characters", "words"])
        "did you mean 'characters'?"
        >>> nearest("x", ["hidden", "embed"])
        'valid: embed, hidden'
    """
    known = sorted(set(names))
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    begun = [one for one in known if len(name) > 3 and one.startswith(name)]
    if not close and len(begun) == 1:
        close = begun
    if close:
        return f"did you mean {close[0]!r}?"
    return "valid: " + ", ".join(known) if known else "there are none to choose from"
