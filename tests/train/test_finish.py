"""What a finished training says about itself."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from regard import native, train
from regard import recipe as recipes
from regard.recipe.train_section import Training
from regard.train.final_weights import choose
from regard.train.validation import Validation
from tests.train.runs import recipe


@pytest.mark.skipif(native.library() is None, reason="no compiled library")
@pytest.mark.parametrize(("model", "in_c"), [("rnnsearch", True), ("transformer", False)])
def test_scores_in_low_precisions_stand_in_the_folder_and_on_the_card(
    model, in_c, tmp_path, monkeypatch
):
    if not in_c:  # and a head of 8 is not packed
        monkeypatch.setenv("REGARD_PROGRAM", "0")
    quick = ["decode.name=greedy", "decode.max_length=4"]
    asked = recipes.load(recipe(tmp_path, model=model, steps=2, validate=0), quick)
    metrics = train.fit(asked, tmp_path / "run", progress=False)
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())
    card = (tmp_path / "run" / "README.md").read_text()
    assert kept["metrics"] == metrics["metrics"]
    if not in_c:
        assert "precision" not in kept
        assert "decoded in" not in card
        return
    assert kept["precision"].keys() == {"bfloat16", "int8"}
    for precision, scores in kept["precision"].items():
        change = scores["bleu"] - kept["metrics"]["bleu"]
        row = f"| bleu, decoded in {precision} | {scores['bleu']:.2f} | {change:+.2f} |"
        assert row in card


class Scores:
    """A task whose score is what the weight says of the examples that are decoded."""

    def __init__(self):
        self.decoded = []

    def judge(self, model, dev, sample, *_, **__):
        self.decoded.append(len(sample))
        right = [row == model.weight.item() for row in sample.rows]
        return 1.0, 1, {"bleu": sum(right) / len(right)}


class Rows:
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def subset(self, which):
        return Rows([self.rows[i] for i in which])


def test_final_weights_are_chosen_on_more_than_a_sample_of_dev(tmp_path):
    """The sample, first and last, is all 7; the rest of dev is all 3."""
    task, model = Scores(), torch.nn.Linear(1, 1, bias=False)
    dev = Rows([7.0, *[3.0] * 50, 7.0])
    validation = Validation(task, dev, None, {}, limit=2, metric="bleu", lower=set(), tokens=1)
    torch.nn.init.constant_(model.weight, 3.0)
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    save_file({"weight": torch.full((1, 1), 7.0)}, checkpoints / "best.safetensors")
    work = SimpleNamespace(
        model=model, validation=validation, settings=Training(steps=1), folder=tmp_path, ema=None,
        last=SimpleNamespace(files=lambda step: []), device=torch.device("cpu"),
        precision=nullcontext, progress=SimpleNamespace(step=9, best_step=5),
    )  # fmt: skip
    name, scores = choose(work)
    assert (name, model.weight.item()) == ("last", 3.0)
    assert scores["bleu"] == pytest.approx(50 / 52)
    assert task.decoded == [52, 52]
    assert len(validation.sample) == 2  # while training


@pytest.mark.parametrize(
    ("dtype", "columns", "warned"),
    [("int8", 64, False), ("int6", 64, False), ("float16", 2, False), ("int8", 2, True)],
)
def test_what_rounding_costs_is_scored_and_said(dtype, columns, warned, caplog):
    """The model's dev scores and weights are those of the folder."""
    weight = torch.linspace(-1, 1, 3 * columns).view(3, columns)

    class Off:
        metric, limit = "off", 0

        def __call__(self, model, *_):
            off = (model.weight - weight).abs().max().item()
            return {"off": off, "loss": 2 * off}

        def better_of(self, new, old):
            return new["loss"] < old["loss"]

    model = torch.nn.Linear(columns, 3, bias=False)
    with torch.no_grad():
        model.weight.copy_(weight)
    work = SimpleNamespace(
        model=model, validation=Off(), settings=Training(steps=1, dtype=dtype), ema=None,
        folder=Path("none"), last=SimpleNamespace(files=lambda step: []), precision=nullcontext,
        device=torch.device("cpu"), progress=SimpleNamespace(step=9, best_step=9),
    )  # fmt: skip
    with caplog.at_level("INFO", "regard.train"):
        name, scores = choose(work)
    off = (model.weight - weight).abs().max().item()
    assert name == "last"
    assert off > 0
    assert scores == {"off": off, "loss": 2 * off}
    said = [record.getMessage() for record in caplog.records]
    small = {"int8": columns * 3 + 12, "int6": columns * 3 + 12, "float16": columns * 6}[dtype]
    assert said[0] == (
        f"weights stored as {dtype}, {small / 1e3:.1f} KB (float32 {columns * 12 / 1e3:.1f} KB), "
        f"dev off {off:.4f} (float32 0.0000), dev loss {2 * off:.4f} (float32 0.0000)"
    )
    assert [f"train.dtype={dtype}: float16 would be no larger" in one for one in said[1:]] == [
        True
    ] * warned


def test_a_validation_that_decodes_nothing_or_enough_stays_as_it_is():
    dev = Rows([1.0] * 9)
    for limit, wide, count in ((0, 5, None), (4, 6, 6), (7, 6, 7), (4, 100, 9)):
        one = Validation(
            None, dev, None, {}, limit=limit, metric="loss", lower=set(), tokens=1
        ).wider(wide)
        assert (one.sample and len(one.sample)) == count
