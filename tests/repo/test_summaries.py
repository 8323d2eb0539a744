"""The program of summaries that nobody trained, on two texts whose answers are plain."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.repo.tree import TOP

pytestmark = pytest.mark.nohook

there = find_spec("rouge_score") is not None
ROWS = [
    {
        "text": "Foo is a fast editor of plain texts, which runs everywhere. Colors are pretty.",
        "headline": "fast editor of texts",
    },
    {"text": "bar\nIt counts words and lines.", "headline": "counts words and lines"},
]


def run(*arguments):
    return subprocess.run(
        [sys.executable, str(TOP / "benchmarks" / "summaries.py"), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(TOP / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.skipif(there, reason="rouge-score is installed")
def test_without_rouge_score_it_says_what_to_install():
    done = run()
    assert done.returncode == 1
    assert "pip install rouge-score" in done.stderr


@pytest.mark.skipif(not there, reason="rouge-score is not installed")
def test_the_table_of_two_texts(tmp_path):
    file, said, out = tmp_path / "test.jsonl", tmp_path / "said.txt", tmp_path / "out.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    said.write_text("fast editor of texts\ncounts words and lines\n")
    done = run("--file", file, "--json", out, "--predictions", f"mine={said}")
    assert done.returncode == 0, done.stderr
    found = {row["system"]: row for row in json.loads(out.read_text())}
    assert found["mine"]["rouge1"] == found["mine"]["rougeL"] == 100.0
    # "fast editor of plain texts" has 4 of 5 words right and all 4 found; of "bar" nothing is.
    assert found["rule"]["rouge1"] == round(100 * (8 / 9) / 2, 2)
    assert found["rule"]["words"] == 3.0
    # "fast editor of" has both pairs of its words right.
    assert found["window (oracle)"]["rouge1"] == round(100 * (6 / 7) / 2, 2)
    # The best sentences have 4 words right of 11 and of 5; the lead is the first one, and "bar".
    best = round(100 * (8 / 15 + 8 / 9) / 2, 2)
    assert found["sentence (oracle)"]["rouge1"] == best
    assert found["lead"]["rouge1"] == round(100 * (8 / 15) / 2, 2)


@pytest.mark.skipif(not there, reason="rouge-score is not installed")
def test_another_number_of_predictions_is_refused(tmp_path):
    file, said = tmp_path / "test.jsonl", tmp_path / "said.txt"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    said.write_text("one\n")
    done = run("--file", file, "--predictions", said)
    assert done.returncode == 1
    assert "expected 2 summaries, got 1" in done.stderr
