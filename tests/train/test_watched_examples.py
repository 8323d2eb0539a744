"""`train.watch`: attention of a few examples while a recipe is trained, kept beside the run."""

import json

import numpy as np
import pytest
import torch

import regard
from regard import load, recipe, tasks, train, viewer
from regard.errors import RequestError
from regard.recipe.train_section import WatchSettings
from regard.train.watched_examples import FILE, Watching
from regard.watching import inspector
from tests.tasks.labeled import write
from tests.tasks.pictured import FORMS, PARTS

MODEL = {"name": "self-attentive", "embed": 8, "hidden": 6, "attention": 6, "hops": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data"), (40, 12, 12))


def trained(folder, data, watch=None, model=MODEL, **more):
    text = {
        "model": model, "task": {"name": "classification"}, "data": {"path": str(data)},
        "train": {
            "steps": 6, "batch": {"tokens": 120}, "log": 1, "validate": {"every": 3},
            "checkpoint": {"every": 2}, "final": "last", "threads": 1, **(watch or {}), **more,
        },
    }  # fmt: skip
    path = folder.parent / f"{folder.name}.yaml"
    path.write_text(json.dumps(text))
    train.fit(recipe.load(path), folder, progress=False)
    return folder


def watched(**section):
    return {"watch": {"every": 2, "examples": 2, **section}}


def same(a, b):
    """Weights, losses and scores of two runs, to the last bit."""
    assert (a / "model.safetensors").read_bytes() == (b / "model.safetensors").read_bytes()
    for name in ("loss", "norm", "dev"):
        told = [
            [
                line[name]
                for line in map(json.loads, (one / "log.jsonl").read_text().splitlines())
                if name in line
            ]
            for one in (a, b)
        ]
        assert told[0]
        assert told[0] == told[1]


def test_a_training_goes_on_as_if_nobody_had_looked(tmp_path, data):
    plain, own = trained(tmp_path / "a", data), trained(tmp_path / "b", data, watched())
    same(plain, own)
    assert not (plain / FILE).exists()
    view = viewer.read(own / FILE)
    assert [run.step for run in view.runs] == [0, 2, 4, 6] * 2
    assert len({run.input for run in view.runs}) == 2
    # What `regard look` shows of the finished model is what was kept last.
    loaded = load(str(own))
    text = view.runs[0].input.removeprefix("1: ")
    look = loaded.task.view(loaded, [text])
    last = view.runs[3]
    assert view.axes[view.maps[last.maps[0]].columns] == look.axes[look.maps[0].columns]
    for mine, kept in zip(look.runs[0].maps, last.maps, strict=True):
        np.testing.assert_allclose(view.maps[kept].weights, look.maps[mine].weights, atol=1e-3)
    assert (
        view.maps[last.maps[0]].weights.tolist() != view.maps[view.runs[0].maps[0]].weights.tolist()
    )
    assert not list(own.glob(".*"))  # nothing half is left


@pytest.mark.slow
@pytest.mark.parametrize("at", [3, 4])
def test_a_killed_training_goes_on_with_the_file(tmp_path, data, monkeypatch, at):
    whole = trained(tmp_path / "whole", data, watched(every=1))
    looked = Watching.step

    def killed(self, model, step, **more):
        looked(self, model, step, **more)
        if step == at:
            raise SystemError("killed")

    monkeypatch.setattr(Watching, "step", killed)
    with pytest.raises(SystemError):
        trained(tmp_path / "broken", data, watched(every=1))
    left = viewer.read(tmp_path / "broken" / FILE)
    assert {run.step for run in left.runs} == set(range(at + 1))
    monkeypatch.undo()
    broken = trained(tmp_path / "broken", data, watched(every=1))
    same(whole, broken)
    assert (whole / FILE).read_bytes() == (broken / FILE).read_bytes()


def test_inputs_can_be_named_and_other_examples_begin_anew(tmp_path, data, monkeypatch, caplog):
    caplog.set_level("INFO", "regard.train")
    section = watched(examples=["The film is great.", "The plot is dull. We saw it."])
    own = trained(tmp_path / "a", data, section)
    view = viewer.read(own / FILE)
    assert list(dict.fromkeys(run.input for run in view.runs)) == [
        "1: The film is great.", "2: The plot is dull. We saw it.",
    ]  # fmt: skip
    kept = inspector.Inspector([0], names=["x"], every=1)
    assert not kept.go_on(view)
    assert kept.steps == []


def test_what_cannot_be_looked_at_is_said_before_the_first_step(tmp_path, data):
    for section, said in (
        (watched(examples=[" "]), "train.watch: the input is empty"),
        (watched(examples=[]), "expected an input, got none"),
    ):
        with pytest.raises(RequestError, match=said):
            trained(tmp_path / "a", data, section)
    blind = {"name": "bag-of-ngrams"}
    with pytest.raises(RequestError, match=r"train\.watch: the model looks at nothing in"):
        trained(tmp_path / "b", data, watched(), model=blind)
    assert not (tmp_path / "b" / FILE).exists()


def test_steps_are_let_go_where_there_are_too_many():
    weights = torch.rand(2, 8, 8, generator=torch.Generator().manual_seed(1)).numpy()
    made = regard.view(weights, rows=list("abcdefgh"), kind="self")
    model = torch.nn.Linear(1, 1)
    kept = inspector.Inspector(
        [0], every=10, at=[5], look=lambda model, example: made, most=6 * 2 * weights.size
    )
    for step in range(0, 200, 5):
        kept.step(model, step)
        assert kept._size() <= 6 * 2 * weights.size
    assert kept.steps == [0, 5, 40, 80, 120, 160]
    assert kept.every == 40
    view = kept.view()
    assert [run.step for run in view.runs] == kept.steps
    assert len(view.maps) == 6
    again = inspector.Inspector([0], every=10, at=[5], look=kept._look)
    assert again.go_on(view, 100)
    assert (again.steps, again.every) == ([0, 5, 40, 80], 40)
    small = inspector.Inspector([0], every=1, look=kept._look, most=100)
    with pytest.raises(RequestError, match="take fewer or shorter examples"):
        small.keep(model, 0)


def test_weights_that_are_no_numbers_are_left_out_and_said(tmp_path, data, monkeypatch):
    task = tasks.load("classification")()
    looks = iter([1.0, 1.0, float("nan"), 1.0])

    def view(self, loaded, inputs, options=None):
        return regard.view(np.full((1, 2, 2), next(looks), np.float32), kind="self")

    monkeypatch.setattr(type(task), "view", view)
    said = []
    read = task.data({"path": str(data)})
    watching = Watching(WatchSettings(["a b"], 1), task, read, {}, tmp_path, say=said.append)
    for step in range(3):
        watching(torch.nn.Linear(1, 1), step)
    assert [run.step for run in viewer.read(tmp_path / FILE).runs] == [0, 2]
    assert said == [
        "train.watch: step 1 is not kept: step 1: weights to be kept must be finite numbers"
    ]


@pytest.mark.parametrize("form", sorted(FORMS))
def test_examples_may_be_pictures_of_the_data(tmp_path, form):
    text = {
        "model": PARTS, "task": {"name": "images", "size": 8, "channels": 1},
        "data": {"path": str(FORMS[form](tmp_path / "data"))},
        "train": {"steps": 2, "batch": {"tokens": 20}, **watched()},
    }  # fmt: skip
    (tmp_path / "own.yaml").write_text(json.dumps(text))
    train.fit(recipe.load(tmp_path / "own.yaml"), tmp_path / "run", progress=False)
    seen = viewer.read(tmp_path / "run" / FILE)
    assert {run.step for run in seen.runs} == {0, 2}
    assert len(seen.runs) == 4
