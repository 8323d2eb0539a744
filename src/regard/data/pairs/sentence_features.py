r"""Numbers that say how alike two sentences are, to stand beside what a model reads of a pair.

Each kind is a function of many pairs at once; n-grams are compared as sorted arrays, so 10,000
pairs take a few seconds. Words are lower-cased.

- `lengths`: :math:`\log(1 + |a|)/4`, the same of b, shorter over longer, :math:`|a| - |b|` over
  longer.
- `overlap`: for 1-, 2- and 3-grams of words: the share of a's in b, of b's in a, and shared ones
  over all (Jaccard).
- `idf-overlap`: the same for words weighted by idf, and the cosine of the tf-idf vectors.
- `negation`: whether a has a word of negation, whether b has, whether one alone has.
- `numbers`: Socher et al. (2011), section 4.2: whether the numbers are the same or there are none,
  are the same, or those of one sentence are a strict subset of the other's; then shared numbers
  over all, whether a has one that b has not, and whether b has.
- `characters`: the cosine of the tf-idf vectors of character 3- to 5-grams; the idf are counted by
  hash, so some n-grams share one.
- `bleu`: BLEU-1 to BLEU-4 of a with b as its reference, then of b with a; counts above 1-grams are
  smoothed by adding 1 (Lin and Och 2004).
- `edit`: the edit distance of the words over the longer length, and the longest common subsequence
  over a's length and over b's.
- `wordnet`: how the content words of one sentence relate to those of the other by WordNet
  (`data.text.wordnet.RELATIONS`, the nearest relation of each). How many words of a have each
  relation, and of b; of the words without a common base form on the other side, whether some pair
  has each relation between; which relation the least related word of a has, and of b, alone and
  where one sentence alone has a word of negation. After the features of Lai and Hockenmaier (2014).

A share of nothing is 0. As in scikit-learn,

.. math:: \text{idf}(w) = 1 + \log \frac{1 + N}{1 + \text{df}(w)}

with N different sentences and df(w) of them with w; all idf are 1 before anything is learned.

Source for `numbers`: Socher, Huang, Pennington, Ng and Manning (2011), "Dynamic Pooling and
Unfolding Recursive Autoencoders for Paraphrase Detection". For `wordnet`: Lai and Hockenmaier
(2014), "Illinois-LH: A Denotational and Distributional Approach to Semantics", SemEval.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.pairs.edit_distances import edits_and_common
from regard.data.pairs.wordnet_features import related
from regard.data.text.wordnet import WordNet, database
from regard.errors import RequestError, nearest

__all__ = ["NEGATIONS", "PairFeatures"]

NEGATIONS = frozenset(
    """
    cannot n't neither never no nobody none nor not nothing nowhere without
    """.split()
)
"""Words of negation, beside those that end in "n't"."""

Pairs = Sequence[tuple[list[str], list[str]]]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_AT_ONCE = 2048
_CELLS = 1 << 20
"""Pairs, and cells of a table of edit distances, that are computed together."""

_HASH_BITS, _BITS = 50, 16  # 50 bits and the number of a sentence are one integer
_BUCKETS = 1 << _BITS
"""The idf of character n-grams are kept by hash, so that what is learned stays small."""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class _Counts:
    """In how many sentences a word, or a character n-gram's bucket, occurs."""

    def __init__(self) -> None:
        self.sentences = 0
        self.words: Counter[str] = Counter()
        self.grams: Ints = np.zeros(_BUCKETS, np.int64)
        self.wordnet: WordNet | None = None

    def idf(self, of: Ints) -> Floats:
        return np.asarray(1 + np.log((1 + self.sentences) / (1 + of)))


class _Bag(NamedTuple):
    """What occurs in which sentence how often; each combination once."""

    sentence: Ints
    key: Ints
    times: Ints


class _Read:
    """Pairs read for the features: sentence i is the first of pair i, n + i the second."""

    def __init__(self, pairs: Pairs) -> None:
        self.n = len(pairs)
        self.sentences = [_lower(words) for words in _sides(pairs)]
        self.lengths = np.array([len(words) for words in self.sentences], np.int64)
        number: dict[str, int] = {}
        flat = [number.setdefault(w, len(number)) for words in self.sentences for w in words]
        self.words = list(number)
        self.ids = np.array(flat, np.int64)
        self.owner = np.repeat(np.arange(2 * self.n), self.lengths)

    def split(self, per_sentence: NDArray[Any]) -> tuple[Floats, Floats]:
        """The numbers of a's and of b's."""
        return per_sentence[: self.n].astype(float), per_sentence[self.n :].astype(float)

    @cached_property
    def grams(self) -> list[_Bag]:
        """The n-grams of words for n = 1 to 4."""
        found, keys = [_bag(self.owner, self.ids)], self.ids
        for n in range(2, 5):
            here = max(0, len(self.ids) - n + 1)
            # `keys` numbers what begins at each place; n-grams across sentences are left out.
            joined = keys[:here] * len(self.words) + self.ids[n - 1 :]
            keys = np.unique(joined, return_inverse=True)[1].reshape(-1)
            owner = self.owner[:here]
            inside = owner == self.owner[n - 1 :]
            found.append(_bag(owner[inside], keys[inside]))
        return found

    def shared(self, bag: _Bag) -> tuple[Ints, Ints]:
        """Where the keys are in the bag that both sentences of a pair have: in a, in b."""
        size = int(bag.key.max(initial=0)) + 1
        code, first = bag.sentence % max(self.n, 1) * size + bag.key, bag.sentence < self.n
        at, other = np.flatnonzero(first), np.flatnonzero(~first)
        _, one, two = np.intersect1d(code[at], code[other], assume_unique=True, return_indices=True)
        return at[one], other[two]

    def shares(self, bag: _Bag, weights: Floats) -> list[Floats]:
        """The weight of what a shares with b, over all of a, all of b, and all of both."""
        a, b = self.split(np.bincount(bag.sentence, weights, 2 * self.n))
        at, _ = self.shared(bag)
        both = np.bincount(bag.sentence[at], weights[at], self.n)
        return [_ratio(both, a), _ratio(both, b), _ratio(both, a + b - both)]

    def cosine(self, bag: _Bag, weights: Floats) -> Floats:
        """Of the vectors of counts times weights."""
        value = bag.times * weights
        a, b = self.split(np.bincount(bag.sentence, value * value, 2 * self.n))
        at, other = self.shared(bag)
        return _ratio(
            np.bincount(bag.sentence[at], value[at] * value[other], self.n), np.sqrt(a * b)
        )


def _sides(pairs: Pairs) -> list[list[str]]:
    """All first sentences, then all second ones."""
    return [a for a, _ in pairs] + [b for _, b in pairs]


def _lower(words: Iterable[str]) -> list[str]:
    return [word.lower() for word in words]


def _bag(sentence: Ints, key: Ints) -> _Bag:
    size = int(key.max(initial=0)) + 1
    code, times = np.unique(sentence * size + key, return_counts=True)
    return _Bag(code // size, code % size, times)


def _ratio(above: NDArray[Any], below: NDArray[Any]) -> Floats:
    """0 where it is a share of nothing."""
    return np.asarray(np.divide(above, below, out=np.zeros(len(above)), where=below > 0))


def _characters(sentences: Sequence[Sequence[str]]) -> _Bag:
    """Hashes of the character 3- to 5-grams, with spaces around each word."""
    texts = [f" {' '.join(words)} " for words in sentences]
    joined = "".join(texts).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(joined, "<u4").astype(np.uint64)
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    prime, spread = np.uint64(1_099_511_628_211), np.uint64(0x9E3779B97F4A7C15)
    keys, owners, hashed = [], [], np.zeros(len(codes), np.uint64)
    for n in range(1, 6):
        hashed = hashed[: max(0, len(codes) - n + 1)] * prime + codes[n - 1 :] + np.uint64(1)
        if n >= 3:
            inside = owner[n - 1 :] == owner[: len(hashed)]
            keys.append((hashed[inside] * spread) >> np.uint64(64 - _HASH_BITS))
            owners.append(owner[: len(hashed)][inside])
    return _bag(np.concatenate(owners), np.concatenate(keys).astype(np.int64))


def _lengths(read: _Read, counts: _Counts) -> list[Floats]:
    a, b = read.split(read.lengths)
    longer = np.maximum(a, b)
    return [
        np.log1p(a) / 4,
        np.log1p(b) / 4,
        _ratio(np.minimum(a, b), longer),
        _ratio(a - b, longer),
    ]


def _overlap(read: _Read, counts: _Counts) -> list[Floats]:
    shares = [read.shares(bag, np.ones(len(bag.key))) for bag in read.grams[:3]]
    return [one for of_n in shares for one in of_n]


def _idf_overlap(read: _Read, counts: _Counts) -> list[Floats]:
    idf = counts.idf(np.array([counts.words[word] for word in read.words], np.int64))
    weights = idf[read.grams[0].key]
    return [*read.shares(read.grams[0], weights), read.cosine(read.grams[0], weights)]


def _negation(read: _Read, counts: _Counts) -> list[Floats]:
    words = (word.replace("’", "'") for word in read.words)
    denies = np.array([w in NEGATIONS or w.endswith("n't") for w in words], bool)
    a, b = read.split(np.bincount(read.owner[denies[read.ids]], minlength=2 * read.n) > 0)
    return [a, b, abs(a - b)]


def _wordnet(read: _Read, counts: _Counts) -> list[Floats]:
    return related(read.sentences, counts.wordnet, _negation(read, counts)[2])


def _numbers(read: _Read, counts: _Counts) -> list[Floats]:
    of_word = [[found.replace(",", "") for found in _NUMBER.findall(word)] for word in read.words]
    sets: list[set[str]] = [set() for _ in read.sentences]
    some = np.array([bool(found) for found in of_word], bool)
    for at in np.flatnonzero(some[read.ids]):
        sets[read.owner[at]].update(of_word[read.ids[at]])
    rows = [
        (a == b, a == b and a, a < b or b < a, len(a & b) / max(1, len(a | b)), a - b, b - a)
        for a, b in zip(sets[: read.n], sets[read.n :], strict=True)
    ]
    plain = [[one if isinstance(one, float) else bool(one) for one in row] for row in rows]
    return list(np.array(plain, float).reshape(read.n, 6).T)


def _character_cosine(read: _Read, counts: _Counts) -> list[Floats]:
    bag = _characters(read.sentences)
    return [read.cosine(bag, counts.idf(counts.grams)[bag.key >> _HASH_BITS - _BITS])]


def _bleu(read: _Read, counts: _Counts) -> list[Floats]:
    a, b = read.split(read.lengths)
    logs: list[list[Floats]] = [[], []]
    for n, bag in enumerate(read.grams, start=1):
        at, other = read.shared(bag)
        clipped = np.minimum(bag.times[at], bag.times[other])
        right = np.bincount(bag.sentence[at], clipped, read.n)
        more = float(n > 1)
        for log, length in zip(logs, (a, b), strict=True):
            share = _ratio(right + more, np.maximum(length - n + 1, 0) + more)
            log.append(np.log(np.maximum(share, 1e-300)))
    found = []
    for log, length, reference in zip(logs, (a, b), (b, a), strict=True):
        penalty = np.exp(np.minimum(0, 1 - reference / np.maximum(length, 1)))
        sums = accumulate(log)
        scores = [penalty * np.exp(one / n) for n, one in enumerate(sums, start=1)]
        # Without a shared word the score is 0, whatever is added to longer n-grams.
        found += [np.where(log[0] > -600, score, 0.0) for score in scores]
    return found


def _edit(read: _Read, counts: _Counts) -> list[Floats]:
    starts = np.concatenate([[0], np.cumsum(read.lengths)])
    rows = [read.ids[i:j] for i, j in pairwise(starts)]
    distance, common = np.zeros(read.n), np.zeros(read.n)
    longest = np.maximum(read.lengths[: read.n], read.lengths[read.n :])
    order, start = np.argsort(longest, kind="stable"), 0
    while start < read.n:
        # Sorted by length, so that the tables of those computed together are of like size.
        stop = start + 1
        while stop < read.n and (stop + 1 - start) * (longest[order[stop]] + 1) <= _CELLS:
            stop += 1
        some = order[start:stop]
        found = edits_and_common([rows[i] for i in some], [rows[read.n + i] for i in some])
        distance[some], common[some] = found
        start = stop
    a, b = read.split(read.lengths)
    return [_ratio(distance, np.maximum(a, b)), _ratio(common, a), _ratio(common, b)]


class PairFeatures:
    """Features of pairs of sentences.

    Args:
        kinds: names in `KINDS`; their features are joined in this order.

    Raises:
        RequestError: there is no such kind, or one is named twice.

    Example:
        >>> pair = "A dog runs".split(), "a dog sleeps".split()
        >>> PairFeatures(["overlap"]).of([pair]).round(2)[0, :3].tolist()
        [0.6700000166893005, 0.6700000166893005, 0.5]
    """

    KINDS: ClassVar[Mapping[str, Callable[[_Read, _Counts], list[Floats]]]] = {
        "lengths": _lengths,
        "overlap": _overlap,
        "idf-overlap": _idf_overlap,
        "negation": _negation,
        "numbers": _numbers,
        "characters": _character_cosine,
        "bleu": _bleu,
        "edit": _edit,
        "wordnet": _wordnet,
    }

    def __init__(self, kinds: Sequence[str]) -> None:
        for at, kind in enumerate(kinds):
            if kind not in self.KINDS:
                raise RequestError(
                    f"no kind of pair features {kind!r}; {nearest(kind, self.KINDS)}"
                )
            if kind in kinds[:at]:
                raise RequestError(f"expected each kind of pair features once, got {kind!r} twice")
        self.kinds = tuple(kinds)
        self._counts = _Counts()

    @cached_property
    def width(self) -> int:
        """The number of features of a pair."""
        read = _Read([([], [])])
        return sum(len(self.KINDS[kind](read, _Counts())) for kind in self.kinds)

    def learn(self, pairs: Pairs) -> "PairFeatures":
        """Count the words and n-grams of the training pairs again; gives itself.

        A sentence that occurs in several pairs counts once.
        """
        self._counts = counts = _Counts()
        if "wordnet" in self.kinds:
            counts.wordnet = WordNet.read(
                database(), {word for words in _sides(pairs) for word in words}
            )
        if not {"idf-overlap", "characters"} & {*self.kinds}:
            return self
        different = list(dict.fromkeys(tuple(_lower(words)) for words in _sides(pairs)))
        counts.sentences = len(different)
        if "idf-overlap" in self.kinds:
            counts.words.update(word for words in different for word in {*words})
        if "characters" in self.kinds:
            for start in range(0, len(different), _AT_ONCE):
                bag = _characters(different[start : start + _AT_ONCE])
                bucket = bag.key >> _HASH_BITS - _BITS
                once = _bag(bag.sentence, bucket)  # n-grams of one bucket count once, too
                counts.grams += np.bincount(once.key, minlength=_BUCKETS)
        return self

    def of(self, pairs: Pairs) -> NDArray[np.float32]:
        """The features of each pair: (n, width)."""
        found = np.zeros((len(pairs), self.width), np.float32)
        for start in range(0, len(pairs), _AT_ONCE):
            read = _Read(pairs[start : start + _AT_ONCE])
            columns = [c for kind in self.kinds for c in self.KINDS[kind](read, self._counts)]
            if columns:
                found[start : start + read.n] = np.stack(columns, 1)
        return found

    def state(self) -> dict[str, Any]:
        """What was learned, as plain values for JSON."""
        found: dict[str, Any] = {
            "kinds": list(self.kinds),
            "sentences": self._counts.sentences,
            "words": dict(sorted(self._counts.words.items())),
            "grams": self._counts.grams.tolist() if self._counts.grams.any() else [],
        }
        if "wordnet" in self.kinds:
            net = self._counts.wordnet
            found["wordnet"] = None if net is None else net.state()
        return found

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> "PairFeatures":
        """The features that a `state` was taken of.

        Raises:
            RequestError: it is no such state.
        """
        try:
            made = cls([str(kind) for kind in state["kinds"]])
            counts = made._counts
            counts.sentences = int(state["sentences"])
            counts.words.update({str(w): int(n) for w, n in state["words"].items()})
            if "wordnet" in made.kinds and state["wordnet"] is not None:
                counts.wordnet = WordNet.restored(state["wordnet"])
            grams = np.array(state["grams"] or [0] * _BUCKETS, np.int64)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, RequestError):
                raise
            raise RequestError(f"expected the state of pair features, got {error!r}") from None
        most = max([counts.sentences, 0])
        if grams.shape != (_BUCKETS,) or not 0 <= grams.min() <= grams.max() <= most:
            raise RequestError("expected the state of pair features, got other counts of n-grams")
        if any(not 0 <= times <= most for times in counts.words.values()):
            raise RequestError("expected the state of pair features, got other counts of words")
        counts.grams = grams
        return made
