"""How often and where the two concepts of a pair are said in a document, in numbers of order 1."""

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import regex
from numpy.typing import NDArray

from regard.data.annotations.documents import RelationDocument

__all__ = ["PLACES", "pair_places", "sentence_ends"]

PLACES = (
    "mentions of head, log",
    "mentions of tail, log",
    "mentions of head, share of the most mentioned head's",
    "mentions of tail, share of the most mentioned tail's",
    "heads of the document, log",
    "tails of the document, log",
    "characters between the nearest mentions, log / 5",
    "sentences with both, log",
    "a sentence has both",
    "neighboring sentences have them at best",
    "head in the first sentence",
    "tail in the first sentence",
    "both in the first sentence",
    "first mention of head, share of the text",
    "first mention of tail, share of the text",
    "last mention of head, share of the text",
    "last mention of tail, share of the text",
    "share of mentions of tail to which no other head is nearer",
    "share of mentions of head to which no other tail is nearer",
)
"""What the numbers of a pair are."""
_END = regex.compile(
    r"""(?V1)[.!?]\s+(?=[A-Z\p{Lo}(\["'0-9])|[\p{Sentence_Terminal}--[.!?]]\s*(?=\S)"""
)


def sentence_ends(text: str) -> list[int]:
    """Where sentences end: behind a stop and a blank, before a capital, a digit or a bracket.

    Behind the full stops of other scripts nothing has to follow.
    """
    return [found.end() for found in _END.finditer(text)]


def pair_places(
    document: RelationDocument, pairs: Sequence[tuple[str, str]]
) -> NDArray[np.float32]:
    """A row of numbers for each pair, see `PLACES`: (P, 19).

    The first sentence of an abstract is its title. A mention stands where it begins.

    Args:
        pairs: concepts of the document, head first.

    Example:
        >>> from regard.data.annotations.documents import Mention
        >>> told = RelationDocument("1", "Zorin. Made a rash.", (
        ...     Mention(((0, 5),), "C", ("Z",)), Mention(((14, 18),), "D", ("R",))))
        >>> row = dict(zip(PLACES, pair_places(told, [("Z", "R")])[0].tolist(), strict=True))
        >>> row["head in the first sentence"], row["tail in the first sentence"]
        (1.0, 0.0)
    """
    made = np.zeros((len(pairs), len(PLACES)), np.float32)
    if not len(pairs):
        return made
    text = document.text
    ends = sentence_ends(text)
    starts = {name: np.array([m.start for m in own]) for name, own in document.concepts.items()}
    sentences = {
        name: np.array([bisect_right(ends, place) for place in own]) for name, own in starts.items()
    }
    heads, tails = dict.fromkeys(h for h, _ in pairs), dict.fromkeys(t for _, t in pairs)
    most = [max(len(starts[name]) for name in side) for side in (heads, tails)]
    nearest = [
        {name: _distances(starts[name], [starts[o] for o in other if o != name]) for name in side}
        for side, other in ((tails, heads), (heads, tails))
    ]
    for row, (head, tail) in zip(made, pairs, strict=True):
        h, t, hs, ts = starts[head], starts[tail], sentences[head], sentences[tail]
        apart = np.abs(h[:, None] - t)
        gap = int(np.abs(hs[:, None] - ts).min())
        titles = float(hs.min() == 0), float(ts.min() == 0)
        row[:] = (
            math.log(len(h)),
            math.log(len(t)),
            len(h) / most[0],
            len(t) / most[1],
            math.log(len(heads)),
            math.log(len(tails)),
            math.log1p(float(apart.min())) / 5,
            math.log1p(len(np.intersect1d(hs, ts))),
            gap == 0,
            gap == 1,
            *titles,
            min(titles),
            h.min() / len(text),
            t.min() / len(text),
            h.max() / len(text),
            t.max() / len(text),
            float((apart.min(0) <= nearest[0][tail]).mean()),
            float((apart.min(1) <= nearest[1][head]).mean()),
        )
    return made


def _distances(places: NDArray[np.int64], others: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """From each place to the nearest of the others."""
    found: NDArray[np.int64] = np.abs(places[:, None] - np.concatenate(others)).min(1)
    return found
