"""Several processes see what one sees that accumulates as much: the same loss curve."""

import math
import shutil
import signal
import subprocess
import time

import pytest

from tests.train.runs import command, environment, losses, recipe, run, steps


@pytest.mark.slow
def test_two_gloo_processes_give_the_losses_of_one(tmp_path):
    """DDP under torchrun, fp32, no dropout; losses are divided by the tokens of the whole step."""
    alone = tmp_path / "alone"
    run(recipe(tmp_path, dropout=0.0, steps=40, accumulate=4), alone)
    together = tmp_path / "together"
    run(recipe(tmp_path, dropout=0.0, steps=40, accumulate=2), together, processes=2)
    one, two = losses(alone), losses(together)
    assert sorted(one) == sorted(two) == list(range(1, 41))
    for step in one:
        assert math.isclose(one[step], two[step], rel_tol=1e-5), step
    assert one[40] < one[1] - 0.5  # and it learns
    assert (together / "model.safetensors").is_file()


@pytest.mark.slow
def test_fsdp_gives_the_losses_of_one(tmp_path):
    """Sharded weights, two gloo processes on the CPU."""
    alone = tmp_path / "alone"
    run(recipe(tmp_path, dropout=0.0, steps=20, accumulate=2), alone)
    path = recipe(tmp_path, dropout=0.0, steps=20)
    path.write_text(path.read_text().replace("log: 1", "log: 1\n  strategy: fsdp"))
    together = tmp_path / "together"
    run(path, together, processes=2)
    one, two = losses(alone), losses(together)
    for step in one:
        assert math.isclose(one[step], two[step], rel_tol=1e-5), step
    assert (together / "model.safetensors").is_file()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fsdp_goes_on_after_ctrl_c_and_with_another_number_of_processes(tmp_path):
    """What it saves is whole: weights, moments and averages."""
    alone, broken, fewer = (tmp_path / name for name in ("alone", "broken", "fewer"))
    run(recipe(tmp_path, dropout=0.0, steps=100, accumulate=2), alone)
    path = recipe(tmp_path, dropout=0.0, steps=100)
    text = path.read_text().replace("log: 1", "log: 1\n  strategy: fsdp")
    path.write_text(text.replace("examples: 0", "examples: 8"))
    process = subprocess.Popen(
        command(path, broken, processes=2), env=environment(), stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 120
    while steps(broken) < 25:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)  # torchrun passes it on
    assert process.wait(timeout=60) != 0
    assert 25 <= steps(broken) < 100
    assert (broken / "checkpoints" / "last.ckpt").is_file()
    shutil.copytree(broken, fewer)
    assert "continuing after step" in run(path, broken, processes=2).stderr
    one, two = losses(alone), losses(broken)
    assert sorted(two) == list(range(1, 101))
    for step in one:
        assert math.isclose(one[step], two[step], rel_tol=1e-4), step
    assert "continuing after step" in run(path, fewer).stderr
    assert losses(fewer)[100] < one[1] - 0.5
