r"""Which words of a sentence are predicates: an averaged perceptron over a word and its neighbors.

.. math:: \hat y_t = [\bar b + \sum_{f \in F(t)} \bar w_f > 0]

F(t) has the word at t, the two words on either side of it, their endings and beginnings, whether
the word is written in capitals, and pairs of these; letters are made small and digits 0. Training
takes words one by one: a wrong answer adds 1 to the weights of F(t), or takes 1 from them. The
weights :math:`\bar w` are means over all steps.

Source: Collins (2002), "Discriminative Training Methods for Hidden Markov Models", for the mean;
the features are our choice, made on dev.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set

import numpy as np

from regard.data.text.normal_form import composed

__all__ = ["PredicateFinder"]

EPOCHS = 5
SEED = 1
RARE = 2
"""Features that are there less often are left out."""
SMALLEST = 0.5
"""Weights nearer to 0 are left out; others are kept with one digit behind the point."""

_DIGIT = re.compile(r"\d")
_LEFT, _RIGHT = ("<<", "<"), (">", ">>")
"""What stands beyond the ends of a sentence."""


class PredicateFinder:
    """Finds predicates among the words of a sentence, as the training sentences have them marked.

    Args:
        weights: of each feature.
        bias: b.

    Example:
        >>> rows = [("she gave him a book".split(), {1}), ("he saw a book".split(), {1})]
        >>> finder = PredicateFinder.learn(rows)
        >>> finder.find("she gave a book".split())
        [1]
    """

    def __init__(self, weights: Mapping[str, float], bias: float) -> None:
        self.weights, self.bias = dict(weights), bias

    @classmethod
    def learn(
        cls, sentences: Sequence[tuple[Sequence[str], Set[int]]], epochs: int = EPOCHS
    ) -> "PredicateFinder":
        """Learn from sentences with the places of their predicates, counted from 0.

        The same sentences in the same order give the same weights.
        """
        features = [features_of(words) for words, _ in sentences]
        counts = Counter(one for own in features for each in own for one in each)
        numbers: dict[str, int] = {}
        for one, count in counts.items():
            if count >= RARE:
                numbers[one] = len(numbers)
        seen = [
            [
                ([numbers[one] for one in each if one in numbers], place in places)
                for place, each in enumerate(own)
            ]
            for own, (_, places) in zip(features, sentences, strict=True)
        ]
        del features, counts
        now, sums = [0] * len(numbers), [0] * len(numbers)
        bias = bias_sum = 0
        step, random = 1, np.random.default_rng(SEED)
        for _ in range(epochs):
            for n in random.permutation(len(seen)).tolist():
                for active, right in seen[n]:
                    score = bias
                    for i in active:
                        score += now[i]
                    if (score > 0) != right:
                        change = 1 if right else -1
                        bias, bias_sum = bias + change, bias_sum + change * step
                        for i in active:
                            now[i] += change
                            sums[i] += change * step
                    step += 1
        means = {one: now[i] - sums[i] / step for one, i in numbers.items()}
        kept = {one: round(w, 1) for one, w in means.items() if abs(w) >= SMALLEST}
        return cls(kept, round(bias - bias_sum / step, 4))

    def find(self, words: Sequence[str]) -> list[int]:
        """The places of predicates, from left to right."""
        known = self.weights
        found = []
        for place, active in enumerate(features_of(words)):
            score = self.bias
            for one in active:
                score += known.get(one, 0.0)
            if score > 0:
                found.append(place)
        return found


def features_of(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The features of each word; what stands before the blank says which of its kinds one is."""
    low = [*_LEFT, *(_DIGIT.sub("0", composed(word).lower()) for word in words), *_RIGHT]
    found: list[tuple[str, ...]] = []
    for at, written in enumerate(words):
        before2, before, word, after, after2 = low[at : at + 5]
        capital = "no"
        if written[:1].isupper():
            capital = "all" if len(written) > 1 and written.isupper() else "first"
        capital += "^" if at == 0 else ""
        end2, end3 = word[-2:], word[-3:]
        found.append(
            (
                f"w {word}",
                f"w-1 {before}",
                f"w-2 {before2}",
                f"w+1 {after}",
                f"w+2 {after2}",
                f"2 {end2}",
                f"3 {end3}",
                f"4< {word[:4]}",
                f"3-1 {before[-3:]}",
                f"3+1 {after[-3:]}",
                f"c {capital}",
                f"c2 {capital} {end2}",
                f"w-1w {before} {word}",
                f"ww+1 {word} {after}",
                f"w-1w+1 {before} {after}",
                f"w-1,3 {before} {end3}",
                f"3,w+1 {end3} {after}",
                f"222 {before[-2:]} {end2} {after[-2:]}",
            )
        )
    return found
