"""Video from a table of pictures to captions: clips are made, shuffled, given and looked at."""

import json

import numpy as np
import pytest

import regard
from regard import recipe, train
from regard.data.images import video
from regard.data.images.images import png
from regard.data.images.synthetic_video import Moving
from regard.tasks.generation.video import Video

pytest.importorskip("PIL")

SCENE = {"size": 16, "frames": 6, "moving": 3, "distance": 6, "seed": 1, "copies": 3}


def table(folder, sizes=(("train", 40), ("dev", 8), ("test", 8))):
    random = np.random.default_rng(1)
    for split, count in sizes:
        rows = ["file\tcaption"]
        for i in range(count):
            name = f"{split}{i}.png"
            one = np.full((8, 8, 3), random.integers(0, 60), np.uint8)
            (folder / name).write_bytes(png(one))
            rows.append(f"{name}\tA box.")
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def config(folder):
    return {split: str(folder / f"{split}.tsv") for split in ("train", "dev", "test")}


def test_captions_say_what_happens_and_only_training_has_copies(tmp_path):
    task = Video(scene=SCENE)
    data = task.data(config(table(tmp_path)))
    assert (len(data.train), len(data.test)) == (120, 8)
    scene = Moving(**SCENE)
    for i in range(8):
        (right,) = data.test.references[i]
        assert right == scene.said("a box", f"test{i}.png", 0)
    batch = data.train.collate([0, 1])
    assert batch.source.values.shape == (2, 6, 3, 16, 16)
    assert batch.source_lengths.tolist() == [6, 6]
    mixed = Video(scene=SCENE, shuffle=True).data(config(tmp_path), data.fields, ("test",)).test
    assert mixed.references == data.test.references
    ours, theirs = data.test.source.pixels(0), mixed.source.pixels(0)
    assert not np.array_equal(ours, theirs)
    assert sorted(map(bytes, ours)) == sorted(map(bytes, theirs))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Trained for a moment."""
    place = table(tmp_path_factory.mktemp("video"))
    text = {
        "model": {"name": "temporal", "widths": [4], "convolutions": [1], "motion": 8, "embed": 8,
                  "hidden": 16, "align": 8, "dropout": 0.0, "scale": None},
        "task": {"name": "video", "scene": SCENE},
        "data": {**config(place), "tokenizer": {"target": {"kind": "words"}}},
        "train": {"steps": 8, "batch": {"tokens": 96}, "log": 0, "validate": {"every": 0}},
    }  # fmt: skip
    (place / "own.yaml").write_text(json.dumps(text))
    train.fit(recipe.load(place / "own.yaml"), place / "run", progress=False)
    return place / "run"


def test_a_trained_model_reads_any_clip_and_shows_its_frames(folder, tmp_path):
    loaded = regard.load(str(folder))
    made = Moving(**SCENE).clip(np.zeros((8, 8, 3), np.uint8), "a", 0)
    (tmp_path / "a.gif").write_bytes(video.gif(made))  # equal frames in it are put together
    (tmp_path / "still.png").write_bytes(png(made[0]))
    said, refused = loaded.predict([str(tmp_path / "a.gif"), str(tmp_path / "still.png")])
    assert said.output
    assert "1 frame, 2 or more" in refused.refused
    view = loaded.task.view(loaded, [str(tmp_path / "a.gif")])
    axis = view.axes[view.maps[0].columns]
    assert (axis.grid, len(axis), axis.image[:4]) == ((1, 6), 6, b"\x89PNG")
    assert view.runs[0].panels[0].kind == "image"
