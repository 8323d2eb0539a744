"""The finder of predicates against a slow perceptron that keeps all its weights of every step."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from regard.data.annotations.predicate_finder import (
    EPOCHS,
    RARE,
    SEED,
    SMALLEST,
    PredicateFinder,
    features_of,
)


def sentences(count=40, seed=5):
    """Names around verbs; a word is a verb by its ending, or behind `to`; some are noise."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        words, places = [], set()
        for _ in range(int(random.integers(1, 4))):
            words.append(str(random.choice(["Ann", "Bo", "IBM", "the 12"])).split()[-1])
            if random.integers(2):
                words.append("to")
            stem = str(random.choice(["walk", "talk", "paint"]))
            ending = str(random.choice(["ed", "ing", "", "er"]))
            if ending in ("ed", "ing") or (words[-1] == "to" and not ending):
                places.add(len(words))
            if random.integers(20) == 0:
                places.add(0)
            words.append(stem + ending)
        found.append((words, places))
    return found


def slow(rows):
    """The mean of the weights before each step, kept whole; every feature has its own list."""
    counts = Counter(one for words, _ in rows for each in features_of(words) for one in each)
    weights, sums, steps = defaultdict(float), defaultdict(float), 0
    random = np.random.default_rng(SEED)
    for _ in range(EPOCHS):
        for n in random.permutation(len(rows)):
            words, places = rows[n]
            for place, each in enumerate(features_of(words)):
                active = ["bias", *(one for one in each if counts[one] >= RARE)]
                # What was in force during this step counts once in the mean.
                for one, weight in weights.items():
                    sums[one] += weight
                steps += 1
                said = sum(weights[one] for one in active) > 0
                if said != (place in places):
                    for one in active:
                        weights[one] += 1 if place in places else -1
    return {one: total / (steps + 1) for one, total in sums.items()}, weights, steps


def test_weights_are_means_over_all_steps():
    rows = sentences()
    finder = PredicateFinder.learn(rows)
    means, last, steps = slow(rows)
    # After the last step its weights count once too: 1 + steps of them in all.
    means = {one: means.get(one, 0.0) + last[one] / (steps + 1) for one in last}
    # The weights before the first step are 0 and count as well.
    assert finder.bias == pytest.approx(means.pop("bias"), abs=2e-3 + 1e-4)
    assert set(finder.weights) <= set(means)
    for one, mean in means.items():
        near = abs(abs(mean) - SMALLEST) < 0.01 or abs(mean) < SMALLEST
        assert near or finder.weights[one] == pytest.approx(mean, abs=0.06), one
    assert len(finder.weights) > 30


def test_what_is_learned_is_found_and_is_the_same_every_time():
    rows = sentences(200)
    finder, again = PredicateFinder.learn(rows), PredicateFinder.learn(rows)
    assert (finder.weights, finder.bias) == (again.weights, again.bias)
    right = [finder.find(words) == sorted(places - {0}) for words, places in sentences(50, 9)]
    assert sum(right) >= 45
    assert finder.find([]) == []
    assert PredicateFinder.learn([]).find(["Ann", "walked"]) == []


def test_features_are_of_the_word_its_neighbors_and_its_letters():
    first, second, _ = (set(one) for one in features_of(["USA", "Walked", "12"]))
    assert {"w usa", "w-1 <", "w-2 <<", "w+1 walked", "w+2 00", "c all^", "3 usa"} <= first
    assert {"w walked", "w-1 usa", "w+1 00", "w+2 >", "2 ed", "3 ked", "4< walk"} <= second
    assert {"c first", "w-1w usa walked", "ww+1 walked 00", "w-1w+1 usa 00"} <= second
