"""Killed at any moment: nothing half is under a final name, and the next run goes on."""

import json
import os
import subprocess
import sys

import pytest

from regard import loading
from regard.convert import export
from regard.data.storage import building
from regard.errors import RequestError
from regard.system import files
from regard.system.files import LIST, READY, replace_files, settle, sweep
from tests.cli.run import SOURCE
from tests.faults.kills import KINDS
from tests.folder import toy

OWNED = ("tokenizer*.json",)


class Killed(BaseException):
    """Stands for SIGKILL: nothing that cleans up may see it."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_work_that_is_killed(kind):
    words = [sys.executable, "-m", "tests.faults.kills", kind, "--kills", "6", "--seed", "3"]
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=SOURCE.parent, check=False,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 kills, 0 kinds" in done.stdout


def killed_after(moves, monkeypatch, work):
    """Do the work, killed at a later `os.replace`."""
    left, real = [moves], os.replace

    def replace(one, other):
        if not left[0]:
            raise Killed
        left[0] -= 1
        real(one, other)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(Killed):
            work()


@pytest.mark.parametrize("moves", [0, 1, 2, 3, 4, 5])
def test_a_folder_that_is_written_over_is_whole_wherever_it_was_cut(moves, monkeypatch, tmp_path):
    old = toy.make(tmp_path / "out", "transformer", seed=0)
    assert (old / "tokenizer.json").is_file()
    new = toy.make(tmp_path / "new", "rnnsearch", seed=1)
    files = {one.name: one.read_bytes() for one in new.iterdir()}
    killed_after(moves, monkeypatch, lambda: replace_files(old, files, OWNED))
    assert (old / READY).is_dir()
    found = loading.load(old)
    assert repr(found.model) == repr(loading.load(new).model)
    assert {p.name: p.read_bytes() for p in old.iterdir()} == files  # no tokenizer.json either


def test_the_next_one_who_writes_finishes_what_was_left(monkeypatch, tmp_path):
    killed_after(1, monkeypatch, lambda: replace_files(tmp_path, {"a": b"1", "b": b"1"}))
    replace_files(tmp_path, {"c": b"2"})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"1", "b": b"1", "c": b"2"}


@pytest.mark.parametrize(
    "told", ['["../x"]', '[".x"]', '["/x"]', "{}", "[1]", "[", '["a", "b/c"]', "\xff"]
)
def test_a_list_of_a_stranger_moves_nothing_elsewhere(told, tmp_path):
    folder = tmp_path / "model"
    (folder / READY).mkdir(parents=True)
    (folder / READY / LIST).write_text(told)
    (tmp_path / "x").write_text("mine")
    settle(folder)
    assert (tmp_path / "x").read_text() == "mine"
    assert (folder / READY / LIST).is_file()


def test_a_link_is_not_followed(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / LIST).write_text('["secret"]')
    (other / "secret").write_text("mine")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / READY).symlink_to(other)
    settle(tmp_path / "model")
    assert (other / "secret").is_file()


def test_what_was_left_half_is_swept_and_nothing_else(tmp_path):
    kept = [".training", ".last.ckpt.x", "model.1", ".hidden.json"]
    for name in [*kept, ".last.ckpt.123", ".recipe.yaml.9"]:
        (tmp_path / name).touch()
    (tmp_path / ".saving-abc" / READY).mkdir(parents=True)
    sweep(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(kept)


def test_an_export_over_another_is_never_half_of_it(monkeypatch, tmp_path):
    made, out = toy.make(tmp_path / "toy", "transformer"), tmp_path / "out"
    names = set(export(made, "huggingface", out))
    seen = []
    real = os.rename

    def rename(self, target):
        seen.append({p.name for p in out.iterdir()} if out.exists() else set())
        real(self, target)
        return target

    monkeypatch.setattr(files.Path, "rename", rename)
    export(made, "huggingface", out, force=True)
    assert seen == [names, set()]  # whole, then away, then the new one
    assert {p.name for p in out.iterdir()} == names


def test_a_part_that_the_process_of_a_killed_one_finished_counts(tmp_path):
    """A process that encodes lives a little longer than the one that asked it."""

    def nothing(rows):
        return {}, {}

    words = toy.tokenizers(False)
    rows = [(i, {"source": s, "target": t}) for i, (s, t) in
            enumerate(zip(toy.GERMAN, toy.ENGLISH, strict=True))]  # fmt: skip
    for name, one in words.items():
        one.save(tmp_path / f"{name}.json")
    building._raw(tmp_path / "part-000000.raw", rows, dict.fromkeys(words, str), nothing, ())
    building.encoded(tmp_path, "part-000000.npz", [*words], 50)
    assert not (tmp_path / "part-000000.raw").exists()
    building.encoded(tmp_path, "part-000000.npz", [*words], 50)  # asked a second time
    with pytest.raises(FileNotFoundError):
        building.encoded(tmp_path, "part-000001.npz", [*words], 50)


def test_damaged_metrics_of_a_finished_training_are_said(tmp_path):
    from regard import recipe
    from regard.train.run import _finished

    path = tmp_path / "recipe.yaml"
    path.write_text(
        "model: {name: rnnsearch}\ntask: {name: translation}\ntrain: {steps: 1}\n"
        "data: {path: mt-bible-de, columns: {source: de, target: en}}\n"
    )
    mine = recipe.load(path)
    path.write_text(mine.dump())
    (tmp_path / "config.json").write_text("{}")
    for text in ("{", "[]", '{"a": \xff'):
        (tmp_path / "metrics.json").write_text(text, "latin-1")
        with pytest.raises(RequestError, match="--fresh trains again"):
            _finished(mine, tmp_path)
    (tmp_path / "metrics.json").write_text(json.dumps({"metrics": {}}))
    assert _finished(mine, tmp_path) == {"metrics": {}}
