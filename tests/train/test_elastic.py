"""`torchrun --max-restarts`: a process that is killed costs the steps since the last checkpoint."""

import math
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.train.runs import command, environment, losses, ranks_of, recipe, run, steps


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks into /proc")
@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_goes_on_after_a_killed_rank(rank, tmp_path):
    path = recipe(tmp_path, steps=120)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(path, whole, processes=2)
    words = command(path, broken, processes=2)
    words.insert(words.index("--standalone"), "--max-restarts=3")
    with open(tmp_path / "said", "w+") as said:
        process = subprocess.Popen(words, env=environment(), stderr=said)
        until = time.monotonic() + 200
        while steps(broken) < 50:
            assert process.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() < until
            time.sleep(0.01)
        before = ranks_of(process.pid)
        assert before.keys() == {0, 1}
        os.kill(before[rank], signal.SIGKILL)
        assert process.wait(timeout=300) == 0, (tmp_path / "said").read_text()
    assert "continuing after step" in (tmp_path / "said").read_text()
    assert losses(broken) == losses(whole)
    assert sorted(losses(broken)) == list(range(1, 121))
    name = "model.safetensors"
    assert (broken / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks into /proc")
def test_a_lost_machine_leaves_the_curve_as_it_is(tmp_path):
    """Two launchers, as on two machines; one is killed with its process, and the other goes on."""
    batch = "{tokens: 300, step_tokens: 600}"
    path = recipe(tmp_path, steps=60, batch=batch, checkpoint=5)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(path, whole)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = command(path, broken, processes=2)
    at = words.index("--standalone")
    words[at : at + 2] = [
        "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=one", "--rdzv-conf=last_call_timeout=8",
    ]  # fmt: skip
    told = [tmp_path / "said-0", tmp_path / "said-1"]
    started = []
    try:
        for place in told:
            with open(place, "w") as said:
                started.append(subprocess.Popen(words, env=environment(), stderr=said))
            until = time.monotonic() + 60  # the first one has the place where they meet
            while not _listens(port):
                assert time.monotonic() < until
                time.sleep(0.05)
        until = time.monotonic() + 200
        while steps(broken) < 20:
            assert [one.poll() for one in started] == [None, None], told[0].read_text()
            assert time.monotonic() < until
            time.sleep(0.01)
        lost = ranks_of(started[1].pid)
        assert len(lost) == 1
        started[1].kill()
        os.kill(*lost.values(), signal.SIGKILL)
        assert started[0].wait(timeout=300) == 0, told[0].read_text()
    finally:
        for one in started:
            one.kill()
    said = told[0].read_text() + told[1].read_text()
    assert "1 for each of 2 processes" in said
    assert "2 for each of 1 process" in said
    assert "continuing after step" in said
    one, other = losses(whole), losses(broken)
    assert sorted(one) == sorted(other) == list(range(1, 61))
    for step in one:
        assert math.isclose(one[step], other[step], rel_tol=1e-5), step


def _listens(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
