"""Readers on the command line: trained, evaluated, used on files and on questions, looked at."""

import gzip
import json

import pytest

from regard.viewer import read
from tests.cli.run import run

RECIPE = """
model: {name: aoa, embed: 8, hidden: 6}
task: {name: reading}
data: {path: DATA}
train: {epochs: 1, batch: {tokens: 100}, validate: {every: 2, examples: 4}, threads: 1, seed: 1}
decode: {name: greedy}
"""
NAMES = ("Alice", "Bob", "Eve", "Dan")


def story(answer):
    others = [name for name in NAMES if name != answer]
    lines = [
        f"{i} {name} met {other} ."
        for i, (name, other) in enumerate(zip(NAMES, others, strict=False), 1)
    ]
    return (
        "\n".join([*lines, f"21 then XXXXX met {others[0]} .\t{answer}\t\t{'|'.join(NAMES)}"])
        + "\n\n"
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A trained folder with its data beside it."""
    top = tmp_path_factory.mktemp("reading")
    (top / "data").mkdir()
    for split, times in (("train", 3), ("dev", 1), ("test", 1)):
        text = "".join(story(name) for name in NAMES * times)
        (top / "data" / f"{split}.txt").write_text(text)
    (top / "recipe.yaml").write_text(RECIPE.replace("DATA", str(top / "data")))
    from regard.cli.app import main

    assert main(("train", str(top / "recipe.yaml"), "-o", str(top / "folder"))) == 0
    return top


def test_evaluate(place, capsys):
    ran = run(capsys, "evaluate", str(place / "folder"), "--json")
    assert ran.result["examples"] == 4
    assert set(ran.result["metrics"]) == {"accuracy", "frequent", "random"}
    assert ran.result["metrics"]["random"] == 25.0
    other = place / "other.txt.gz"
    other.write_bytes(
        gzip.compress((story("Bob") + "9 nothing\n\n1 A\n21 XXXXX\t\t\tA|B\n").encode())
    )
    ran = run(capsys, "evaluate", str(place / "folder"), "--data", str(other), "--json")
    assert ran.result["examples"] == 1
    assert "2 lines were left out" in ran.err


def test_predict_a_cbt_file_json_and_a_line(place, capsys, monkeypatch):
    folder = str(place / "folder")
    ran = run(capsys, "predict", folder, "-i", str(place / "data" / "test.txt"), "--json")
    assert ran.code == 0
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["output"] in NAMES for one in found] == [True] * 4
    assert sorted(other["output"] for other in [found[0], *found[0]["alternatives"]]) == sorted(
        NAMES
    )
    told = json.dumps(
        {"document": "Zed saw Ann.", "query": "XXXXX saw", "candidates": ["Zed", "Ann"]}
    )
    ran = run(capsys, "predict", folder, told, "Ann sat . ||| XXXXX sat ||| Ann", "no question")
    assert ran.out.splitlines()[0] in ("Zed", "Ann")
    assert ran.out.splitlines()[1:] == ["Ann", ""]
    assert "line 3 is refused: expected a JSON object with document and query" in ran.err


def test_data(place, capsys):
    ran = run(capsys, "data", str(place / "data" / "dev.txt"), "--format", "cbt", "--json")
    (split,) = ran.result["splits"].values()
    assert (split["rows"], set(split["columns"])) == (
        4,
        {"document", "query", "answer", "candidates"},
    )


def test_look(place, capsys, tmp_path):
    folder, asked = str(place / "folder"), "Ann sat . ||| XXXXX sat ||| Ann"
    ran = run(capsys, "look", folder, asked)
    assert "Ann" in ran.out
    assert " 0." in ran.out or " 1." in ran.out
    ran = run(capsys, "look", folder, asked, "--json")
    assert set(ran.result["attentions"]) == {
        f"pointers.0.{k}" for k in ("document", "query", "attended")
    }
    assert len(ran.result["attentions"]["pointers.0.document"]) == 2
    for name in ("page.html", "kept.seen"):
        assert run(capsys, "look", folder, asked, asked, "-o", str(tmp_path / name)).code == 0
    assert "<!DOCTYPE html>" in (tmp_path / "page.html").read_text()
    page = read(tmp_path / "kept.seen")
    assert [side.pieces for side in page.axes[:3]] == [
        ["Ann", "sat", "."], ["XXXXX", "sat"], ["⇒ answer"]
    ]  # fmt: skip
    ran = run(capsys, "look", folder, asked, "-o", str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 1000
    ran = run(capsys, "look", folder, "Ann sat . ||| sat")
    assert (ran.code, ran.out) == (2, "")
    assert "the query has no XXXXX" in ran.err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.txt", b"once upon a time\n", "no question in 1 lines"),
        ("x.txt.gz", gzip.compress(b"1 a\n" * 500, mtime=0)[:-20], "damaged gzip file"),
        (
            "x.jsonl",
            b'{"text": "a"}\n',
            "no line has both 'document' and 'query'; there are 'text'",
        ),
        ("x.json", b"[1", "is not JSON"),
        ("x.csv", b"a,b\n", "no format for reading has this ending"),
    ],
)
def test_broken_files_are_one_sentence(place, capsys, name, content, said):
    path = place / name
    path.write_bytes(content)
    ran = run(capsys, "evaluate", str(place / "folder"), "--data", str(path))
    assert ran.code == 2
    assert said in ran.err
    assert name in ran.err
    assert "Traceback" not in ran.err
