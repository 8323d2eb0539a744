"""Which validation is the best, and when patience begins anew, by one metric and by several."""

import math

import pytest

from regard.train.validation import Validation


def validation(metric, *also):
    return Validation(
        None, [], None, {}, limit=0, metric=metric, also=also, lower={"per"}, tokens=1
    )


@pytest.mark.parametrize(
    ("new", "best", "found"),
    [
        ({"per": 3.0}, {}, (True, True)),
        ({"per": 2.0}, {"per": 3.0}, (True, True)),
        ({"per": 3.0}, {"per": 3.0}, (False, False)),
        ({"per": math.nan}, {"per": 3.0}, (False, False)),
        ({"per": 3.0, "loss": 1.0}, {"per": 3.0, "loss": 2.0}, (True, True)),  # the loss decides
        ({"per": 3.0, "loss": 2.0}, {"per": 3.0, "loss": 2.0}, (False, False)),
        ({"per": 3.1, "loss": 1.0}, {"per": 3.0, "loss": 2.0}, (False, False)),
    ],
)
def test_one_metric_must_be_better_than_it_ever_was(new, best, found):
    assert validation("per").improved(new, best) == found


@pytest.mark.parametrize(
    ("new", "found"),
    [
        ({"accuracy": 80.0, "loss": 1.0}, (True, True)),  # both as good as ever
        ({"accuracy": 81.0, "loss": 1.1}, (False, True)),
        ({"accuracy": 79.0, "loss": 0.9}, (False, True)),
        ({"accuracy": 79.0, "loss": 1.1}, (False, False)),
        ({"accuracy": math.nan, "loss": 0.9}, (False, True)),
    ],
)
def test_of_several_all_must_be_as_good_for_the_best_and_any_for_patience(new, found):
    best = {"accuracy": 80.0, "loss": 1.0}
    assert validation("accuracy", "loss").improved(new, best) == found
    assert validation("accuracy", "loss").improved(new, {}) == (
        not math.isnan(new["accuracy"]),
        True,
    )


def test_the_best_of_each_is_kept_apart():
    judge = validation("accuracy", "loss")
    best = judge.bests({"accuracy": 80.0, "loss": 1.0}, {})
    best = judge.bests({"accuracy": 79.0, "loss": 0.5}, best)
    best |= judge.bests({"accuracy": math.nan, "loss": 2.0}, best)
    assert best == {"accuracy": 80.0, "loss": 0.5}


def test_patience_lasts_while_the_loss_falls_under_a_score_at_its_floor():
    judge, best = validation("per"), {}
    for loss in (3.0, 2.5, 2.0, 2.2):
        new = {"per": 100.0, "loss": loss}
        hopeful = judge.improved(new, best)[1]
        best = {**best, **judge.bests(new, best)}
        assert hopeful == (loss != 2.2)
    assert best == {"per": 100.0, "loss": 2.0}
