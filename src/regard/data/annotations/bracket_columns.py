"""Start-End columns of CoNLL-2005: phrases as brackets around the words, `(A0*`, `*`, `*)`."""

import re
from collections.abc import Sequence

from regard.data.annotations.tag_schemes import TagSpan
from regard.errors import RequestError

__all__ = ["flat", "phrases_of", "start_end_of"]

_OPEN = re.compile(r"\(((?:\\\*|[^*(])+)")
_CLOSE = re.compile(r"([^)]*)\)")


def phrases_of(cells: Sequence[str]) -> list[TagSpan]:
    """The phrases (start, end, label) of a column, each before those inside it.

    Raises:
        RequestError: a cell that is not of the form, or brackets that do not match.

    Example:
        >>> phrases_of(["(ARG0*)", "(V*)", "(ARG1*", "*)"])
        [(0, 1, 'ARG0'), (1, 2, 'V'), (2, 4, 'ARG1')]
    """
    found: list[TagSpan] = []
    opened: list[int] = []
    for place, cell in enumerate(cells):
        rest = cell
        while match := _OPEN.match(rest):
            opened.append(len(found))
            found.append((place, -1, match[1]))
            rest = rest[match.end() :]
        if not rest.startswith("*"):
            raise RequestError(
                f"expected a cell like (A0* or * or *), word {place + 1} has {cell!r}"
            )
        rest = rest[1:]
        while rest:
            closing = _CLOSE.match(rest)
            if closing is None:
                raise RequestError(f"expected ) behind the star, word {place + 1} has {cell!r}")
            if not opened:
                raise RequestError(f"word {place + 1} closes a phrase that none opened: {cell!r}")
            at = opened.pop()
            start, _, label = found[at]
            if closing[1] and closing[1] != label:
                raise RequestError(
                    f"word {place + 1} closes {closing[1]!r} where {label!r} is open: {cell!r}"
                )
            found[at] = (start, place + 1, label)
            rest = rest[closing.end() :]
    if opened:
        start, _, label = found[opened[-1]]
        raise RequestError(f"the phrase {label!r} of word {start + 1} is not closed")
    return found


def start_end_of(phrases: Sequence[TagSpan], length: int) -> list[str]:
    """The cells of a column of `length` words.

    Raises:
        RequestError: phrases that cross, or a label that a column cannot have.

    Example:
        >>> start_end_of([(0, 1, "ARG0"), (1, 2, "V"), (2, 4, "ARG1")], 4)
        ['(ARG0*)', '(V*)', '(ARG1*', '*)']
    """
    opening, closing, open_ends = [""] * length, [""] * length, list[int]()
    for start, end, label in sorted(phrases, key=lambda phrase: (phrase[0], -phrase[1])):
        if not 0 <= start < end <= length:
            raise RequestError(f"expected phrases in {length} words, got {(start, end, label)}")
        if not label or set("()*").intersection(label) or label.split() != [label]:
            raise RequestError(
                f"expected a label without brackets, stars and blanks, got {label!r}"
            )
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if open_ends and open_ends[-1] < end:
            raise RequestError(f"the phrase {(start, end, label)} crosses another one")
        open_ends.append(end)
        opening[start] += f"({label}"
        closing[end - 1] += ")"
    return [f"{left}*{right}" for left, right in zip(opening, closing, strict=True)]


def flat(phrases: Sequence[TagSpan]) -> list[TagSpan]:
    """The phrases that are in no other, left to right: what tags can say.

    Example:
        >>> flat([(0, 4, "A1"), (1, 2, "A0"), (4, 5, "V")])
        [(0, 4, 'A1'), (4, 5, 'V')]
    """
    kept: list[TagSpan] = []
    for phrase in sorted(phrases, key=lambda one: (one[0], -one[1])):
        if not kept or phrase[0] >= kept[-1][1]:
            kept.append(phrase)
    return kept
