"""Unicode's normal form C (NFC), with a map of places between a text and its composed form.

Files of some systems write "é" as two characters, "e" and U+0301. Scores, words and spans must not
depend on that: texts are composed before they are compared, and places are mapped back.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import regex

__all__ = ["Composed", "composed", "composed_all"]

# No character is composed across the border of a grapheme cluster.
_CLUSTER = regex.compile(r"\X")


def composed(text: str) -> str:
    """A text in NFC.

    Example:
        >>> len("e\u0301"), len(composed("e\u0301"))
        (2, 1)
    """
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def composed_all(texts: Iterable[str]) -> list[str]:
    """Several texts in NFC."""
    return [composed(text) for text in texts]


@dataclass(frozen=True)
class Composed:
    r"""A text in NFC, and where its characters stand in the raw text.

    Example:
        >>> found = Composed("cafe\u0301 noir")
        >>> found.text == "caf\xe9 noir", found.to_raw(3, 4), found.from_raw(6)
        (True, (3, 5), 5)
    """

    raw: str

    @cached_property
    def text(self) -> str:
        """In NFC."""
        return composed(self.raw)

    @property
    def changed(self) -> bool:
        """Whether the raw text was in another form."""
        return self.text != self.raw

    def to_raw(self, start: int, end: int) -> tuple[int, int]:
        """Start and end in the raw text of a span of `text`; whole clusters where it cuts one."""
        if not self.changed:
            return start, end
        starts, ends = self._raw_places
        return starts[start], max(ends[end], starts[start])

    def from_raw(self, place: int) -> int:
        """The place in `text` of one in the raw text; that of its cluster where it is inside."""
        return self._places[min(place, len(self.raw))] if self.changed else place

    @cached_property
    def _clusters(self) -> list[tuple[int, int, int, int]]:
        """Of each smallest part start and end in the raw text, and start and end in `text`."""
        found, at = [], 0
        for match in _CLUSTER.finditer(self.raw):
            place = match.start()
            for size, letters in _parts(match[0]):
                found.append((place, place + size, at, at + letters))
                place, at = place + size, at + letters
        return found

    @cached_property
    def _raw_places(self) -> tuple[list[int], list[int]]:
        """In the raw text, of each place of `text`: as the start of a span, and as its end."""
        starts, ends = [], [0]
        for a, b, first, last in self._clusters:
            same = b - a == last - first  # of an equal size: character by character
            starts += [a + i if same else a for i in range(last - first)]
            ends += [a + i if same else b for i in range(1, last - first + 1)]
        return [*starts, len(self.raw)], ends

    @cached_property
    def _places(self) -> list[int]:
        found: list[int] = []
        for a, b, first, last in self._clusters:
            same = b - a == last - first
            found += [first + i if same else first for i in range(b - a)]
        return [*found, len(self.text)]


def _parts(cluster: str) -> list[tuple[int, int]]:
    """Characters of a cluster, and of its composed form, that belong to each other."""
    found, at = [], 0
    for letter in (whole := composed(cluster)):
        apart = unicodedata.normalize("NFD", letter)
        size = next((len(form) for form in (letter, apart) if cluster.startswith(form, at)), 0)
        found.append((size, 1))
        at += size
    good = at == len(cluster) and all(size for size, _ in found)
    return found if good else [(len(cluster), len(whole))]  # marks in another order
