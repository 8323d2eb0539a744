"""Pictures and sounds in many tar files: read in place, a buffer at a time, nothing kept."""

import gzip
import io
import json
import tarfile
import wave

import numpy as np
import pytest

from regard.data.images.images import png
from regard.data.storage.shuffle_buffer import Lane
from regard.recipe import load
from regard.tasks.generation.captioning import Captioning
from regard.tasks.generation.speech import Speech
from regard.tasks.labels.images import Images
from regard.train import fit
from tests.tasks.pictured import drawn


def packed(path, members):
    """A tar file of named bytes."""
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            told = tarfile.TarInfo(name)
            told.size = len(content)
            archive.addfile(told, io.BytesIO(content))


def shards(folder, count=3, rows=20):
    """Tar files of pictures in folders that are named by their labels."""
    for n in range(count):
        made, labels = drawn(rows, n + 1)
        packed(folder / f"train-{n}.tar", {
            f"{label}/{i}.png": png(one)
            for i, (one, label) in enumerate(zip(made, labels, strict=True))
        })  # fmt: skip
    return {"files": f"{folder}/train-*.tar", "buffer": 16}


def taken(data, tokens=8):
    lanes = range(data.train.lanes)
    return [one for lane in lanes for one in Lane(data.train, lane, tokens=tokens, seed=1).once()]


def test_pictures_of_tar_shards_are_read_in_place(tmp_path):
    stream = shards(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    data = Images(size=8, channels=1).data({"stream": stream})
    assert data.train.lanes == 2
    seen = 0
    for one in taken(data):
        batch = one.examples.collate(one.indices)
        assert batch["image"].values.shape == (len(one.indices), 1, 8, 8)
        lit = batch["image"].values[:, 0].mean(2)
        up = lit[:, :4].mean(1) > lit[:, 4:].mean(1)
        named = [data.fields["label"].names[i] == "up" for i in batch["label"].tolist()]
        assert up.tolist() == named
        seen += len(named)
        column = one.examples.columns["image"]
        assert column.cache.room == 0
        assert not column.cache._kept
    assert seen == 60
    assert sorted(tmp_path.rglob("*")) == before


def test_captions_and_their_tar_files_are_found_by_name(tmp_path):
    for n in range(2):
        made, labels = drawn(6, n + 1)
        packed(tmp_path / f"{n}.tar", {f"{i}.png": png(one) for i, one in enumerate(made)})
        rows = [f"{i}.png\tthe {label} side\n" for i, label in enumerate(labels)]
        text = "".join(["file\tcaption\n", *rows])
        (tmp_path / f"{n}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    stream = {"files": f"{tmp_path}/*.tsv.gz", "buffer": 4}
    data = Captioning(size=8, channels=1).data({"stream": stream})
    found = taken(data)
    assert sum(len(one.indices) for one in found) == 12
    words = data.tokenizers["target"]
    said = {words.decode(row) for one in found
            for row in one.examples.collate(one.indices).target_out.tolist()}  # fmt: skip
    assert said == {"the up side", "the down side"}


def sound(seconds, pitch):
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        times = np.arange(int(8000 * seconds)) / 8000
        file.writeframes((np.sin(2 * np.pi * pitch * times) * 9000).astype("<i2").tobytes())
    return made.getvalue()


def test_sounds_of_tar_shards_keep_no_frames(tmp_path):
    for n in range(2):
        lengths = {f"{i}.wav": 0.1 + 0.02 * i for i in range(5)}
        packed(tmp_path / f"{n}.tar", {k: sound(v, 300 + 100 * n) for k, v in lengths.items()})
        rows = [json.dumps({"file": name, "text": "a b"}) + "\n" for name in lengths]
        (tmp_path / f"{n}.jsonl").write_text("".join(rows))
    stream = {"files": f"{tmp_path}/*.jsonl", "buffer": 4}
    data = Speech(rate=8000, filters=8).data({"stream": stream})
    for one in taken(data, tokens=100):
        one.examples.collate(one.indices)
        assert not one.examples.source.cache._kept


@pytest.mark.slow
def test_a_classifier_is_trained_from_tar_shards(tmp_path):
    stream = shards(tmp_path, 4)
    made, labels = drawn(40, 99)
    packed(tmp_path / "test.tar", {
        f"{label}/{i}.png": png(one)
        for i, (one, label) in enumerate(zip(made, labels, strict=True))
    })  # fmt: skip
    text = {
        "model": {"name": "vgg", "widths": [4, 8], "convolutions": [1, 1], "ffn_dim": 8,
                  "dropout": 0.0},
        "task": {"name": "images", "size": 8, "channels": 1},
        "data": {"stream": stream, "test": str(tmp_path / "test.tar")},
        "train": {"steps": 120, "batch": {"tokens": 20}, "log": 0, "threads": 1,
                  "optimizer": {"name": "adam", "lr": 0.01}},
    }  # fmt: skip
    (tmp_path / "r.yaml").write_text(json.dumps(text))
    metrics = fit(load(str(tmp_path / "r.yaml")).check(), tmp_path / "run", progress=False)
    assert metrics["metrics"]["accuracy"] > 95.0
