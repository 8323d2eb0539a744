r"""What a summary takes over from its source, as features of a hypothesis: ABS+.

    s(y) = Σ_i α^T f(y_{i+1}, x, y_c),
    f = <log p, 1{y_{i+1} in x}, 1{(y_i, y_{i+1}) in x}, 1{(y_{i-1}, y_i, y_{i+1}) in x},
         1{y_{i+1} comes before y_i in x}, 1>

Rush, Chopra and Weston, "A Neural Attention Model for Abstractive Sentence Summarization",
EMNLP 2015, section 5; the last feature, a length, is in their program. The weight of log p is 1, as
there: then an end of the text keeps its score, and the others are what they are worth in
log-probability. Any `Generator` can be decoded so; `mert.tune` finds the weights.

**Reordered** means here: every place of y_{i+1} in x comes before every place of y_i. (The
program's n-grams leave out the word directly before; ours are those of the equation.)
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.decode.rules.forbidden_words import Rule
from regard.errors import RequestError, nearest
from regard.protocols import BOS, EOS, PAD, UNK

__all__ = ["FEATURES", "Extraction", "never"]

FEATURES = ("unigram", "bigram", "trigram", "reordered", "length")
"""What is counted beside log p."""

SPECIAL = frozenset({PAD, BOS, EOS, UNK})
"""Ids that are no words: they are in no source."""


class Extraction:
    """A rule that adds the weights of what a token takes over from its source to its score.

    Args:
        sources: of each sentence its words in ids of the target vocabulary; special ones (an
            unknown word among them) break its n-grams and are never counted.
        weights: of `FEATURES`, by name; those that are not named are 0.

    Raises:
        RequestError: for a feature of another name, or a weight that is no number.

    Example:
        >>> rule = Extraction([[5, 6, 7]], {"unigram": 1.0, "bigram": 0.5})
        >>> rule(torch.zeros(1, 1, 9), torch.tensor([[[6]]]), torch.tensor([0]))[0, 0, 4:].tolist()
        [0.0, 1.0, 1.0, 1.5, 0.0]
        >>> rule.features(0, [6, 7, 8, 2]).tolist()
        [2.0, 1.0, 0.0, 0.0, 3.0]
    """

    def __init__(self, sources: Sequence[Sequence[int]], weights: Mapping[str, float]) -> None:
        for name, weight in weights.items():
            if name not in FEATURES:
                raise RequestError(f"extraction: no feature {name!r}; {nearest(name, FEATURES)}")
            if not math.isfinite(weight):
                raise RequestError(f"extraction: expected a number for {name!r}, got {weight!r}")
        self.weights = np.array([weights.get(name, 0.0) for name in FEATURES])
        self.sources = [_Source(source) for source in sources]
        *taken, length = self.weights.tolist()
        self.gain = max(0.0, length + sum(max(0.0, weight) for weight in taken))
        """The most that a token's score can rise."""

    def __call__(
        self,
        scores: Float[Tensor, "n width vocabulary"],
        read: Tensor,
        rows: Tensor,
    ) -> Float[Tensor, "n width vocabulary"]:
        """The rule: scores, and the weights of the features that each next token would have."""
        size = scores.shape[-1]
        unigram, bigram, trigram, reordered, length = self.weights.tolist()
        lasts = read[..., -2:].tolist()
        gain = torch.full_like(scores, length)
        gain[..., [PAD, BOS, EOS]] = 0.0
        for row, sentence in enumerate(rows.tolist()):
            source = self.sources[sentence]
            known = [word for word in source.words if word < size]
            gain[row, :, known] += unigram
            for slot, last in enumerate(lasts[row]):
                for weight, found in (
                    (bigram, source.pairs.get(last[-1]) if last else None),
                    (trigram, source.triples.get((last[0], last[1])) if len(last) > 1 else None),
                    (reordered, source.before(last[-1]) if last and reordered else None),
                ):
                    if weight and found:
                        gain[row, slot, [word for word in found if word < size]] += weight
        return scores + gain

    def features(self, sentence: int, tokens: Sequence[int]) -> NDArray[np.float64]:
        """How often a text has each of `FEATURES`; its end, and what lies behind, does not count.

        Args:
            sentence: which source it is a summary of.
            tokens: its ids.
        """
        source, found = self.sources[sentence], np.zeros(len(FEATURES))
        written = list(tokens[: tokens.index(EOS)] if EOS in tokens else tokens)
        for at, word in enumerate(written):
            one = written[at - 1] if at else None
            two = written[at - 2] if at > 1 else None
            found += (
                word in source.words,
                one is not None and word in source.pairs.get(one, ()),
                one is not None and two is not None and word in source.triples.get((two, one), ()),
                one is not None and word in source.before(one),
                1.0,
            )
        return found

    def own(self, sentence: int, tokens: Sequence[int], log_prob: float) -> float:
        """The model's own log-probability of a hypothesis that was found under this rule."""
        return log_prob - float(self.weights @ self.features(sentence, tokens))


class _Source:
    """The words, pairs and triples of one source, by what comes before."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.pairs: dict[int, set[int]] = {}
        self.triples: dict[tuple[int, int], set[int]] = {}
        self._before: dict[int, set[int]] = {}
        for at, word in enumerate(ids):
            if word in SPECIAL:
                continue
            self.first.setdefault(word, at)
            self.last[word] = at
            if at and ids[at - 1] not in SPECIAL:
                self.pairs.setdefault(ids[at - 1], set()).add(word)
                if at > 1 and ids[at - 2] not in SPECIAL:
                    self.triples.setdefault((ids[at - 2], ids[at - 1]), set()).add(word)
        self.words = self.first.keys()

    def before(self, word: int) -> set[int]:
        """The words all of whose places lie before the first one of `word`."""
        if word not in self.first:
            return set()
        if word not in self._before:
            first = self.first[word]
            self._before[word] = {other for other, at in self.last.items() if at < first}
        return self._before[word]


def never(*tokens: int) -> Rule:
    """A rule: these tokens are not written, an unknown word for one.

    Example:
        >>> never(3)(torch.zeros(1, 1, 5), torch.zeros(1, 1, 0), torch.tensor([0]))[0, 0].tolist()
        [0.0, 0.0, 0.0, -inf, 0.0]
    """

    def rule(scores: Tensor, read: Tensor, rows: Tensor) -> Tensor:
        return scores.index_fill(-1, torch.tensor(tokens, device=scores.device), -math.inf)

    return rule
