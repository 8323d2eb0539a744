"""Schemes of tags: spans of words as one tag for each word, and back.

| scheme | a span of three words, of one | touching spans of one label |
|---|---|---|
| `iob1` | `I-X I-X I-X`, `I-X` | the second begins with `B-X` |
| `iob2`, also `bio` | `B-X I-X I-X`, `B-X` | each begins with `B-X` |
| `iobes` | `B-X I-X E-X`, `S-X` | nothing special |
| `bilou` | `B-X I-X L-X`, `U-X` | nothing special |

`O` is outside of every span. A tag may lack a label: `B`, `I` and so on, with the label "".

Source: Ramshaw and Marcus (1995); Tjong Kim Sang and Veenstra (1999); Ratinov and Roth (2009).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError, nearest

__all__ = [
    "SCHEMES",
    "TagScheme",
    "TagSpan",
    "allowed",
    "convert",
    "lenient_spans",
    "repaired",
    "scheme_of",
    "spans_of",
    "split_tag",
    "tags_of",
    "wrong",
]

TagSpan = tuple[int, int, str]
"""The first word of a span, the word behind its last, and its label."""


@dataclass(frozen=True)
class TagScheme:
    """What a scheme writes, and which tag may follow which.

    Args:
        first: the letter of the first word of a longer span; `inside`, `last` likewise.
        only: the letter of a span of one word.
        touching: the letter of a first word that touches a span of the same label, if another.
        follows: what may stand behind a letter: "=" with its label alone, "*" with any label.
        final: the letters that a sentence may end with.
    """

    name: str
    first: str
    inside: str
    last: str
    only: str
    follows: Mapping[str, Mapping[str, str]]
    final: str
    touching: str = ""

    @property
    def letters(self) -> list[str]:
        """Of its tags but O."""
        return [letter for letter in self.follows if letter != "O"]


def _closed(first: str, inside: str, last: str, only: str) -> Mapping[str, Mapping[str, str]]:
    """What follows what where spans say how they end."""
    new, more = {"O": "*", first: "*", only: "*"}, {inside: "=", last: "="}
    return {"O": new, first: more, inside: more, last: new, only: new}


_IOB1 = {"O": "*", "I": "*", "B": "="}
_IOB2 = {"O": "*", "B": "*", "I": "="}

SCHEMES: Mapping[str, TagScheme] = {
    "iob1": TagScheme(
        "iob1",
        "I",
        "I",
        "I",
        "I",
        {"O": {"O": "*", "I": "*"}, "I": _IOB1, "B": _IOB1},
        "OIB",
        touching="B",
    ),
    "iob2": TagScheme(
        "iob2", "B", "I", "I", "B", {"O": {"O": "*", "B": "*"}, "B": _IOB2, "I": _IOB2}, "OBI"
    ),
    "iobes": TagScheme("iobes", "B", "I", "E", "S", _closed("B", "I", "E", "S"), "OES"),
    "bilou": TagScheme("bilou", "B", "I", "L", "U", _closed("B", "I", "L", "U"), "OLU"),
}
"""The schemes by name."""

_ALSO = {"bio": "iob2", "iob": "iob1", "bioes": "iobes", "bilu": "bilou"}


def scheme_of(name: str) -> TagScheme:
    """The scheme of a name; `bio` is `iob2`.

    Raises:
        RequestError: there is no such scheme.
    """
    found = SCHEMES.get(_ALSO.get(name, name))
    if found is None:
        raise RequestError(f"unknown scheme of tags {name!r}: {nearest(name, [*SCHEMES, 'bio'])}")
    return found


def split_tag(tag: str) -> tuple[str, str]:
    """The letter and the label of a tag; the label begins behind the first hyphen.

    Example:
        >>> split_tag("B-C-ARG1"), split_tag("O"), split_tag("B")
        (('B', 'C-ARG1'), ('O', ''), ('B', ''))
    """
    letter, _, label = tag.partition("-")
    return letter, label


def wrong(tags: Sequence[str], scheme: str = "iob2") -> tuple[int, str] | None:
    """The first tag that the scheme does not allow, from 0, and what is wrong; None where all fit.

    Behind the last tag, that a span is open is said of the last place.

    Example:
        >>> wrong(["B-PER", "I-LOC"], "bio")
        (1, "'I-LOC' behind 'B-PER'")
        >>> wrong(["B-PER", "I-PER"], "iobes")
        (1, "'I-PER' at the end of the sentence")
    """
    rules = scheme_of(scheme)
    before, letter, label = "the beginning", "O", ""
    for place, tag in enumerate(tags):
        own, name = split_tag(tag)
        if not _is_tag(tag, rules):
            return place, repr(tag)
        if not _follows(rules, letter, label, own, name):
            return place, f"{tag!r} behind {before}"
        before, letter, label = repr(tag), own, name
    if letter not in rules.final:
        return len(tags) - 1, f"{before} at the end of the sentence"
    return None


def spans_of(tags: Sequence[str], scheme: str = "iob2") -> list[TagSpan]:
    """The spans that tags tell, from left to right: (start, end, label), `end` not included.

    Raises:
        RequestError: the tags are not valid in the scheme (`repaired` makes them so).

    Example:
        >>> spans_of(["B-PER", "I-PER", "O", "B-LOC"], "iob2")
        [(0, 2, 'PER'), (3, 4, 'LOC')]
    """
    if found := wrong(tags, scheme):
        place, why = found
        raise RequestError(
            f"expected tags in {scheme_of(scheme).name}, word {place + 1} has {why}; "
            "tag_schemes.repaired makes them valid"
        )
    return lenient_spans(tags)


def tags_of(spans: Sequence[TagSpan], length: int, scheme: str = "iob2") -> list[str]:
    """A tag for each of `length` words.

    Raises:
        RequestError: spans that are empty, overlap or reach beyond the words.

    Example:
        >>> tags_of([(0, 2, "PER"), (3, 4, "LOC")], 4, "iobes")
        ['B-PER', 'E-PER', 'O', 'S-LOC']
    """
    rules, tags = scheme_of(scheme), ["O"] * length
    reached, before = 0, ""
    for start, end, label in sorted(spans):
        if not reached <= start < end <= length:
            raise RequestError(
                f"expected spans apart from each other in {length} words, "
                f"got {(start, end, label)} where the words before {reached} are taken"
            )
        letters = [rules.first, *[rules.inside] * (end - start - 2), rules.last]
        if end - start == 1:
            letters = [rules.only]
        if rules.touching and start and start == reached and label == before:
            letters[0] = rules.touching
        tail = f"-{label}" if label else ""
        tags[start:end] = [letter + tail for letter in letters]
        reached, before = end, label
    return tags


def convert(tags: Sequence[str], given: str, wanted: str) -> list[str]:
    """The same spans in another scheme.

    Raises:
        RequestError: the tags are not valid in the scheme that is given.

    Example:
        >>> convert(["I-A", "I-A", "B-A", "I-B"], "iob1", "iobes")
        ['B-A', 'E-A', 'S-A', 'S-B']
    """
    return tags_of(spans_of(tags, given), len(tags), wanted)


def lenient_spans(tags: Sequence[str]) -> list[TagSpan]:
    """The spans of any tags, by the rule of conlleval.

    A span begins at B and S (or U), behind O, E and S (or L and U), and where the label changes; it
    ends where the next one begins, at O, and at the sentence's end. So an I that continues nothing
    begins a span. What is no tag of any scheme is outside.

    Example:
        >>> lenient_spans(["O", "I-A", "I-B", "B-B"])
        [(1, 2, 'A'), (2, 3, 'B'), (3, 4, 'B')]
    """
    spans: list[TagSpan] = []
    start, letter, label = -1, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        own, name = split_tag(tag) if _is_tag(tag) else ("O", "")
        new = own in "BSU" or letter in "OESLU" or name != label
        if start >= 0 and (own == "O" or new):
            spans.append((start, place, label))
            start = -1
        if own != "O" and new:
            start = place
        letter, label = own, name
    return spans


def repaired(tags: Sequence[str], scheme: str = "iob2") -> list[str]:
    """Valid tags of the same words; valid tags stay as they are.

    The spans are those of `lenient_spans`: an I that continues nothing begins one.

    Example:
        >>> repaired(["O", "I-A", "I-A", "I-B"], "bio")
        ['O', 'B-A', 'I-A', 'B-B']
        >>> repaired(["B-A", "O", "E-A"], "iobes")
        ['S-A', 'O', 'S-A']
    """
    if wrong(tags, scheme) is None:
        return list(tags)
    return tags_of(lenient_spans(tags), len(tags), scheme)


def allowed(
    names: Sequence[str], scheme: str = "iob2"
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """What may follow what, for a search that gives valid tags alone.

    Returns:
        (tags, tags) `[i, j]`: whether tag j may stand behind tag i; (tags,) and (tags,): whether a
        tag may be first, and last.

    Raises:
        RequestError: a name that is no tag of the scheme.

    Example:
        >>> between, start, end = allowed(["B-A", "I-A", "O"], "bio")
        >>> between.astype(int).tolist(), start.tolist()
        ([[1, 1, 1], [1, 1, 1], [1, 0, 1]], [True, False, True])
    """
    rules = scheme_of(scheme)
    if bad := [name for name in names if not _is_tag(name, rules)]:
        raise RequestError(
            f"expected tags of {rules.name}, O and {', '.join(rules.letters)} with a label; "
            f"got {bad[0]!r}"
        )
    split = [split_tag(name) for name in names]
    between = [[_follows(rules, *before, *after) for after in split] for before in split]
    return (
        np.array(between, bool).reshape(len(names), len(names)),
        np.array([_follows(rules, "O", "", *after) for after in split], bool),
        np.array([letter in rules.final for letter, _ in split], bool),
    )


def _is_tag(tag: str, rules: TagScheme | None = None) -> bool:
    letter, label = split_tag(tag)
    if tag == "O":
        return True
    letters = rules.letters if rules else "BIESLU"
    return len(letter) == 1 and letter in letters and (bool(label) or "-" not in tag)


def _follows(rules: TagScheme, letter: str, label: str, after: str, name: str) -> bool:
    how = rules.follows[letter].get(after, "")
    return how == "*" or (how == "=" and label == name)
