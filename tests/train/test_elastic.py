"""`torchrun --max-restarts`: a process that is killed costs the steps since the last checkpoint."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.run import SOURCE
from tests.train.runs import command, environment, losses, ranks_of, recipe, run, steps

WORKER = """
import os, signal, sys, time
import torch
from regard.train.distributed import connect

again, last = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0", os.environ["RANK"] == "1"
if again and last:  # the other one looks for it before it is there
    time.sleep(10)
connect(torch.device("cpu"))
value = torch.ones(3)
for _ in range(20):
    torch.distributed.all_reduce(value)
if last and not again:
    os.kill(os.getpid(), signal.SIGKILL)
torch.distributed.all_reduce(value)
# In one piece: both write into one pipe.
sys.stdout.write(f"sum of {3 * value[0].item() / 2 ** 21}\\n")
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_processes_find_each_other_again_after_a_restart(tmp_path):
    """Without `connect` they look for those of the attempt before, and fail or wait."""
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", "--max-restarts=1", str(script)],
        env={**environment(), "PYTHONPATH": path}, capture_output=True, text=True, timeout=200,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum of 3.0") == 2


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
        try:
            assert process.wait(timeout=300) == 0, (tmp_path / "said").read_text()
        finally:  # where they wait for each other without end
            for pid in (*ranks_of(process.pid).values(), process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    assert "continuing after step" in (tmp_path / "said").read_text()
    assert losses(broken) == losses(whole)
    assert sorted(losses(broken)) == list(range(1, 121))
    name = "model.safetensors"
    assert (broken / name).read_bytes() == (whole / name).read_bytes()
