"""A full disk, one that nothing can be written to, clocks that jump: a sentence, nothing lost."""

import json
import os
import shutil

import numpy as np
import pytest

import regard
from regard import loading
from regard.convert import export
from regard.data import formats
from regard.data.files.npz import arrays
from regard.data.storage import building
from regard.data.storage.store import opened
from regard.errors import RegardError, RequestError
from regard.folder import writing
from regard.system.files import replace_files
from tests.cli.run import run
from tests.faults.disks import disk, read_only
from tests.faults.kills import RECIPE
from tests.folder import toy


@pytest.fixture
def full(tmp_path):
    """A disk with room for little."""
    with disk(tmp_path / "disk", 160) as place:
        yield place


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return toy.make(tmp_path_factory.mktemp("disks") / "toy", "transformer")


def names(folder):
    """Everything below a folder, with its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(work):
    with pytest.raises(RegardError) as caught:
        work()
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_what_does_not_fit_leaves_what_was_there(full, made, tmp_path):
    (full / "a.conll").write_text("old")
    source = tmp_path / "in.conll"
    source.write_text("".join(f"word{i} O\n\n" for i in range(30_000)))
    weights = np.random.default_rng(0).random((1, 2, 300, 300)).astype(np.float32)
    loaded = loading.load(made)
    before = names(full)
    for work in (
        lambda: formats.write_back(source, full / "a.conll", {1: "X"}, 2),
        lambda: regard.view(weights).save(full / "a.seen", code="f16"),
        lambda: regard.view(weights).page(full / "a.html", code="f16"),
        lambda: replace_files(full / "model", {"config.json": b"{}", "w": b"x" * 300_000}),
        lambda: export(made, "huggingface", full / "out"),
        lambda: writing.save_pretrained(
            full / "again", loaded.model, task=loaded.config["task"], fields=loaded.fields,
            recipe={**toy.recipe("transformer"), "data": {"note": "x" * 200_000}},
        ),
    ):  # fmt: skip
        said = refused(work)
        assert "no space left on device" in said.lower()
        assert "make room" in said
        assert names(full) == before


def test_a_token_store_is_made_when_there_is_room(tmp_path):
    pairs = list(zip(toy.GERMAN, toy.ENGLISH, strict=True)) * 60
    rows = [(i, {"source": one, "target": other}) for i, (one, other) in enumerate(pairs)]
    with disk(tmp_path / "disk", 1000) as full:
        (full / "other").write_bytes(b"x" * 880_000)

        def build():
            return building.build(full / "s", rows, toy.tokenizers(False), 50, lambda *_: None)

        assert "make room and run the same command again" in refused(build)
        assert opened(full / "s") is None
        (full / "other").unlink()
        assert len(build()) == len(rows)
        assert not list((full / "s").glob("part-*"))
        assert not list((full / "s").glob(".*"))


@pytest.mark.slow
def test_a_training_goes_on_when_there_is_room(capsys, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "dev", "test"):
        toy.table(data / f"{split}.tsv")
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE % data)
    assert run(capsys, "train", str(path), "-o", str(tmp_path / "whole")).code == 0
    with disk(tmp_path / "disk", 100) as full:
        ran = run(capsys, "train", str(path), "-o", str(full / "model"))
        assert ran.code == 1
        assert "make room and run the same command again" in ran.err.splitlines()[-1]
        assert "unexpected" not in ran.err
        shutil.copytree(full, tmp_path / "roomy")
    for number in range(2):  # the second time it is finished already
        if number == 0:  # clocks of the machine that goes on say something else
            for one in (tmp_path / "roomy").rglob("*"):
                os.utime(one, (4e9, 4e9))
        ran = run(capsys, "train", str(path), "-o", str(tmp_path / "roomy" / "model"))
        assert ran.code == 0, ran.err
    weights = [(tmp_path / f / "model.safetensors").read_bytes() for f in ("whole", "roomy/model")]
    assert weights[0] == weights[1]


def test_a_disk_that_cannot_be_written_to_is_said_and_models_there_are_used(capsys, tmp_path, made):
    with disk(tmp_path / "disk", 4000) as place:
        shutil.copytree(made, place / "model")
        (place / "in.conll").write_text("a O\n")
        half = place / "half"
        shutil.copytree(made, half)
        (half / ".ready").mkdir()
        (half / "config.json").rename(half / ".ready" / "config.json")
        everything = [p.name for p in half.iterdir() if p.is_file()] + ["config.json"]
        (half / ".ready" / "files.json").write_text(json.dumps(everything))
        with read_only(place):
            expected = regard.load(made).predict(["das Fenster"])[0].output
            assert regard.load(place / "model").predict(["das Fenster"])[0].output == expected
            assert "read-only file system" in refused(
                lambda: export(place / "model", "huggingface", place / "out")
            )
            assert "read-only file system" in refused(
                lambda: replace_files(place / "model", {"config.json": b"{}"})
            )
            assert "read-only file system" in refused(
                lambda: formats.write_back(place / "in.conll", place / "out", {1: "X"}, 2)
            )
            assert "cut short" in refused(lambda: loading.load(half))
        assert regard.load(half).predict(["das Fenster"])[0].output == expected
        assert not (half / ".ready").exists()


@pytest.mark.slow
def test_commands_say_in_a_line_that_a_disk_cannot_be_written_to(capsys, tmp_path, made):
    with disk(tmp_path / "disk", 4000) as place:
        shutil.copytree(made, place / "model")
        with read_only(place):
            for words in (
                ["look", str(place / "model"), "a", "-o", str(place / "a.html")],
                ["export", str(place / "model"), "--to", "huggingface", "-o", str(place / "o")],
                ["train", "pronunciation/rnnsearch-cmudict", "-o", str(place / "t")],
            ):
                ran = run(capsys, *words)
                assert ran.code == 1
                assert "read-only file system" in ran.err.lower()
                assert len(ran.err.strip().splitlines()) == 1, ran.err


def test_arrays_that_change_while_the_clock_stands_still_are_read_again(tmp_path):
    path = tmp_path / "a.npz"
    for value in (1, 2):
        np.savez(tmp_path / "new.npz", a=np.full(3, value))
        os.replace(tmp_path / "new.npz", path)
        os.utime(path, (1e9, 1e9))
        assert arrays(str(path))["a"].tolist() == [value] * 3


def test_a_folder_in_the_future_is_used_like_any_other(made, tmp_path):
    shutil.copytree(made, tmp_path / "later")
    for one in (tmp_path / "later").iterdir():
        os.utime(one, (1e11, 1e11))
    assert regard.load(tmp_path / "later").predict(["das Fenster"])
    with pytest.raises(RequestError, match="no model folder"):
        regard.load(tmp_path / "gone")
