"""Captions: of pictures a little changed, and through a network that others trained."""

import json
import re
import shutil

import numpy as np
import pytest
import torch

import regard
from regard import recipe, train
from regard.data.images.augment import Varied
from regard.data.images.images import png
from regard.errors import RequestError
from regard.tasks.generation.captioning import Captioning
from tests.cli.run import run
from tests.data.images.test_backbones import onnx_file
from tests.tasks.pictured import drawn

pytest.importorskip("PIL")
SAID = {"up": "bright above", "down": "bright below"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Pictures beside tables of what is in them; a network beside both."""
    folder = tmp_path_factory.mktemp("captions")
    for seed, (split, count) in enumerate({"train": 40, "dev": 10, "test": 10}.items(), 1):
        rows = ["file\tcaption"]
        for i, (one, label) in enumerate(zip(*drawn(count, seed), strict=True)):
            (folder / f"{split}{i}.png").write_bytes(png(np.repeat(one, 3, 2)))
            rows.append(f"{split}{i}.png\t{SAID[label]}")
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    onnx_file(folder / "net.onnx")
    return folder


def fitted(data, place, model=None, **task):
    small = {"embed": 8, "hidden": 12, "align": 8, "dropout": 0.0, "scale": None}
    text = {
        "model": {"name": "show-attend-tell", "encoder": "none", **small, **(model or {})},
        "task": {"name": "captioning", "size": 8, **task},
        "data": {"path": str(data), "tokenizer": {"target": {"kind": "words"}}},
        "train": {
            "steps": 60, "batch": {"tokens": 60}, "log": 100, "seed": 1,
            "optimizer": {"name": "adam", "lr": 0.02}, "validate": {"every": 60, "examples": 10},
        },
        "decode": {"name": "beam", "beam_size": 2, "max_ratio": 0.0, "max_extra": 4},
    }  # fmt: skip
    (place / "own.yaml").write_text(json.dumps(text))
    return train.fit(recipe.load(place / "own.yaml"), place / "run", progress=False)


@pytest.fixture(scope="module")
def through(data, tmp_path_factory):
    """A captioner that looks through a network of somebody else's."""
    place = tmp_path_factory.mktemp("through")
    backbone = {"path": str(data / "net.onnx"), "cache": str(place / "kept")}
    return fitted(data, place, backbone=backbone), place


def test_a_captioner_learns_through_a_backbone_and_keeps_its_regions(through, data, capsys):
    found, place = through
    assert found["metrics"]["bleu2"] > 99.9
    assert len([*(place / "kept").rglob("*.npy")]) == 60  # each picture once
    loaded = regard.load(place / "run")
    assert not [n for n, _ in loaded.model.named_parameters() if n.startswith("features")]
    (said,) = loaded.predict([str(data / "test0.png")])
    assert said.output in SAID.values()
    again = run(capsys, "evaluate", str(place / "run"), "--json").result["metrics"]
    assert again == pytest.approx(found["metrics"])
    view = loaded.task.view(loaded, [str(data / "test0.png")])
    assert view.axes[view.maps[0].columns].grid == (4, 4)


def test_another_network_or_none_is_refused(through, data, tmp_path, capsys):
    _, place = through
    onnx_file(tmp_path / "other.onnx", seed=2)
    moved = shutil.copy(data / "net.onnx", tmp_path / "moved.onnx")
    for path, said in (
        (moved, ""),
        (tmp_path / "other.onnx", "is not the network of the training"),
        (tmp_path / "gone.onnx", "there is no"),
    ):
        told = ["--set", f"task.backbone={{path: {path}}}"]
        found = run(capsys, "predict", str(place / "run"), str(data / "test0.png"), *told)
        assert found.code == (2 if said else 0)
        assert re.search(said, found.err)


def test_an_encoder_of_its_own_reads_no_regions(data, tmp_path):
    backbone = {"path": str(data / "net.onnx")}
    sizes = {"encoder": "vgg", "widths": [4], "convolutions": [1]}
    with pytest.raises(RequestError, match=r"got regions of 5.*model.encoder=none"):
        fitted(data, tmp_path, sizes, backbone=backbone)
    (tmp_path / "none").mkdir()
    with pytest.raises(RequestError, match=r"model.encoder=none.*task.backbone"):
        fitted(data, tmp_path / "none")


def test_training_pictures_are_changed_and_others_are_not(data):
    task = Captioning(size=8, normalize=False, vary={"copies": 3, "light": 0})
    found = task.data({"path": str(data), "tokenizer": {"target": {"kind": "words"}}})
    plain = Captioning(size=8, normalize=False).data({"path": str(data)})
    assert (len(found.train), len(found.dev), len(found.test)) == (120, 10, 10)
    values = found.train.collate(range(120)).source.values
    assert len({one.numpy().tobytes() for one in values}) == 120
    assert torch.equal(found.train.collate(range(120)).source.values, values)
    for split in ("dev", "test"):
        same = getattr(plain, split).collate(range(10)).source.values
        assert torch.equal(getattr(found, split).collate(range(10)).source.values, same)


def test_no_change_changes_nothing_and_each_change_its_own():
    picture = np.random.default_rng(3).integers(0, 200, (9, 12, 3), np.uint8)
    none = dict.fromkeys(("turn", "zoom", "shift", "light", "blur"), 0)
    still = Varied(**none).changed(picture, np.random.default_rng(1))
    np.testing.assert_array_equal(still, picture)
    for name in none:
        change = Varied(**{**none, name: 40})
        made = [change.changed(picture, np.random.default_rng(seed)) for seed in range(4)]
        assert {one.shape for one in made} == {picture.shape}
        assert any(not np.array_equal(one, picture) for one in made), name
    # A quarter of the width to the right or left: the columns are those beside it.
    edge = np.zeros((8, 8, 1), np.uint8)
    edge[:, 4:] = 200
    for seed in range(5):
        random = np.random.default_rng(seed)
        drawn = np.random.default_rng(seed).uniform(-1, 1, 6)
        made = Varied(**{**none, "shift": 25}).changed(edge, random)
        assert abs(made[0, :, 0].sum() / 200 - (4 + 2 * drawn[2])) < 0.1


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        ({"copies": 0}, "one copy or more"),
        ({"turn": 91}, "from 0 to 90"),
        ({"turns": 3}, r"task.vary has no key 'turns'.*'turn'"),
        ({"turn": 1.5}, r"task.vary.turn: expected a whole number, got 1.5"),
    ],
)
def test_changes_that_cannot_be_are_refused(vary, said):
    with pytest.raises(RequestError, match=said):
        Captioning(vary=vary)
