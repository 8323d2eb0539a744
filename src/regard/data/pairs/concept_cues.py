"""What is written of the two concepts of a pair: their names, what stands beside and between them.

Cues are what a linear classifier of pairs would be given. They are numbers below a size, by a hash
(Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning"), so that there is no
vocabulary to keep.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from re import compile as pattern
from zlib import crc32

from regard.data.annotations.documents import Mention, RelationDocument
from regard.data.pairs.concept_positions import sentence_ends

__all__ = ["cue_names", "pair_cues"]

_WORD = pattern(r"[^\W\d_]+|\d+")
_FAR, _NEAR, _MOST = 12, 4, 15


def pair_cues(
    document: RelationDocument, pairs: Sequence[tuple[str, str]], size: int
) -> list[list[int]]:
    """The cues of each pair as different numbers below `size`, in order."""
    return [
        sorted({crc32(cue.encode()) % size for cue in own}) for own in cue_names(document, pairs)
    ]


def cue_names(document: RelationDocument, pairs: Sequence[tuple[str, str]]) -> list[set[str]]:
    """The cues of each pair in words.

    Of head (`h`) and tail (`t`): the concept, words of its names and their endings, and up to two
    words to either side of each mention. Of both, where a sentence has them: their order, how far
    apart they are, and up to 12 words that stand between. Of the document: the words of its first
    sentence. All in small letters; other mentions are read as their type, numbers as 0.

    Example:
        >>> told = RelationDocument("1", "Zorin induced a rash.", (
        ...     Mention(((0, 5),), "C", ("Z",)), Mention(((16, 20),), "D", ("R",))))
        >>> sorted(cue for cue in cue_names(told, [("Z", "R")])[0] if cue.startswith("ht"))
        ['ht a', 'ht induced', 'ht induced a', 'ht# 2', 'ht= induced a']
    """
    text, ends = document.text, sentence_ends(document.text)
    tokens, at = _tokens(document)
    first = text[: ends[0]] if ends else text
    title = {f"title {word}" for word in _words(first)}
    sides = {
        (tag, name): _of_concept(tag, name, document, tokens, at)
        for side, tag in enumerate("ht")
        for name in {pair[side] for pair in pairs}
    }
    where = {
        name: [(at[m], bisect_right(ends, m.start)) for m in own]
        for name, own in document.concepts.items()
    }
    return [
        sides["h", head] | sides["t", tail] | title | _between(where[head], where[tail], tokens)
        for head, tail in pairs
    ]


def _words(text: str) -> list[str]:
    return ["0" if word.isdigit() else word.lower() for word in _WORD.findall(text)]


def _tokens(document: RelationDocument) -> tuple[list[str], dict[Mention, int]]:
    """The words of a text with one token for each mention, and which token each mention is."""
    tokens: list[str] = []
    at: dict[Mention, int] = {}
    upto = 0
    for mention in sorted(document.mentions, key=lambda m: (m.start, -m.end)):
        if mention.start >= upto:  # others stand inside the one before
            tokens += [*_words(document.text[upto : mention.start]), f"<{mention.type}>"]
            upto = mention.end
        at[mention] = len(tokens) - 1
    return tokens + _words(document.text[upto:]), at


def _of_concept(
    tag: str, name: str, document: RelationDocument, tokens: Sequence[str], at: dict[Mention, int]
) -> set[str]:
    found = {f"{tag}= {name}"}
    for mention in document.concepts[name]:
        words = _words(mention.of(document.text))
        found |= {f"{tag}w {word}" for word in words}
        found |= {f"{tag}s {word[-4:]}" for word in words if len(word) > _NEAR}
        place = at[mention]
        before, behind = tokens[max(0, place - 2) : place], tokens[place + 1 : place + 3]
        found |= {f"{tag}- {word}" for word in before} | {f"{tag}+ {word}" for word in behind}
        found |= {f"{tag}-- {' '.join(before)}", f"{tag}++ {' '.join(behind)}"}
        found.add(f"{tag}-+ {' '.join([*before[-1:], '|', *behind[:1]])}")
    return found


def _between(
    heads: Sequence[tuple[int, int]], tails: Sequence[tuple[int, int]], tokens: Sequence[str]
) -> set[str]:
    found = set()
    for i, sentence in heads:
        for j, other in tails:
            if sentence != other:
                continue
            order = "ht" if i < j else "th"
            words = tokens[min(i, j) + 1 : max(i, j)]
            found.add(f"{order}# {min(len(words), _MOST)}")
            if len(words) <= _FAR:
                found |= {f"{order} {word}" for word in words}
                found |= {f"{order} {a} {b}" for a, b in pairwise(words)}
            if len(words) <= _NEAR:
                found.add(f"{order}= {' '.join(words)}")
    return found
