"""Linear start: when softmaxes come back, what begins anew then, and resuming in either phase."""

import json

import pytest
import torch

from regard import loading, recipe, train
from regard.attention import Identity, Softmax
from regard.errors import RequestError
from regard.train.loop import Work

TEXT = "1 Ann went {0}.\n2 Bob went {1}.\n3 Where is Ann?\t{0}\t1\n4 Where is Bob?\t{1}\t2\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("stories")
    places = ("home", "out", "away")
    text = "".join(TEXT.format(a, b) for a in places for b in places)
    for split in ("train", "dev", "test"):
        (path / f"qa1_x_{split}.txt").write_text(text)
    return path


def asked(data, *changes):
    """18 questions, 3 steps an epoch."""
    return recipe.load(
        "memory/memn2n-babi",
        [
            f"data.path={data}", "model.dim=8", "model.hops=2", "train.epochs=6",
            "task.linear_start=2", "train.batch.tokens=6", "train.log=1",
            "train.validate.every=3", "train.schedule.start=1", "train.schedule.every=1", *changes,
        ],
    )  # fmt: skip


def logged(folder, key):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line[key] for line in lines if key in line]


@pytest.fixture
def selects(monkeypatch):
    """What the hops' selects were at every loss of a training step."""
    found = []
    loss = Work.loss

    def spy(self, micro):
        found.append({type(hop.select) for hop in self.trained.hops})
        return loss(self, micro)

    monkeypatch.setattr(Work, "loss", spy)
    return found


def test_softmaxes_come_back_and_the_schedule_begins_anew(data, tmp_path, selects):
    train.fit(asked(data), tmp_path / "a", progress=False)
    assert selects == [{Identity}] * 6 + [{Softmax}] * 12
    rates = [round(rate / 0.002, 6) for rate in logged(tmp_path / "a", "lr")]
    phase = [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125]
    base = rates[0]
    assert [rate / base for rate in rates] == phase[:6] + phase


def test_no_linear_score_is_the_best_and_what_is_saved_has_its_softmaxes(data, tmp_path):
    folder = tmp_path / "a"
    found = train.fit(asked(data), folder, progress=False)
    bests = logged(folder, "best")
    scores = [dev["error"] for dev in logged(folder, "dev")]
    assert bests[1] == min(scores[:2])
    assert bests[2] == scores[2]  # the first validation with softmaxes
    assert {type(hop.select) for hop in loading.load(folder).model.hops} == {Softmax}
    short = tmp_path / "short"  # ends while it is linear
    train.fit(asked(data, "train.epochs=1"), short, progress=False)
    again = loading.load(short)
    test = again.task.data({"path": str(data)}, again.tokenizers, splits=("test",)).test
    predictions = again.task.predict(again.model, test, None, again.tokenizers)
    error = again.task.score(predictions, test)["error"].value
    kept = json.loads((short / "metrics.json").read_text())
    assert kept["metrics"]["error"] == pytest.approx(error)
    assert found["training"]["steps"] == 18


@pytest.mark.parametrize("step", [4, 6, 7, 13])
def test_an_interrupted_training_ends_in_the_same_weights(data, tmp_path, monkeypatch, step):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train.fit(asked(data), whole, progress=False)
    after = Work.after_step

    def interrupted(self, micro):
        self.interrupted = self.progress.step + 1 == step
        return after(self, micro)

    with monkeypatch.context() as patch:
        patch.setattr(Work, "after_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train.fit(asked(data), broken, progress=False)
    train.fit(asked(data), broken, progress=False)
    weights = [(f / "model.safetensors").read_bytes() for f in (whole, broken)]
    assert weights[0] == weights[1]
    assert logged(whole, "loss") == logged(broken, "loss")


def test_patience_ends_the_linear_phase_and_then_the_training(data, tmp_path, selects):
    changes = ("train.validate.patience=2", "train.epochs=30", "task.linear_start=20")
    with_zero = (*changes, "train.optimizer.lr=0.0")  # nothing ever gets better
    train.fit(asked(data, *with_zero), tmp_path / "a", progress=False)
    # Validations at 3, 6, 9: the first is the best, after two more the phase ends; and again.
    assert selects == [{Identity}] * 9 + [{Softmax}] * 9
    metrics = json.loads((tmp_path / "a" / "metrics.json").read_text())
    assert metrics["training"]["ended"] == "no better error in 2 validations"


def test_a_model_that_cannot_is_refused(data, tmp_path):
    from regard.tasks.phases import linear_start

    with pytest.raises(RequestError, match=r"task\.linear_start is for models whose"):
        linear_start(torch.nn.Linear(1, 1), 1.0)
    assert linear_start(torch.nn.Linear(1, 1), 0.0) == ()
