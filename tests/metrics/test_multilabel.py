"""Micro-F1 against a count by hand, and against scikit-learn where that is installed."""

import pytest

from regard.errors import RequestError
from regard.metrics import micro_f1

TRUE = [{"a"}, {"a", "c"}, set(), {"b", "c"}, {"d"}]
SAID = [{"a", "b"}, {"c"}, {"d"}, {"b"}, set()]


def test_counts_over_all_classes_at_once():
    # By hand: right a, c, b; false b, d; missed a, c, d: 2*3 / (2*3 + 2 + 3).
    found = micro_f1(SAID, TRUE)
    assert found.parts == {"right": 3, "false": 2, "missed": 3}
    assert found.value == pytest.approx(100 * 6 / 11)


def test_against_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    rows = [[[int(c in one) for c in "abcd"] for one in sets] for sets in (TRUE, SAID)]
    assert micro_f1(SAID, TRUE).value == pytest.approx(
        100 * sklearn.f1_score(*rows, average="micro")
    )


def test_nothing_to_find_and_unequal_numbers():
    assert micro_f1([set()], [set()]).value == 100
    with pytest.raises(RequestError, match="got 2 and 1"):
        micro_f1([set()], [set(), set()])
    with pytest.raises(RequestError, match="no examples"):
        micro_f1([], [])
