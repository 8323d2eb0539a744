"""A disk that is full, and files that are damaged: one sentence, and nothing half written."""

import contextlib
import os
import resource
import signal
from pathlib import Path

import pytest
import torch

from regard.errors import RegardError
from regard.system.files import replace_file
from regard.train.checkpoints import load_checkpoint, save_checkpoint, save_weights
from regard.train.log import Log
from tests.cli.run import run
from tests.cli.toy import folder  # noqa: F401

SMALL = [
    "pronunciation/rnnsearch-cmudict", "--tiny", "data.limit={train: 16, dev: 2, test: 2}",
    "data.train=pronunciation/dev.tsv.gz", "model.embed=16", "model.hidden=16", "model.align=16",
    "train.steps=3", "train.batch.tokens=128", "train.threads=1", "train.checkpoint.every=1",
    "train.validate.every=0",
]  # fmt: skip


@contextlib.contextmanager
def room(size: int):
    """No file may grow beyond `size` bytes: writing more fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_checkpoint_that_does_not_fit_leaves_the_one_before(tmp_path):
    path = tmp_path / "last.ckpt"
    save_checkpoint(path, {"step": 1})
    before = path.read_bytes()
    for save in (
        lambda: save_checkpoint(path, {"step": 2, "weights": torch.randn(100_000)}),
        lambda: save_weights(path, {"weights": torch.randn(100_000)}),
        lambda: replace_file(path, lambda beside: beside.write_bytes(b"x" * 400_000)),
    ):
        with room(50_000), pytest.raises(RegardError, match=r"last\.ckpt: could not be written: "):
            save()
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["last.ckpt"]


@pytest.mark.slow
def test_a_training_on_a_full_disk_says_so_in_one_sentence(capsys, tmp_path):
    with room(20_000):
        ran = run(capsys, "train", *SMALL, "-o", str(tmp_path))
    assert ran.code == 1
    last = ran.err.splitlines()[-1]
    assert "could not be written: file too large; make room and run the same command" in last
    assert "unexpected" not in ran.err
    assert "inline_container" not in ran.err
    assert not list(tmp_path.rglob(".*.ckpt.*"))
    ran = run(capsys, "train", *SMALL, "-o", str(tmp_path))
    assert ran.code == 0, ran.err


def test_a_log_that_does_not_fit_says_so(tmp_path):
    log = Log(tmp_path / "log.jsonl", bar=False)
    with room(10), pytest.raises(RegardError, match=r"log\.jsonl: could not be written: file too "):
        log.write(step=1, loss=2.0)
    log.close()


@pytest.mark.parametrize("name", ["page.html", "kept.seen", "figure.svg"])
def test_a_picture_that_does_not_fit_leaves_what_was_there(capsys, tmp_path, folder, name):  # noqa: F811
    if name == "figure.svg":
        pytest.importorskip("matplotlib")
    path = tmp_path / name
    path.write_text("before")
    with room(300):
        ran = run(capsys, "look", folder, "das Fenster", "-o", str(path))
    assert ran.code == 1
    assert f"{path}: could not be written: file too large" in ran.err
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    "damage",
    ["cut", *(pytest.param(d, marks=pytest.mark.slow) for d in ("text", "empty", "other"))],
)
@pytest.mark.slow
def test_a_damaged_checkpoint_is_said_in_our_words(capsys, tmp_path, damage):
    path = tmp_path / "checkpoints" / "last.ckpt"
    with room(20_000):
        run(capsys, "train", *SMALL, "-o", str(tmp_path))
    save_checkpoint(path, {"progress": {}, "weights": torch.zeros(2000)})
    content = path.read_bytes()
    if damage != "other":
        path.write_bytes({"cut": content[:-400], "text": b"step 3", "empty": b""}[damage])
    ran = run(capsys, "train", *SMALL, "-o", str(tmp_path))
    assert ran.code == 1
    last = ran.err.splitlines()[-1]
    assert "last.ckpt: this checkpoint is damaged, or none of this training;" in last
    assert "--fresh" in last
    assert "weights_only" not in ran.err
    assert len(ran.err.splitlines()) <= 3


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    torch.save({"step": Path("/")}, tmp_path / "a.ckpt")
    with pytest.raises(RegardError, match="damaged"):
        load_checkpoint(tmp_path / "a.ckpt")


def test_a_pipe_or_a_device_is_written_to_as_it_is(tmp_path):
    replace_file(Path("/dev/null"), lambda target: target.write_bytes(b"gone"))
    assert not Path("/dev/null").is_file()
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    replace_file(tmp_path / "link", lambda beside: beside.write_text("new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
