"""What has a data file's name and is none, and lines that no text can hold."""

import json
import os
from pathlib import Path

import pytest

from regard import data
from regard.system.plain_json import read_json
from tests.cli.run import run

ODD = {
    "a folder": (Path.mkdir, "train.tsv is a folder; a file was expected"),
    "a pipe": (os.mkfifo, "train.tsv is a pipe; a file was expected"),
    "a loop": (lambda p: p.symlink_to(p.name), "train.tsv: a file was expected: too many levels"),
    "a device": (lambda p: p.symlink_to("/dev/zero"), "train.tsv is a device; a file was expected"),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_is_said_to_be_what_it_is(capsys, tmp_path, kind):
    make, said = ODD[kind]
    (tmp_path / "dev.tsv").write_text("source\ttarget\na\tb\n")
    make(tmp_path / "train.tsv")
    train = ["train", "translation/transformer-tiny-multi30k", f"data.path={tmp_path}", "--dry"]
    asked = [["data", str(tmp_path)], ["data", str(tmp_path / "train.tsv")], train]
    for words in asked if kind != "a folder" else [asked[0], train]:
        ran = run(capsys, *words)
        assert ran.code == 2
        assert said in ran.err
        assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/urandom", "/dev/null"])
def test_devices_are_not_read(capsys, path):
    ran = run(capsys, "data", path)
    assert ran.code == 2
    assert f"{path} is a device; a file was expected" in ran.err


def test_lines_that_no_text_can_hold_are_left_out_and_counted(capsys, tmp_path):
    deep = '{"source": ' + "[" * 10_000 + "]" * 10_000 + ', "target": "b"}'
    lines = [
        r'{"source": "a\ud800", "target": "b"}', '{"source": "c", "target": "d"}', deep,
        r'{"source": "\ud83d\ude00", "target": "e"}',
    ]  # fmt: skip
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(lines))
    problems = data.Problems()
    columns = {"source": "source", "target": "target"}
    rows = list(data.read(path, columns, problems=problems))
    assert [row.fields["source"] for row in rows] == ["c", "\N{GRINNING FACE}"]
    assert [(p.line, p.what) for p in problems] == [(1, "not JSON"), (3, "not JSON")]
    ran = run(capsys, "data", str(path), "--json")
    assert ran.code == 0
    assert ran.result["splits"]["train.jsonl"]["problems"] == {"not JSON": 2}


@pytest.mark.parametrize("text", [r'"\udfff"', "[" * 10_000, '{"a":' * 10_000, "{", ""])
def test_every_refusal_of_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"\w"):
        read_json(text)
    assert read_json(json.dumps({"é": ["\N{GRINNING FACE}"]})) == {"é": ["\N{GRINNING FACE}"]}


def test_a_folder_of_babi_files_is_looked_at_as_it_is_trained_on(capsys, tmp_path):
    story = "1 Mary went home.\n2 Where is Mary?\thome\t1\n"
    for task in (10, 2):
        for split in ("train", "test"):
            (tmp_path / f"qa{task}_some-facts_{split}.txt").write_text(story)
    ran = run(capsys, "data", str(tmp_path), "--json")
    assert ran.code == 0, ran.err
    assert list(ran.result["splits"]) == ["qa2 train", "qa2 test", "qa10 train", "qa10 test"]
    assert ran.result["splits"]["qa2 test"]["columns"]["answer"]["distinct"] == 1
    assert [(leak["of"], leak["in"]) for leak in ran.result["leaks"]] == [
        ("qa2 test", "qa2 train"), ("qa10 test", "qa10 train"),
    ]  # fmt: skip
    one = run(capsys, "data", str(tmp_path / "qa2_some-facts_test.txt"), "--json")
    assert "question" in one.result["splits"]["qa2_some-facts_test.txt"]["columns"]
