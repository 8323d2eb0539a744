"""Covering arrays: every pair of options meets in a case, not every combination of all of them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import pytest

Pair = tuple[tuple[int, int], tuple[int, int]]
"""Two factors, each with the option that it has."""


def pairs_of(case: Sequence[int]) -> Iterator[Pair]:
    """The pairs of options that a case brings together."""
    yield from combinations(enumerate(case), 2)


def covering(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Few combinations in which every two options of two factors meet, the same at every call.

    Greedy: of all combinations left, the first that brings most new pairs together. Meant for
    products of a few thousand.

    Args:
        sizes: how many options each factor has.

    Raises:
        ValueError: of fewer than two factors; one makes no pair, and would make no case.
    """
    if len(sizes) < 2:
        raise ValueError(f"pairs need two factors or more, got {len(sizes)}")
    everything = list(product(*map(range, sizes)))
    left = {pair for case in everything for pair in pairs_of(case)}
    found = []
    while left:
        best = max(everything, key=lambda case: sum(pair in left for pair in pairs_of(case)))
        left.difference_update(pairs_of(best))
        found.append(best)
    return found


def pairwise(
    *, others: pytest.MarkDecorator | None = None, **factors: Mapping[str, Any] | Sequence[Any]
) -> pytest.MarkDecorator:
    """Parametrizes a test by a covering array of its factors, by name: `pairwise(a=[1, 2], b=…)`.

    Of a mapping the keys are the options.

    Args:
        others: mark of the combinations that the array lacks, `pytest.mark.slow`; without it they
            are no cases.
    """
    options = [list(given) for given in factors.values()]
    sizes = [len(of) for of in options]
    quick = set(covering(sizes))
    cases = [
        pytest.param(
            *(of[at] for of, at in zip(options, case, strict=True)),
            marks=() if case in quick or others is None else others,
        )
        for case in product(*map(range, sizes))
        if case in quick or others is not None
    ]
    return pytest.mark.parametrize(tuple(factors), cases)
