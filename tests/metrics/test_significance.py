"""Intervals and paired tests: against plain loops, exact cases, and sacreBLEU's own test."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from regard.errors import RequestError
from regard.metrics import Sums, accuracy, bleu, bootstrap, chrf, holm, paired, per, wer

GOLDEN = Path(__file__).parents[1] / "golden"


def rate(each):
    """Percent of a list of zeros and ones."""
    return Sums.percent(np.array(each, float))


def test_sums_give_the_score_again():
    texts = json.loads((GOLDEN / "sacrebleu.json").read_text(encoding="utf-8"))
    hyp, ref = texts["hyp"], texts["ref"]
    several = [[r, r + " x"] for r in ref]
    scores = [bleu(hyp, ref), chrf(hyp, ref), per(hyp, ref), wer(hyp, several), bleu(hyp, several)]
    scores.append(accuracy(["a", "b"], ["a", "c"]))
    for score in scores:
        assert score.sums is not None
        whole = score.sums.of(score.sums.counts.sum(0))
        assert float(whole) == pytest.approx(score.value, abs=1e-9)
        some = score.sums.of(np.stack([score.sums.counts.sum(0), score.sums.counts[0]]))
        assert some.shape == (2,)


def test_the_interval_of_a_rate_is_about_the_normal_one():
    each = [1] * 300 + [0] * 700
    low, high, *_ = bootstrap(rate(each), samples=4000)
    wide = 1.96 * 100 * (0.3 * 0.7 / 1000) ** 0.5
    assert low == pytest.approx(30 - wide, abs=0.25)
    assert high == pytest.approx(30 + wide, abs=0.25)


def test_equal_systems_differ_by_nothing():
    each = [random.Random(1).random() < 0.5 for _ in range(50)]
    found = paired(rate(each), rate(each))
    assert (found.value, found.interval.low, found.interval.high, found.p) == (0, 0, 0, 1)


@pytest.mark.parametrize("worse", [0, 2])
def test_p_is_that_of_the_sign_test(worse):
    # 8 examples that only the second gets right, `worse` that only the first does, 30 alike:
    # randomization flips each of these coins, so p is the two-sided binomial one
    first = [0] * 8 + [1] * worse + [1] * 30
    second = [1] * 8 + [0] * worse + [1] * 30
    flips = 8 + worse
    draws = [bin(n).count("1") for n in range(2**flips)]
    true = sum(abs(2 * heads - flips) >= 8 - worse for heads in draws) / 2**flips
    found = paired(rate(first), rate(second), samples=20_000)
    assert found.value == pytest.approx(100 * (8 - worse) / len(first))
    assert found.p == pytest.approx(true, abs=0.006)


@pytest.mark.parametrize("seed", range(5))
def test_holm_rejects_what_its_procedure_rejects(seed):
    """From the smallest p on, reject while p <= level / (comparisons left); then stop."""
    draw = random.Random(seed)
    ps = [draw.random() ** 3 for _ in range(7)]
    ps[3] = ps[1]
    corrected = holm(ps)
    for level in (0.01, 0.05, 0.2, 0.5, 0.9):
        rejected = set()
        for left, place in zip(range(7, 0, -1), sorted(range(7), key=ps.__getitem__), strict=True):
            if ps[place] > level / left:
                break
            rejected.add(place)
        assert {place for place, p in enumerate(corrected) if p <= level} == rejected
    assert holm([]) == []
    assert holm([0.4]) == [0.4]


def test_the_paired_interval_is_that_of_plain_loops():
    draw = random.Random(3)
    a = np.array([[draw.randint(0, 3), draw.randint(3, 9)] for _ in range(40)], float)
    b = np.array([[draw.randint(0, 2), n] for _, n in a], float)
    found = paired(Sums.percent(a), Sums.percent(b), samples=3000)
    moved = []
    for _ in range(3000):
        some = [draw.randrange(40) for _ in range(40)]
        rates = [100 * sum(x[i][0] for i in some) / sum(x[i][1] for i in some) for x in (a, b)]
        moved.append(rates[1] - rates[0])
    low, high = np.percentile(moved, [2.5, 97.5])
    assert found.interval.low == pytest.approx(low, abs=0.6)
    assert found.interval.high == pytest.approx(high, abs=0.6)
    assert found.interval.low < found.value < found.interval.high


def test_the_same_verdict_as_sacrebleu():
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    draw = random.Random(7)
    words = [f"w{n}" for n in range(30)]
    refs = [" ".join(draw.choices(words, k=12)) for _ in range(80)]

    def spoiled(share):
        return [
            " ".join(draw.choice(words) if draw.random() < share else w for w in ref.split())
            for ref in refs
        ]

    base = spoiled(0.20)
    for share in (0.21, 0.10, 0.35):
        other = spoiled(share)
        named = [("base", base), ("other", other)]
        _, scores = PairedTest(named, {"BLEU": BLEU()}, [refs], test_type="ar", n_samples=2000)()
        theirs = scores["BLEU"][1]
        ours = paired(bleu(base, refs).sums, bleu(other, refs).sums, samples=2000)
        assert ours.value == pytest.approx(theirs.score - scores["BLEU"][0].score, abs=1e-6)
        assert ours.p == pytest.approx(theirs.p_value, abs=0.04)


def test_other_examples_are_refused():
    with pytest.raises(RequestError, match="got 2 and 3"):
        paired(rate([0, 1]), rate([0, 1, 1]))
