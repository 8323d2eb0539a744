"""Tests in forked processes: results, failures, fixtures, warnings and processes that die."""

import os
import re
import subprocess
import sys

import pytest
from tools import tests as tool

from tests.repo.tree import TOP

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes fork on Linux alone")
MANY = """
import os, warnings
import pytest

@pytest.fixture(scope="session")
def ours():
    yield os.getpid()
    print("the end of a session's fixture")

@pytest.mark.parametrize("n", range(30))
def test_ok(n, ours, tmp_path):
    assert ours == os.getpid() != int(os.environ["PARENT"])
    print("never shown")
    (tmp_path / "x").write_text("x")
    if n < 2:
        warnings.warn("said twice")
    with open(os.environ["SEEN"], "a") as file:
        file.write(f"{os.getpid()} {tmp_path.parent.name}\\n")
"""
ODD = """
import os, time
import pytest

def test_bad():
    print("said before it")
    assert 1 == 2

def test_exit():
    os._exit(3)

def test_signal():
    os.kill(os.getpid(), 9)

@pytest.mark.skip(reason="not today")
def test_skipped():
    pass

@pytest.mark.xfail
def test_expected():
    assert False

@pytest.fixture
def broken():
    yield
    raise ValueError("at its end")

def test_end(broken):
    pass

def test_captured(capfd):
    os.system("echo hello")
    assert capfd.readouterr().out == "hello\\n"
"""


def run(folder, *more, **files):
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    words = ["-q", "-p", "tests.forks", "--forks", "3", "-p", "no:cacheprovider", *more]
    return subprocess.run(
        ["sh", "-c", 'PARENT=$$ exec "$@"', "sh", sys.executable, "-m", "pytest", *words],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(TOP), "SEEN": str(folder / "seen")},
    )  # fmt: skip


def test_whatever_a_test_does_is_reported_once(tmp_path):
    done = run(tmp_path, many=MANY, odd=ODD)
    assert done.returncode == 1, done.stderr
    said = done.stdout
    counts = "3 failed, 32 passed, 1 skipped, 1 xfailed, 2 warnings, 1 error"
    assert counts in said, said
    assert "the process of this test ended: exit code 3" in said
    assert "the process of this test ended: signal 9" in said
    assert "said before it" in said
    assert "ValueError: at its end" in said
    assert "UserWarning: said twice" in said
    assert "never shown" not in said + done.stderr
    assert re.search(r"^FAILED test_odd.py::test_exit", said, re.MULTILINE)
    lines = (tmp_path / "seen").read_text().splitlines()
    assert len(lines) == 30
    assert len({line.split()[0] for line in lines}) == len(set(lines)) > 1  # a folder each


def test_the_first_failure_may_end_it(tmp_path):
    slow = "import time\ndef test_slow():\n    time.sleep(60)\n"
    done = run(tmp_path, "-x", a="def test_a():\n    assert False\n", b=slow)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "passed" not in done.stdout


def test_where_it_cannot_fork_other_processes_are_begun():
    words = ["--forks", "3", "-m", "slow"]
    assert tool.spread(words, "linux") == (["-p", "tests.forks", "--forks", "3"], ["-m", "slow"])
    assert tool.spread(words, "darwin") == (["-n", "3"], ["-m", "slow"])
    assert tool.spread(["-n", "2"], "linux") == ([], ["-n", "2"])
