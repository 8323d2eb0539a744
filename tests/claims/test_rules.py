"""Rules of decision: each verdict from numbers on its side, and on the border."""

import pytest

from regard.claims.rules import (
    CONFIRMED,
    NOT_CONFIRMED,
    OPPOSITE,
    AllOf,
    EverySeed,
    Exact,
    IntervalAbove,
    Means,
    Median,
    NearMedian,
    Significant,
    Widens,
)

CASES = [
    (EverySeed("a", above=0.5), {"a": [0.6, 0.7, 0.51]}, CONFIRMED),
    (EverySeed("a", above=0.5), {"a": [0.6, 0.7, 0.5]}, NOT_CONFIRMED),
    (EverySeed("a", above=0.5), {"a": [0.1, 0.2, 0.49]}, OPPOSITE),
    (EverySeed("a", above=0.5, other=0.0), {"a": [0.1, 0.2, 0.49]}, NOT_CONFIRMED),
    (EverySeed("a", below=0.5), {"a": [0.1, 0.2]}, CONFIRMED),
    (EverySeed("a", below=0.5), {"a": [0.6, 0.7]}, OPPOSITE),
    (EverySeed("a", above=1, minus="b"), {"a": [3, 4], "b": [1, 2.5]}, CONFIRMED),
    (EverySeed("a", above=1, minus="b"), {"a": [3, 4], "b": [2, 2.5]}, NOT_CONFIRMED),
    (Widens("a", "b"), {"a": [5, 4], "b": [4, 1]}, CONFIRMED),
    (Widens("a", "b"), {"a": [5, 4], "b": [4, 3.5]}, OPPOSITE),
    (Exact("a"), {"a": [1e-6, -1e-5]}, CONFIRMED),
    (Exact("a"), {"a": [1e-6, -2e-5]}, OPPOSITE),
    (NearMedian("a", 2), {"a": [1.0, 1.86, 9.0]}, CONFIRMED),
    (NearMedian("a", 2), {"a": [1.0, 1.84, 9.0]}, NOT_CONFIRMED),
    (Median("a", below=1.1), {"a": [0.9, 1.0, 5.0]}, CONFIRMED),
    (Median("a", above=1.1), {"a": [0.9, 1.0, 5.0]}, OPPOSITE),
    (Significant(), {"difference": [0.3], "p": [0.049]}, CONFIRMED),
    (Significant(), {"difference": [0.3], "p": [0.05]}, NOT_CONFIRMED),
    (Significant(sign=-1), {"difference": [0.3], "p": [0.001]}, OPPOSITE),
    (Means("a", "b"), {"a": [83.0, 0.7, 10], "b": [81.0, 0.7, 10]}, CONFIRMED),
    (Means("b", "a"), {"a": [83.0, 0.7, 10], "b": [81.0, 0.7, 10]}, OPPOSITE),
    (Means("a", "b"), {"a": [83.0, 4.0, 3], "b": [81.0, 4.0, 3]}, NOT_CONFIRMED),
    (IntervalAbove("a"), {"a": [0.1, 0.4]}, CONFIRMED),
    (IntervalAbove("a"), {"a": [-0.1, 0.4]}, NOT_CONFIRMED),
    (IntervalAbove("a", above=0.5), {"a": [0.1, 0.4]}, NOT_CONFIRMED),
    (IntervalAbove("a"), {"a": [-0.4, -0.1]}, OPPOSITE),
    (AllOf((EverySeed("a", above=0), Exact("b"))), {"a": [1.0], "b": [0.0]}, CONFIRMED),
    (AllOf((EverySeed("a", above=0), Exact("b"))), {"a": [1.0], "b": [1.0]}, NOT_CONFIRMED),
    (AllOf((EverySeed("a", above=0), Exact("b"))), {"a": [-1.0], "b": [1.0]}, OPPOSITE),
]


@pytest.mark.parametrize(("rule", "values", "verdict"), CASES)
def test_a_rule_decides(rule, values, verdict):
    decision = rule(values)
    assert decision.verdict == verdict
    assert decision.statistic
    assert rule.text[:2] in ("Q:", "M:", "E:", "T:", "V:")
