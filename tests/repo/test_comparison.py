"""The comparison of scores and selections: its runs, how it continues, and what it concludes."""

import json
import random
import sys

import numpy as np
import pytest
import torch

from regard.attention import Hard, StraightThrough
from regard.metrics import holm
from tests.repo.tree import TOP

sys.path.insert(0, str(TOP / "benchmarks"))
import compared
import comparison

sys.path.pop(0)


@pytest.fixture
def small(monkeypatch):
    """One score, two selections, two seeds, short strings, hardly any training."""
    monkeypatch.setattr(comparison, "SCORES", {"dot": "dot"})
    selects = {name: comparison.SELECTS[name] for name in ("softmax", "hard")}
    monkeypatch.setattr(comparison, "SELECTS", selects)
    monkeypatch.setattr(comparison, "SEEDS", (1, 2))
    monkeypatch.setattr(comparison, "TESTED", (3, 4))
    made = []
    one = comparison.one

    def quick(*words):
        made.append(words)
        return one(*words, updates=2)

    monkeypatch.setattr(comparison, "one", quick)
    return made


def test_a_stopped_comparison_continues(tmp_path, small):
    path = tmp_path / "runs.jsonl"
    comparison.run(path)
    whole = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(whole) == len(small) == 8
    told = json.loads(whole[0])
    assert {key: len(text) for key, text in told["right"].items()} == {"3": 12, "4": 12}
    assert told["updates"] == 2
    path.write_text("".join(whole[:5]) + whole[5][:40], encoding="utf-8")
    small.clear()
    comparison.run(path)
    assert len(small) == 3
    again = path.read_text(encoding="utf-8").splitlines()
    keys = [[json.loads(line)[k] for k in ("task", "select", "seed", "right")] for line in whole]
    found = [[json.loads(line)[k] for k in ("task", "select", "seed", "right")] for line in again]
    assert found == keys


def test_every_cell_is_built_from_settings_alone():
    for score, select in comparison.cells():
        attention = comparison.model_of(score, select).attention
        if select == "hard":
            assert isinstance(attention.select, StraightThrough)
    assert isinstance(comparison.model_of("dot", "reinforce").attention.select, Hard)
    assert comparison.model_of("cosine-8", "softmax").attention.score.scale == 8.0
    assert len(list(comparison.cells("cosine-8,reinforce"))) == 1 + 3
    with pytest.raises(SystemExit, match="expected cosine-8 or reinforce"):
        list(comparison.cells("cosine-9"))


def test_strings_are_scored_as_they_are_written(monkeypatch):
    """A decoder that writes all but the last symbol; the last string is whole."""

    class Written:
        def __call__(self, model, source, lengths):
            rows = [row[: n - 2].tolist() for row, n in zip(source, lengths, strict=True)]
            rows[-1] = source[-1].tolist()
            return [[type("H", (), {"tokens": row})] for row in rows]

    monkeypatch.setattr(comparison, "Greedy", Written)
    found = comparison.right(None, flip=False)
    assert found["3"] == "2" * 11 + "3"
    assert found["24"] == "n" * 11 + "o"
    backwards = comparison.right(None, flip=True)  # a string and its reverse share some symbols
    assert 0 < sum(int(digit, 36) for digit in backwards["24"]) < 12 * 12


def test_reinforce_has_the_gradient_of_its_choices():
    """Words of log p -1 and -3 against a mean of 0: each choice is pushed by its reward."""
    model = comparison.model_of("dot", "reinforce")
    reinforced = comparison.Reinforced(model)
    reinforced.log_prob = torch.tensor([[0.2, 0.5, 0.9]], requires_grad=True)
    loss, gold = torch.tensor([[1.0, 3.0, 0.0]]), torch.tensor([[5, 6, comparison.PAD]])
    value = reinforced(loss, gold)
    (slope,) = torch.autograd.grad(value, reinforced.log_prob)
    torch.testing.assert_close(slope, torch.tensor([[0.5, 1.5, 0.0]]))  # -(reward - mean) / 2
    assert reinforced.average.item() == pytest.approx(-0.2)


def made_runs():
    """Runs of the full table in which shares are known: local-m is better, the cosine worse."""
    draw, found = random.Random(1), []
    for task in comparison.TASKS:
        for score in comparison.SCORES:
            for select in comparison.SELECTS:
                for seed in (1, 2, 3):
                    chance = 0.5 + 0.3 * (select == "local-m") - 0.3 * (score == "cosine")
                    right = {
                        str(n): "".join(
                            comparison.DIGITS[sum(draw.random() < chance for _ in range(n))]
                            for _ in range(12)
                        )
                        for n in range(3, 25)
                    }
                    found.append({
                        "task": task, "score": score, "select": select, "seed": seed,
                        "updates": 3, "cpu": 1.0, "right": right,
                    })  # fmt: skip
    return found


def share(run, first, last):
    """In plain loops."""
    right = sum(int(d, 36) for n in range(first, last + 1) for d in run["right"][str(n)])
    return 100 * right / (12 * sum(range(first, last + 1)))


def test_the_summary_is_that_of_plain_loops():
    runs = made_runs()
    found = compared.summary(runs, samples=400)
    assert (found["runs"], found["seeds"], found["cpu"]) == (252, [1, 2, 3], 252.0)
    told = found["tasks"]["reversing"]["longer"]

    def shares(**wanted):
        return [
            share(run, 13, 24)
            for run in runs
            if run["task"] == "reversing" and all(run[k] == v for k, v in wanted.items())
        ]

    base = np.mean(shares(score="dot", select="softmax"))
    for one in told["cells"]:
        own = shares(score=one["score"], select=one["select"])
        assert one["right"] == pytest.approx(np.mean(own), abs=1e-3)
        assert one["sd"] == pytest.approx(np.std(own, ddof=1), abs=1e-3)
        if (one["score"], one["select"]) != ("dot", "softmax"):
            assert one["difference"] == pytest.approx(np.mean(own) - base, abs=1e-3)
    tested = [one for one in told["cells"] if "p" in one]
    assert len(tested) == 41
    for each, count in ((tested, 41), (told["scores"], 21), (told["selects"], 15)):
        assert len(each) == count
        assert [one["p_holm"] for one in each] == pytest.approx(
            holm([one["p"] for one in each]), rel=1e-3
        )
    for pair in told["scores"]:
        gap = np.mean(shares(score=pair["second"])) - np.mean(shares(score=pair["first"]))
        assert pair["difference"] == pytest.approx(gap, abs=1e-3)
        assert (pair["p_holm"] < 0.06) is ("cosine" in (pair["first"], pair["second"]))
    assert told["mean"]["local-m"] == pytest.approx(np.mean(shares(select="local-m")), abs=1e-3)
    line = found["tasks"]["copying"]["by_length"]["cosine"]
    own = [r for r in runs if r["task"] == "copying" and r["score"] == "cosine"]
    assert line[-1] == pytest.approx(np.mean([share(run, 24, 24) for run in own]), abs=1e-3)


def test_a_table_with_a_gap_is_refused():
    with pytest.raises(SystemExit, match="251 runs, expected 252"):
        compared.summary(made_runs()[1:], samples=9)
