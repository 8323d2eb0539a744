"""Scores of classes, numbers, rankings and calibration against other programs and by hand.

`tests/golden/sentences.json` holds what scikit-learn, SciPy and trec_eval's code compute;
`tests/metrics/golden_sentences.py` writes it.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.metrics import (
    bootstrap,
    expected_calibration_error,
    f1_of,
    fit_temperature,
    macro_f1,
    mean_average_precision,
    mean_reciprocal_rank,
    mean_squared_error,
    paired,
    pearson,
    reliability,
    spearman,
)

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "sentences.json").read_text("utf-8"))
CLASSES, NUMBERS, RANKED, HEAT = (
    GOLDEN[name] for name in ("classes", "correlation", "ranking", "temperature")
)


def near(value):
    return pytest.approx(value, abs=1e-9)


def total(score):
    """The score of its own sums."""
    return float(score.sums.of(score.sums.counts.sum(0)))


def test_macro_f1_and_its_classes():
    found = macro_f1(CLASSES["outputs"], CLASSES["references"])
    assert found.value == near(CLASSES["macro_f1"])
    assert found.parts["f1"] == {name: near(f1) for name, f1 in CLASSES["f1"].items()}
    assert "never a reference" in CLASSES["outputs"]
    assert "never a reference" not in found.parts["f1"]
    assert total(found) == near(found.value)
    assert "classes:of-references" in found.signature


def test_macro_f1_of_a_sample_is_that_of_its_examples():
    """Where a bootstrap sample lacks a class, the mean is over the classes it has."""
    found = macro_f1(["a", "b", "a", "c"], ["a", "b", "b", "c"])
    times = np.array([2, 0, 1, 0])  # a a b, said a a a: F1 of a 4/5, of b 0
    assert float(found.sums.of(times @ found.sums.counts)) == near(40.0)


@pytest.mark.parametrize("name", sorted(CLASSES["f1"]))
def test_f1_of_one_class(name):
    found = f1_of(CLASSES["outputs"], CLASSES["references"], name)
    assert found.value == near(CLASSES["f1"][name])
    assert total(found) == near(found.value)
    assert f"positive:{name}" in found.signature


def test_f1_of_a_class_that_is_nowhere():
    found = f1_of(["a"], ["b"], "1")
    assert found.value == 0
    assert found.parts["note"] == "no output and no reference is '1'"
    assert "note" not in f1_of(["1"], ["b"], "1").parts


@pytest.mark.parametrize("score", [pearson, spearman, mean_squared_error])
def test_numbers(score):
    found = score(NUMBERS["outputs"], NUMBERS["references"])
    assert found.value == near(NUMBERS[score.__name__])
    assert f"metric:{score.__name__}|" in found.signature
    if score is not spearman:
        assert total(found) == near(found.value)


def test_correlation_is_exact_far_from_zero():
    x, y = np.array(NUMBERS["outputs"]), np.array(NUMBERS["references"])
    # The decimals are multiples of 1/1024 first, so that the shift itself loses nothing.
    x, y = np.round(x * 1024) / 1024, np.round(y * 1024) / 1024
    near_zero, far = pearson(x, y), pearson(x + 2**20, y + 2**20)
    assert far.value == pytest.approx(near_zero.value, abs=1e-9)
    assert total(far) == pytest.approx(near_zero.value, abs=1e-9)


@pytest.mark.parametrize("score", [pearson, spearman])
def test_a_constant_side_gives_0_and_says_so(score):
    found = score([0.1, 0.1, 0.1], [1.0, 2.0, 3.0])
    assert found.value == 0
    assert found.parts["note"] == "constant outputs: no correlation is defined"
    assert score([7], [7]).parts["note"].startswith("constant outputs and references")
    if found.sums is not None:
        assert total(found) == 0
        assert bootstrap(found.sums, samples=10)[:2] == (0, 0)


def test_two_systems_compare_by_their_sums():
    """The sums of both are about the same shift, so exchanging outputs exchanges sums."""
    y = np.array(NUMBERS["references"])
    x, other = np.array(NUMBERS["outputs"]), y[::-1] + 40
    swap = np.arange(len(y)) % 3 == 0
    mixed = pearson(np.where(swap, other, x), y)
    sums = np.where(swap[:, None], pearson(other, y).sums.counts, pearson(x, y).sums.counts)
    assert float(mixed.sums.of(sums.sum(0))) == near(mixed.value)
    assert paired(pearson(other, y).sums, pearson(x, y).sums, samples=99).p == 0.01
    assert paired(pearson(x, y).sums, pearson(x, y).sums, samples=99).p == 1


def test_ranks_of_equal_numbers():
    # By hand: ranks 1.5, 1.5, 3 and 1, 2, 3.
    assert spearman([5, 5, 9], [1, 2, 3]).value == near(100 * 1.5 / np.sqrt(1.5 * 2))


@pytest.mark.parametrize("rule", ["both", "any"])
@pytest.mark.parametrize(
    ("score", "name"), [(mean_average_precision, "map"), (mean_reciprocal_rank, "recip_rank")]
)
def test_rankings_as_trec_eval(score, name, rule):
    found = score(RANKED["groups"], RANKED["scores"], RANKED["relevant"], rule)
    assert found.value == pytest.approx(RANKED["mean"][rule][name], abs=1e-5)  # it computes floats
    assert found.parts["questions"] == RANKED["questions"][rule]
    assert found.parts["questions"] + found.parts["left_out"] == len(set(RANKED["groups"]))
    assert found.parts["left_out"] > 0
    assert f"questions:{rule}|ties:later-first" in found.signature
    assert total(found) == near(found.value)
    assert len(found.sums.counts) == found.parts["questions"]


def test_rankings_by_hand():
    groups, scores = ["q", "r", "q", "q", "r"], [1.0, 3.0, 1.0, 0.5, 4.0]
    relevant = [True, True, False, False, True]
    # q: row 3 before row 1 as scores are equal, so ranks: no, yes, no. r: all relevant.
    assert mean_average_precision(groups, scores, relevant).value == 50
    assert mean_reciprocal_rank(groups, scores, relevant).value == 50
    assert mean_average_precision(groups, scores, relevant, "any").value == 75


def test_rankings_that_cannot_be():
    with pytest.raises(RequestError, match=r"'clean'; valid: any, both"):
        mean_reciprocal_rank(["q"], [1.0], [True], "clean")
    with pytest.raises(RequestError, match="none of 1 questions has relevant answers and irrele"):
        mean_average_precision(["q"], [1.0], [True])
    with pytest.raises(RequestError, match="as many judgments as outputs, got 1 and 2"):
        mean_average_precision(["q", "q"], [1.0, 2.0], [True])
    with pytest.raises(RequestError, match="the score nan in example 2"):
        mean_average_precision(["q", "q"], [1.0, float("nan")], [True, False])


def test_calibration_as_torchmetrics():
    other = pytest.importorskip("torchmetrics.functional.classification")
    draw = torch.Generator().manual_seed(3)
    p = (2 * torch.randn(400, 5, generator=draw, dtype=torch.float64)).softmax(1)
    labels = torch.randint(5, (400,), generator=draw)
    top, at = p.max(1)
    for bins in (1, 10, 15):
        found = expected_calibration_error(top.numpy(), (at == labels).numpy(), bins)
        true = other.multiclass_calibration_error(p, labels, 5, n_bins=bins)
        assert found.value == pytest.approx(100 * float(true), abs=1e-4)
        assert total(found) == near(found.value)
        assert f"bins:{bins}" in found.signature


def test_bins_are_closed_above():
    # By hand with two bins: 0 and 0.5 are in (0, 0.5], 0.75 and 1 in (0.5, 1].
    found = reliability([0.0, 0.5, 0.75, 1.0], [False, True, True, True], 2)
    assert found == [(0.25, 0.5, 2), (0.875, 1.0, 2)]
    assert reliability([0.9], [True], 3)[:2] == [(0, 0, 0)] * 2
    score = expected_calibration_error([0.0, 0.5, 0.75, 1.0], [False, True, True, True], 2)
    assert score.value == near(100 * (0.5 * 0.25 + 0.5 * 0.125))
    with pytest.raises(RequestError, match=r"from 0 to 1, got 1\.5 in example 2"):
        reliability([0.2, 1.5], [True, True])
    with pytest.raises(RequestError, match="at least one bin, got 0"):
        reliability([0.2], [True], 0)


def test_temperature_as_scipy_finds_it():
    logits, labels = np.array(HEAT["logits"]), np.array(HEAT["labels"])
    assert fit_temperature(logits, labels) == pytest.approx(HEAT["temperature"], abs=1e-6)
    unlabeled = np.concatenate([labels, [-1, -100]])
    more = np.concatenate([logits, np.full((2, 4), 50.0)])
    assert fit_temperature(more, unlabeled) == fit_temperature(logits, labels)
    assert fit_temperature(7 * logits, labels) == pytest.approx(7 * HEAT["temperature"], abs=1e-5)
    assert fit_temperature(logits + 1000, labels) == pytest.approx(HEAT["temperature"], abs=1e-6)
    barred = np.concatenate([logits, np.full((80, 1), -np.inf)], 1)  # a class that cannot be
    assert fit_temperature(barred, labels) == fit_temperature(logits, labels)


def test_temperature_at_its_ends():
    assert fit_temperature(np.array([[1.0, 0.0]]), np.array([0])) == pytest.approx(0.01)
    assert fit_temperature(np.array([[1.0, 0.0]]), np.array([1])) == pytest.approx(100)
    assert fit_temperature(np.zeros((3, 2)), np.array([0, 0, 1])) == 1
    with pytest.raises(RequestError, match="no example has a label"):
        fit_temperature(np.zeros((2, 2)), np.array([-1, -1]))
    with pytest.raises(RequestError, match="labels below 2, the classes, got 2"):
        fit_temperature(np.zeros((1, 2)), np.array([2]))
    with pytest.raises(RequestError, match="not a number"):
        fit_temperature(np.array([[np.nan, 1.0]]), np.array([0]))


@pytest.mark.parametrize(
    ("score", "one"),
    [
        (macro_f1, "a"), (lambda a, b: f1_of(a, b, "a"), "a"), (pearson, 1.0), (spearman, 1.0),
        (mean_squared_error, 1.0),
    ],
)  # fmt: skip
def test_nothing_to_score_and_unequal_numbers(score, one):
    with pytest.raises(RequestError, match="there are no examples"):
        score([], [])
    with pytest.raises(RequestError, match="got 2 and 1"):
        score([one], [one, one])
