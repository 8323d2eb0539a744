"""The program of simple models, on sets small enough to be learned in full."""

import gzip
import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from regard.system.extras import install
from tests.repo.tree import TOP

pytestmark = pytest.mark.nohook

there = find_spec("sklearn") is not None


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, str(TOP / "benchmarks" / "baselines.py"), *arguments],
        env={**os.environ, "REGARD_DATA": str(folder), "PYTHONPATH": str(TOP / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.skipif(there, reason="scikit-learn is installed")
def test_without_scikit_learn_it_says_what_to_install(tmp_path, torch_process):
    code = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    program = str(TOP / "benchmarks" / "baselines.py")
    done = torch_process.run(code, program, "questions", REGARD_DATA=str(tmp_path))
    assert done.returncode == 1
    assert install("baselines") in done.stderr


@pytest.fixture
def data(tmp_path):
    """Questions told apart by a word, and pairs that are equal or have nothing in common."""
    questions = [
        {"text": f"{w} is thing {n}", "label": w, "fine": w}
        for n in range(10)
        for w in ("who", "how")
    ]
    pairs = [
        {"a": f"the cat {n} sat", "b": f"the cat {n} sat" if n % 2 else "no word", "label": n % 2}
        for n in range(20)
    ]
    for name, rows in (("questions", questions), ("msrp", pairs)):
        (tmp_path / name).mkdir()
        for part in ("train", "dev", "test"):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / name / f"{part}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return tmp_path


@pytest.mark.skipif(not there, reason="scikit-learn is not installed")
def test_what_can_be_told_apart_is(data):
    out = data / "out.json"
    done = run(data, "questions", "msrp", "--json", str(out), "--predictions", str(data / "said"))
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text("utf-8"))
    assert {row["set"] for row in found} == {"questions", "msrp"}
    for row in found:
        if row["method"] != "fastText":  # twenty lines are too few for it
            assert row["test"]["accuracy"] == 100, row
            assert row["dev"] == 100
        assert row["rows"] == {"train": 20, "dev": 20, "test": 20}
    assert (data / "said" / "msrp.txt").read_text("utf-8").split() == ["0", "1"] * 10
    unknown = run(data, "question")
    assert unknown.returncode == 2
    assert "no set 'question'" in unknown.stderr
