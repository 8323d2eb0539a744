"""Jobs beside a command: what is shown, which exit code it has, and that nothing stays behind."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.repo.tree import TOP

PROGRAM = [sys.executable, str(TOP / "tools" / "beside.py")]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="make runs on POSIX systems")


def run(*words):
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False)


def shell(command, name="job"):
    return ["--job", name, "sh", "-c", command]


def test_output_of_a_job_is_whole_and_says_how_it_ended():
    slow = shell("echo begun; sleep 0.3; echo 'not lost'", "slow")
    done = run(*slow, *shell("echo wrong >&2; exit 3", "bad"), "--then", "echo", "now")
    assert done.returncode == 3
    assert re.search(r"\[slow\] ended after \d+ s\nbegun\nnot lost\n", done.stdout)
    assert re.search(r"\[bad\] failed with exit code 3 after \d+ s\nwrong\n", done.stdout)
    assert "now\n" in done.stdout


@pytest.mark.parametrize(
    ("job", "command", "code"),
    [("0", "0", 0), ("0", "4", 4), ("3", "4", 4), ("5", "0", 0), ("5", "5", 5)],
)
def test_the_exit_code_is_the_commands_or_else_a_jobs(job, command, code):
    """pytest ends with 5 where no test was selected."""
    done = run(*shell(f"exit {job}"), "--then", "sh", "-c", f"exit {command}")
    assert done.returncode == code


def test_a_job_that_is_killed_is_a_failure():
    assert run(*shell("kill -9 $$"), "--then", "true").returncode == 137


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_ends_its_jobs(number, tmp_path):
    beat = tmp_path / "beat"
    words = shell(f"sh -c 'while true; do echo >> {beat}; sleep 0.05; done' & wait")
    process = subprocess.Popen([*PROGRAM, *words, "--then", "sleep", "60"])
    while not beat.exists():
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(20) == 130
    sizes = [0, 1]
    while sizes[-1] != sizes[-2] and len(sizes) < 20:
        time.sleep(0.7)
        sizes.append(beat.stat().st_size)
    assert sizes[-1] == sizes[-2], "a job's process still runs"
