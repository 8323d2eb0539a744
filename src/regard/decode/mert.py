r"""Minimum error rate training: weights of features whose best hypotheses score best.

    α* = argmax_α Σ_s q(s, argmax_n α^T f(s, n))

for the n best hypotheses of each source s, their features f and the quality q of each (ROUGE, say).
Along a line α + γ d every hypothesis is a line in γ, so the best one of a source changes only where
lines cross on their upper envelope: the sum is a step function of γ, and its best step is found
exactly. Lines along each weight and in random directions are searched in turns, from several
starts, until nothing gets better.

Source: Och, "Minimum Error Rate Training in Statistical Machine Translation", ACL 2003, section 5.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError

__all__ = ["BestPlace", "best_on_line", "rounds", "tune"]

Features = Sequence[NDArray[np.float64]]
"""Of each source (n, F): the features of its hypotheses."""
Quality = Sequence[NDArray[np.float64]]
"""Of each source (n,): how good its hypotheses are; more is better."""

LEAST_GAIN = 1e-12
SIDES = 1.0
"""How far behind the last crossing a weight is put where all beyond is equally good."""


@dataclass(frozen=True)
class BestPlace:
    """Where a step function is greatest: the middle of the step, and its value."""

    place: float
    value: float


class _Lists:
    """All lists side by side, padded with hypotheses that never win: (S, n, F) and (S, n)."""

    def __init__(self, features: Features, quality: Quality) -> None:
        sizes = [len(own) for own in quality]
        wide = max(sizes)
        self.features = np.zeros((len(sizes), wide, features[0].shape[1]))
        self.quality = np.zeros((len(sizes), wide))
        self.real = np.arange(wide) < np.array(sizes)[:, None]
        for row, (own, good) in enumerate(zip(features, quality, strict=True)):
            self.features[row, : len(good)], self.quality[row, : len(good)] = own, good

    def value(self, weights: NDArray[np.float64]) -> float:
        """The mean quality of what these weights choose; of equals the first of a list."""
        scores = np.where(self.real, self.features @ weights, -np.inf)
        return float(np.take_along_axis(self.quality, scores.argmax(1)[:, None], 1).mean())


def best_on_line(
    heights: NDArray[np.float64],
    slopes: NDArray[np.float64],
    quality: NDArray[np.float64],
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> BestPlace:
    """Find the γ for which the mean quality of the uppermost lines is greatest.

    Args:
        heights, slopes: of each hypothesis, its score being height + γ slope; a height of minus
            infinity is no hypothesis.
        quality: of each hypothesis.
        bounds: least and greatest γ.

    Shapes:
        heights, slopes, quality (S, n)
    """
    low, high = bounds
    rows = np.arange(len(heights))
    real = heights > -np.inf
    # Where γ begins: the uppermost line there, of equals the steepest.
    start = np.where(real, slopes, np.inf).min(1) if low == -np.inf else None
    if start is not None:
        key = np.where(real & (slopes == start[:, None]), heights, -np.inf)
        now = key.argmax(1)
    else:
        at_low = np.where(real, heights + low * np.where(real, slopes, 0.0), -np.inf)
        top = at_low.max(1, keepdims=True)
        now = np.where(at_low >= top, slopes, -np.inf).argmax(1)
    value = quality[rows, now].mean()
    places, gains = [], []
    while True:
        steeper = real & (slopes > slopes[rows, now][:, None])
        with np.errstate(divide="ignore", invalid="ignore"):
            cross = (heights[rows, now][:, None] - heights) / (slopes - slopes[rows, now][:, None])
        cross = np.where(steeper, cross, np.inf)
        place = cross.min(1)
        moved = place < high
        if not moved.any():
            break
        # Of lines that cross in one place the steepest is above the others behind it.
        then = np.where(cross <= place[:, None], slopes, -np.inf).argmax(1)
        then = np.where(moved, then, now)
        places.append(place[moved])
        gains.append((quality[rows, then] - quality[rows, now])[moved])
        real = real & (moved[:, None] | (np.arange(real.shape[1]) == now[:, None]))
        now = then
    if not places:
        inside = 0.0 if low <= 0.0 <= high else (low if low > 0.0 else high)
        return BestPlace(inside, float(value))
    return _best_step(np.concatenate(places), np.concatenate(gains), value, len(rows), bounds)


def _best_step(
    places: NDArray[np.float64],
    gains: NDArray[np.float64],
    value: float,
    count: int,
    bounds: tuple[float, float],
) -> BestPlace:
    """The middle of the best step of a function that rises by `gains` at `places`."""
    order = places.argsort(kind="stable")
    edges, rise = places[order], gains[order].cumsum() / count
    last = np.append(edges[1:] > edges[:-1], True)  # steps of no width are none
    edges, values = edges[last], np.append(value, value + rise[last])
    best = int(values.argmax())
    low = bounds[0] if bounds[0] > -np.inf else edges[0] - 2 * SIDES
    high = bounds[1] if bounds[1] < np.inf else edges[-1] + 2 * SIDES
    ends = np.concatenate([[low], edges, [high]])
    return BestPlace(float((ends[best] + ends[best + 1]) / 2), float(values[best]))


def tune(
    features: Features,
    quality: Quality,
    start: Sequence[float],
    *,
    fixed: Sequence[int] = (),
    bounds: Mapping[int, tuple[float, float]] | None = None,
    restarts: int = 8,
    seed: int = 1,
) -> tuple[list[float], float]:
    """The weights found, and the mean quality of what they choose among these hypotheses.

    Args:
        features: of each source its hypotheses' features (n, F); the weights are theirs.
        quality: of each source its hypotheses' quality (n,).
        start: the weights to start from; what is found is never worse than they are.
        fixed: indices of weights that stay as they are. One should: weights have no scale.
        bounds: index -> least and greatest value of a weight.
        restarts: how many random starts are tried as well.
        seed: of those starts, and of the random directions.

    Raises:
        RequestError: for lists that do not fit each other, or none.

    Example:
        >>> lists = [np.array([[0.0, 1.0], [1.0, 0.0]])]
        >>> weights, value = tune(lists, [np.array([0.0, 1.0])], [1.0, 2.0], fixed=[0])
        >>> weights[0], weights[1] < 1.0, value
        (1.0, True, 1.0)
    """
    _check(features, quality, len(start))
    lists, limits = _Lists(features, quality), dict(bounds or {})
    free = [i for i in range(len(start)) if i not in fixed]
    generator = np.random.default_rng(seed)
    first = np.array(start, np.float64)
    best, value = _climbed(lists, first, free, limits, generator)
    for _ in range(restarts if free else 0):
        begun = first.copy()
        begun[free] += generator.normal(size=len(free))
        for i, (low, high) in limits.items():
            begun[i] = np.clip(begun[i], low, high)
        found, reached = _climbed(lists, begun, free, limits, generator)
        if reached > value + LEAST_GAIN:
            best, value = found, reached
    return best.tolist(), value


def _climbed(
    lists: _Lists,
    weights: NDArray[np.float64],
    free: Sequence[int],
    limits: Mapping[int, tuple[float, float]],
    generator: np.random.Generator,
) -> tuple[NDArray[np.float64], float]:
    """From these weights on, line after line, until none makes it better."""
    value = lists.value(weights)
    while free:
        before = value
        for direction in _directions(len(weights), free, generator):
            line = best_on_line(
                np.where(lists.real, lists.features @ weights, -np.inf),
                lists.features @ direction,
                lists.quality,
                _room(weights, direction, limits),
            )
            moved = weights + line.place * direction
            reached = lists.value(moved)
            if reached > value + LEAST_GAIN:
                weights, value = moved, reached
        if value <= before + LEAST_GAIN:
            break
    return weights, value


def _directions(
    size: int, free: Sequence[int], generator: np.random.Generator
) -> list[NDArray[np.float64]]:
    """Along each free weight, and as many random ones."""
    random = np.zeros((len(free), size))
    random[:, list(free)] = generator.normal(size=(len(free), len(free)))
    return [*np.eye(size)[list(free)], *(random if len(free) > 1 else ())]


def _room(
    weights: NDArray[np.float64],
    direction: NDArray[np.float64],
    limits: Mapping[int, tuple[float, float]],
) -> tuple[float, float]:
    """How far a line may be followed within the limits of all weights."""
    low, high = -np.inf, np.inf
    for i, ends in limits.items():
        if direction[i]:
            one, two = sorted((end - weights[i]) / direction[i] for end in ends)
            low, high = max(low, one), min(high, two)
    return min(low, 0.0), max(high, 0.0)


def rounds(
    decode: Callable[[list[float]], tuple[Features, Quality]],
    start: Sequence[float],
    *,
    most: int = 5,
    fixed: Sequence[int] = (),
    bounds: Mapping[int, tuple[float, float]] | None = None,
    restarts: int = 8,
    seed: int = 1,
) -> tuple[list[float], list[float]]:
    """Decode and tune in turns, over the hypotheses of all rounds so far.

    Ends after `most` rounds, or where a round decodes nothing better. Gives the weights whose own
    decoding was best, and the mean quality that each round's decoding had.

    Args:
        decode: from weights to the n best hypotheses of each source, best first: features, quality.
        start: the first weights.
        most: the most rounds.
        fixed, bounds, restarts, seed: as in `tune`.
    """
    weights, best, reached = [float(w) for w in start], [float(w) for w in start], []
    features: list[NDArray[np.float64]] = []
    quality: list[NDArray[np.float64]] = []
    for number in range(most):
        found, good = decode(weights)
        reached.append(float(np.mean([own[0] if len(own) else 0.0 for own in good])))
        if reached[-1] >= max(reached):
            best = weights
        if number and reached[-1] <= max(reached[:-1]) + LEAST_GAIN:
            break
        if not number:
            features, quality = [np.zeros((0, len(start)))] * len(found), [np.zeros(0)] * len(good)
        features = [np.concatenate(pair) for pair in zip(features, found, strict=True)]
        quality = [np.concatenate(pair) for pair in zip(quality, good, strict=True)]
        some = [row for row, own in enumerate(quality) if len(own)]
        weights, _ = tune(
            [features[row] for row in some],
            [quality[row] for row in some],
            weights,
            fixed=fixed,
            bounds=bounds,
            restarts=restarts,
            seed=seed + number,
        )
    return best, reached


def _check(features: Features, quality: Quality, size: int) -> None:
    if not len(features) or len(features) != len(quality):
        raise RequestError(
            "tune: expected features and quality of the same sources, one or more, got "
            f"{len(features)} and {len(quality)}"
        )
    for row, (own, good) in enumerate(zip(features, quality, strict=True)):
        if not len(good) or own.shape != (len(good), size):
            raise RequestError(
                f"tune: source {row}: expected features ({len(good)}, {size}) of one hypothesis or "
                f"more, got {own.shape}"
            )
