"""`--processes`: the training that torchrun would start, and how it ends."""

import signal
import subprocess
import time

import pytest

from tests.cli.run import run as run_here
from tests.train.runs import command, environment, losses, recipe, steps


def started(path, folder, processes=2):
    words = [*command(path, folder), "--processes", str(processes)]
    return subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE, text=True)


def wait_for(folder, count, process):
    until = time.monotonic() + 120
    while steps(folder) < count:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_saves_says_one_sentence_and_gives_130(tmp_path, number):
    folder = tmp_path / "model"
    path = recipe(tmp_path, steps=2000, dropout=0.0)
    with started(path, folder) as process:
        wait_for(folder, 15, process)
        process.send_signal(number)  # to the parent alone
        said = process.communicate(timeout=90)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "SignalException" not in said
    assert said.count("saved in") == 1
    assert (folder / "checkpoints" / "last.ckpt").is_file()
    made = max(losses(folder))
    with started(path, folder) as process:  # and it goes on
        wait_for(folder, made + 5, process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=90)
    assert process.returncode == 130


@pytest.mark.slow
def test_what_is_wrong_is_said_once(tmp_path):
    path = recipe(tmp_path, steps=20)
    path.write_text(path.read_text().replace("mt-bible-de/dev.tsv.gz", "nowhere.tsv"))
    with started(path, tmp_path / "model") as process:
        said = process.communicate(timeout=90)[1]
    assert process.returncode == 2, said
    assert said.count("nowhere.tsv") == 1
    assert "Traceback" not in said


def test_several_trainings_and_several_processes_do_not_go_together(capsys):
    ran = run_here(capsys, "train", "graphs/gat-cora", "--seeds", "1-2", "--processes", "2")
    assert ran.code == 2
    assert "--processes: expected one training" in ran.err
