"""One training a folder: who has it is said, and the lock ends with its process."""

import signal
import subprocess
import sys

import pytest

from regard.errors import RequestError
from regard.system.lock import FILE, locked
from tests.cli.run import SOURCE, run

HOLD = """
import sys, time
from pathlib import Path
from regard.system.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""
SMALL = [
    "pronunciation/rnnsearch-cmudict", "--tiny", "data.limit={train: 16, dev: 2, test: 2}",
    "data.train=pronunciation/dev.tsv.gz", "model.embed=4", "model.hidden=4", "model.align=4",
    "model.maxout=4", "train.steps=1", "train.batch.tokens=128", "train.threads=1",
    "train.validate.every=0",
]  # fmt: skip


@pytest.mark.slow
def test_a_second_training_is_told_of_the_first_until_that_is_killed(capsys, tmp_path):
    folder = tmp_path / "model"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], env={"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        try:
            assert other.stdout.readline() == "held\n"
            before = {path.name for path in folder.iterdir()}
            for more in ([], ["--fresh"]):
                ran = run(capsys, "train", *SMALL, *more, "-o", str(folder))
                assert ran.code == 2
                assert f"another process trains here (process {other.pid} on " in ran.err
                assert "-o trains elsewhere, --force ignores the lock" in ran.err
            assert {path.name for path in folder.iterdir()} == before
            forced = run(capsys, "train", *SMALL, "--force", "-o", str(folder / "forced"))
            assert forced.code == 0, forced.err
            with locked(folder, force=True):
                assert (folder / FILE).read_text().startswith(f"process {other.pid} ")
        finally:
            other.send_signal(signal.SIGKILL)
    ran = run(capsys, "train", *SMALL, "-o", str(folder))
    assert ran.code == 0, ran.err
    assert not (folder / FILE).exists()


@pytest.mark.slow
def test_force_trains_all_the_same(capsys, tmp_path):
    with locked(tmp_path):
        ran = run(capsys, "train", *SMALL, "--force", "-o", str(tmp_path))
    assert ran.code == 0, ran.err
    assert "--force: both write it now" in ran.err


def test_a_lock_is_let_go_also_where_the_training_fails(tmp_path):
    folder = tmp_path / "model"
    with locked(folder), pytest.raises(RequestError, match="another process"), locked(folder):
        pass
    assert not folder.exists()
    with locked(folder):
        (folder / "kept").touch()
    assert [path.name for path in folder.iterdir()] == ["kept"]
