"""An interrupted training continues to the same weights, bit for bit."""

import json
import signal
import subprocess
import time

import pytest

from tests.train.runs import command, environment, losses, recipe, run, steps


def interrupt(path, folder, number, after):
    """Start the training, send a signal once `after` steps are logged, give what it left."""
    process = subprocess.Popen(
        command(path, folder), env=environment(), stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 120
    while steps(folder) < after:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


@pytest.mark.slow
@pytest.mark.parametrize(("model", "bpe_dropout"), [("transformer", 0.1), ("rnnsearch", 0.0)])
def test_after_kill_and_after_ctrl_c_the_same_command_ends_in_the_same_weights(
    tmp_path, model, bpe_dropout
):
    path = recipe(tmp_path, model, bpe_dropout=bpe_dropout)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(path, whole)
    code, _ = interrupt(path, broken, signal.SIGKILL, after=50)
    assert code == -signal.SIGKILL
    assert not (broken / "config.json").exists()
    code, said = interrupt(path, broken, signal.SIGINT, after=130)
    assert code == 130, said
    assert "the same command continues" in said
    stopped = steps(broken)
    assert 130 <= stopped < 300
    done = run(path, broken)
    assert f"continuing after step {stopped}" in done.stderr
    weights = [(folder / "model.safetensors").read_bytes() for folder in (whole, broken)]
    assert weights[0] == weights[1]
    assert losses(whole) == losses(broken)
    assert sorted(losses(broken)) == list(range(1, 301))
    scores = [json.loads((folder / "metrics.json").read_text()) for folder in (whole, broken)]
    assert scores[0]["metrics"] == scores[1]["metrics"]
    assert scores[0]["dev"] == scores[1]["dev"]
    # A finished training says so and does nothing.
    before = (broken / "model.safetensors").stat().st_mtime_ns
    assert "finished already" in run(path, broken).stderr
    assert (broken / "model.safetensors").stat().st_mtime_ns == before
    # Nothing is loaded from the folder but plain data and safetensors.
    names = {p.suffix for p in broken.rglob("*") if p.is_file()}
    assert names <= {".json", ".jsonl", ".safetensors", ".yaml", ".md"}


@pytest.mark.slow
def test_another_seed_gives_other_weights(tmp_path):
    folders = []
    for seed in (1, 2):
        path = recipe(tmp_path, steps=5)
        path.write_text(path.read_text().replace("log: 1", f"log: 1\n  seed: {seed}"))
        folders.append(tmp_path / str(seed))
        run(path, folders[-1])
    assert losses(folders[0])[1] != losses(folders[1])[1]
