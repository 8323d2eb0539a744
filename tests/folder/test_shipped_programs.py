"""Answers of the shipped models' programs are those of the models, over their test data."""

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from regard import loading
from regard.convert import add_program
from regard.folder.places import find
from regard.folder.programs import open_program
from regard.runtime.stored_program import PROGRAM
from tests.alike import alike

INPUTS = 120


def rows(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def aspects(data):
    return [" ".join(row["tokens"]) for row in map(json.loads, rows(data / "test.jsonl.gz"))]


def relations(data):
    texts = [re.sub(r'^\d+\s+"?|"$', "", row) for row in rows(data / "test.txt.gz")]
    return [text for text in texts if "<e1>" in text]


def sentences(data):
    trees = rows(data / "ewt-test.trees.gz")
    return [" ".join(x.rstrip(")") for x in tree.split() if x[0] != "(") for tree in trees]


def clauses(data):
    lines = [row for row in rows(data / "test.conll.gz") if not row.startswith("# doc")]
    texts = [
        [line.split()[0] for line in one.splitlines()] for one in "\n".join(lines).split("\n\n")
    ]
    return [" ".join(words) for words in texts if words]


def questions(data):
    every = "\n".join(rows(data / "CN_test.txt.gz")).strip().split("\n\n")
    return [one.strip() for one in every]


def stories(data):
    found = []
    for path in sorted(data.glob("*_test.txt.gz")):
        story = []
        for row in rows(path)[:60]:
            number, _, text = row.partition(" ")
            story = [] if number == "1" else story
            if "\t" in text:
                found.append(" ".join([*story, text.partition("\t")[0]]))
            else:
                story.append(text)
    return found[::2]


def documents(data):
    return [json.loads(row)["text"] for row in rows(data / "test.jsonl.gz")]


SOURCES = {
    "aspects-small": ("aspects", aspects),
    "cloze-small": ("cloze", questions),
    "movie-reviews-small": ("movie_reviews", documents),
    "parser-small": ("parsing", sentences),
    "relations-small": ("relation", relations),
    "roles-small": ("srl", clauses),
    "stories-small": ("babi", stories),
}


@pytest.mark.nohook
@pytest.mark.parametrize("name", SOURCES)
def test_answers_are_the_model_s(name):
    folder, read = SOURCES[name]
    data = Path(os.environ.get("REGARD_DATA", "")) / folder
    if not data.is_dir() or "REGARD_DATA" not in os.environ:
        pytest.skip(f"REGARD_DATA has no folder {folder}")
    inputs = read(data)[:INPUTS]
    assert len(inputs) >= 100
    found, expected = open_program(find(name)).predict(inputs), loading.load(name).predict(inputs)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.line == theirs.line
        alike(ours.as_json(), theirs.as_json())


@pytest.mark.parametrize("name", SOURCES)
def test_the_program_is_the_one_that_export_writes(name, tmp_path):
    folder = shutil.copytree(find(name), tmp_path / name)
    stored = json.loads((folder / PROGRAM).read_text("utf-8"))
    made = json.loads(add_program(folder).read_text("utf-8"))
    assert {**made, "regard": ""} == {**stored, "regard": ""}
