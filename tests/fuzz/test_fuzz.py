"""Some hundred broken inputs, and that the fuzzer sees what is wrong; `make fuzz` has more."""

import os
import random
import subprocess
import sys

import pytest

from regard.errors import RequestError
from tests.cli.run import SOURCE
from tests.fuzz.mutate import LONGEST, changed_bytes, changed_json
from tests.fuzz.run import input_of, tried
from tests.fuzz.targets import MAKERS, Target, target

CHEAP = (
    "tsv", "csv", "json", "jsonl", "jsonl-lists", "moses", "cbt", "squad", "babi", "semeval",
    "trees", "conll", "conllu", "conll2005", "pubtator-tags", "text-pairs", "pubtator", "bioc",
    "documents", "given-document", "vectors", "lexicon", "graph-edges", "graph-nodes", "override",
    "gzip", "npz", "tar", "seen", "checkpoint", "foreign-spm", "bulk-text", "bulk-jsonl",
    "bulk-tsv", "bulk-csv", "bulk-gz", "bulk-notes",
)  # fmt: skip


@pytest.mark.parametrize("name", CHEAP)
def test_broken_inputs_give_a_result_or_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = target(name, tmp_path / "files")
    for number in range(14):
        content = input_of(made, name, 1, number)
        assert tried(made, content) is None, content[:500]


@pytest.mark.slow
def test_every_reader_takes_broken_inputs_under_limits(tmp_path):
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    out = tmp_path / "found.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", "--inputs", "60", "--out", str(out)],
        capture_output=True, text=True, cwd=SOURCE.parent, check=False, timeout=500,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + out.read_text()
    assert f"{60 * len(MAKERS):,} inputs" in done.stdout


def fails(error):
    def use(content):
        raise error

    return Target([b"a"], use)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyError("x"), "KeyError"),
        (MemoryError(), "MemoryError"),
        (RecursionError("deep"), "RecursionError"),
        (RequestError("two\nlines"), "no sentence"),
        (RequestError(""), "no sentence"),
        (RequestError("a sentence"), None),
        (RequestError("a" * 10_000), None),  # loses its middle
    ],
)
def test_what_is_wrong_is_found(error, kind):
    found = tried(fails(error), b"a")
    assert (found and found[0]) == kind


def test_an_input_follows_from_its_number():
    one = Target([b"das Haus\tthe house\n"], len)
    made = [input_of(one, "tsv", 1, n) for n in range(300)]
    assert made == [input_of(one, "tsv", 1, n) for n in range(300)]
    assert made[0] == one.seeds[0]
    assert len({*made}) > 200
    assert made != [input_of(one, "tsv", 2, n) for n in range(300)]
    assert max(map(len, made)) <= LONGEST


@pytest.mark.parametrize("change", [changed_bytes, changed_json])
def test_every_change_gives_bytes(change):
    rng = random.Random(1)
    seeds = [b'{"a": [1, {"b": "x"}], "c": true}']
    assert all(isinstance(change(rng, seeds), bytes) for _ in range(300))
