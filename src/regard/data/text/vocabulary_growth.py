"""Vocabularies that grow: what new texts have and an old vocabulary lacks, behind what it has.

Every old token keeps its id. Kinds with words, and letters, get the frequent ones of the new texts;
"unigram" those pieces that a vocabulary of the new texts alone would have, with their scores; "bpe"
goes on merging: the new texts are cut as before, and the most frequent pair of neighbours becomes a
piece, again and again (Sennrich et al. 2016). Old merges come first, so that texts are cut as
before up to the last merges.
"""

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from regard.data.text.tokenizer import Tokenizer
from regard.data.text.vocabulary_kinds import SPECIALS
from regard.data.text.word_shapes import with_shapes
from regard.errors import RequestError

__all__ = ["frequent", "grown", "longest_pieces"]

LEAST = 2
"""How often a pair must occur to become a piece, as where a vocabulary is learned."""


def grown(tokenizer: Tokenizer, texts: Sequence[str], most: int, min_count: int = 1) -> Tokenizer:
    """The tokenizer with new tokens behind its own.

    Args:
        texts: new ones.
        most: different tokens that the new texts may use, specials among them: what a vocabulary
            learned from them alone would have. Letters that no old token has are always added.
        min_count: words that are rarer in the new texts are not added.

    Example:
        >>> old = Tokenizer.train(["ein Haus", "ein Hund"], "words")
        >>> grown(old, ["ein Hase", "ein Hase"], 10).vocabulary[4:]
        ['ein', 'Haus', 'Hund', 'Hase']
    """
    if tokenizer.kind == "bpe":
        return _with_merges(tokenizer, texts, most - len(SPECIALS))
    if tokenizer.kind == "unigram":
        return _with_pieces(tokenizer, texts, most)
    if tokenizer.kind == "shapes":
        texts = [*with_shapes(texts, lowercase=tokenizer.lowercase)]
    counts = Counter(word for words in tokenizer.words_of_all(texts) for word in words)
    frequent = sorted(
        (word for word, count in counts.items() if count >= min_count),
        key=lambda word: (-counts[word], word),
    )
    known = tokenizer.vocabulary
    there = set(known)
    new = [word for word in frequent[: max(most - len(SPECIALS), 0)] if word not in there]
    return tokenizer.with_vocabulary([*known[len(SPECIALS) :], *new])


def frequent(tokenizer: Tokenizer, texts: Iterable[str], min_count: int) -> Tokenizer:
    """A tokenizer of a kind with words without those that texts have less often than `min_count`.

    Raises:
        RequestError: none is left.
    """
    if min_count <= 1:
        return tokenizer
    counts = Counter(word for words in tokenizer.words_of_all(texts) for word in words)
    kept = [word for word in tokenizer.vocabulary[len(SPECIALS) :] if counts[word] >= min_count]
    if not kept:
        raise RequestError(f"no word of the training texts occurs {min_count} times")
    return tokenizer.with_vocabulary(kept)


def _with_pieces(tokenizer: Tokenizer, texts: Iterable[str], most: int) -> Tokenizer:
    own = Tokenizer.train(
        texts, "unigram", most, lowercase=tokenizer.lowercase, segmenter=tokenizer.segmenter
    )
    learned = _layout(own)["model"]["vocab"]
    layout, there = _layout(tokenizer), set(tokenizer.vocabulary)
    layout["model"]["vocab"] += [piece for piece in learned if piece[0] not in there]
    return _made(layout)


def _with_merges(tokenizer: Tokenizer, texts: Iterable[str], most: int) -> Tokenizer:
    counts = Counter(word for words in tokenizer.words_of_all(texts) for word in words)
    layout = _layout(tokenizer)
    vocabulary: dict[str, int] = layout["model"]["vocab"]
    letters: Counter[str] = Counter()
    for word, count in counts.items():
        for letter in word:
            letters[letter] += count
    for letter in sorted(letters, key=lambda one: (-letters[one], one)):
        vocabulary.setdefault(letter, len(vocabulary))
    model = _made(layout)._inner.model
    words = sorted(counts)
    cut = [[token.value for token in model.tokenize(word)] for word in words]
    room = most - len({token for tokens in cut for token in tokens})
    merges = layout["model"]["merges"]
    joined = bool(merges) and isinstance(merges[0], str)  # as older versions of the library write
    for one, other in _merges(cut, [counts[word] for word in words], room, set(vocabulary)):
        vocabulary.setdefault(one + other, len(vocabulary))
        merges.append(f"{one} {other}" if joined else [one, other])
    return _made(layout)


def _merges(
    cut: list[list[str]], counts: Sequence[int], room: int, known: set[str]
) -> list[tuple[str, str]]:
    """The merges in order, until `room` tokens are new; `cut` is changed as they are made."""
    pairs: Counter[tuple[str, str]] = Counter()
    where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for i, tokens in enumerate(cut):
        for pair in pairwise(tokens):
            pairs[pair] += counts[i]
            where[pair].add(i)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    made: list[tuple[str, str]] = []
    while heap and room > 0:
        count, pair = heapq.heappop(heap)
        if -count != pairs[pair]:  # it was counted before other merges took some of it
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        if -count < LEAST:
            break
        made.append(pair)
        room -= pair[0] + pair[1] not in known
        known.add(pair[0] + pair[1])
        changed: set[tuple[str, str]] = set()
        for i in where.pop(pair):
            before, after = cut[i], _merged(cut[i], pair)
            for one in pairwise(before):
                pairs[one] -= counts[i]
            for one in pairwise(after):
                pairs[one] += counts[i]
                where[one].add(i)
                changed.add(one)
            cut[i] = after
        for one in changed:
            heapq.heappush(heap, (-pairs[one], one))
    return made


def _merged(tokens: list[str], pair: tuple[str, str]) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(tokens):
        if tuple(tokens[at : at + 2]) == pair:
            found.append(pair[0] + pair[1])
            at += 2
        else:
            found.append(tokens[at])
            at += 1
    return found


def _layout(tokenizer: Tokenizer) -> Any:
    return json.loads(tokenizer.to_json())


def _made(layout: Any) -> Tokenizer:
    return Tokenizer.from_json(json.dumps(layout, ensure_ascii=False))


def longest_pieces(name: str, known: set[str], longest: int) -> Sequence[str]:
    """The longest of the known pieces, from the left; nothing where a letter is in none."""
    found, at = [], 0
    while at < len(name):
        ends = range(min(len(name), at + longest), at, -1)
        end = next((end for end in ends if name[at:end] in known), None)
        if end is None:
            return ()
        found.append(name[at:end])
        at = end
    return found
