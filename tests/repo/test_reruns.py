"""What CI runs a second time, and what it does not."""

import os
import subprocess
import sys

import pytest

from tests.repo.tree import TOP

pytestmark = pytest.mark.slow  # each runs pytest twice

FLAKY = """
from pathlib import Path
def test_once():
    seen = Path(__file__).with_name("seen")
    if not seen.exists():
        seen.touch()
        assert False
def test_other():
    with Path(__file__).with_name("others").open("a") as file:
        file.write("x")
"""
BAD, BROKEN = "def test_bad():\n    assert 1 == 2\n", "import nothing_of_this_name\n"


def run(folder, text, rerun="1", several=("-n", "1")):
    (folder / "test_it.py").write_text(text, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    return subprocess.run(
        [sys.executable, str(TOP / "tools" / "tests.py"), *several], cwd=folder,
        env={**os.environ, "RERUN": rerun, "PYTHONPATH": str(TOP)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("several", [("-n", "1"), ("--forks", "2")])
def test_what_fails_once_is_named_and_no_failure(tmp_path, several):
    done = run(tmp_path, FLAKY, several=several)
    assert done.returncode == 0, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "PASSED test_it.py::test_once" in done.stdout
    assert (tmp_path / "others").read_text() == "x"  # what passed does not run again
    assert "all that failed passed when run again" in done.stdout


@pytest.mark.parametrize(("text", "rerun", "code"), [(BAD, "1", 1), (FLAKY, "", 1)])
def test_what_fails_twice_or_without_the_option_fails(tmp_path, text, rerun, code):
    assert run(tmp_path, text, rerun).returncode == code


def test_what_cannot_be_collected_fails(tmp_path):
    done = run(tmp_path, BROKEN)
    assert done.returncode != 0, done.stdout
    assert "passed when run again" not in done.stdout
