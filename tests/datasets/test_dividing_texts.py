"""`data.split` where examples are no rows: no document, story, article or abstract is ever cut."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from regard import tasks
from regard.data.annotations.documents import as_line
from regard.datasets.dividing import cut_in_order
from regard.errors import RequestError
from regard.protocols import EOS
from tests.tasks.abstracts import abstracts

SHARES = [0.8, 0.1, 0.1]
NAMES = ("train", "dev", "test")


def squad(n):
    """Thirty articles of two paragraphs, each with two questions; one has the title of another."""
    paragraphs = [
        {
            "context": f"Word {n} {m} here.",
            "qas": [{"question": f"q{i}?", "answers": [{"text": "here"}]} for i in range(2)],
        }
        for m in range(2)
    ]
    return {"title": f"t{n % 29}", "paragraphs": paragraphs}


def stories(path):
    """A bAbI file of forty stories with one to three questions each."""
    made = []
    for n in range(40):
        lines = [f"Ann{n} went home.", *[f"Where is Ann{n}?\thome\t1"] * (1 + n % 3)]
        made += [f"{i} {line}" for i, line in enumerate(lines, 1)]
    path.write_text("\n".join(made) + "\n")


def write(kind, path):
    if kind == "squad":
        path.write_text(json.dumps({"data": [squad(n) for n in range(30)]}))
    elif kind == "questions":
        rows = [{"document": f"d {n % 40} x", "query": f"q {n}", "answer": "x"} for n in range(200)]
        rows = [row | {"who": f"p{n % 25}"} for n, row in enumerate(rows)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "babi":
        stories(path)
    elif kind == "abstracts":
        some = abstracts(60)
        some[7] = replace(some[3], id="7")  # one text with two numbers
        path.write_text("".join(as_line(one) + "\n" for one in some))
    elif kind == "rows":
        rows = [{"text": f"a {n}\nb {n} .", "book": n % 20} for n in range(100)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "blocks":
        path.write_text("\n\n".join(f"a {n} .\nb {n} .\nc {n} ." for n in range(50)) + "\n")
    elif kind == "lines":
        path.write_text("".join(f"a {n} .\n" for n in range(100)))


def whole(kind, example):
    """What an example belongs to, of one text that tells it."""
    if kind == "abstracts":
        return example
    numbers = [word for word in example.replace("Ann", "Ann ").split() if word.isdecimal()]
    return int(numbers[0]) % 29 if kind == "squad" else numbers[0]


CASES = {
    "squad": ("reading", "a.json", lambda one: [q.text for q in one.questions], 120),
    "questions": ("reading", "a.jsonl", lambda one: [q.text for q in one.questions], 200),
    "babi": ("memory", "qa1_a_train.txt", lambda one: one.texts, 79),
    "abstracts": ("relations", "a.jsonl", lambda one: [d.text for d in one.extras["document"]], 60),
    "rows": ("language", "a.jsonl", None, 200),
    "blocks": ("language", "a.txt", None, 150),
    "lines": ("language", "a.txt", None, 100),
}


def texts_of(data, kind):
    """The examples of each split, as texts."""
    own = CASES[kind][2]
    if own is not None:
        return {name: own(getattr(data, name)) for name in NAMES if getattr(data, name)}
    found = {name: getattr(data, name).texts for name in ("dev", "test") if getattr(data, name)}
    if data.train is not None:
        ids = data.train.ids
        lines = np.split(ids, np.flatnonzero(ids == EOS))
        told = [data.fields["text"].tokenizer.decode(line[1:].tolist()) for line in lines]
        found["train"] = [line for line in told if line]
    return found


def read(kind, path, split=SHARES, fields=None, splits=NAMES, **more):
    config = {"path": str(path), "split": split, **more}
    return tasks.load(CASES[kind][0])().data(config, fields, splits)


@pytest.mark.parametrize("kind", CASES)
def test_a_file_is_divided_the_folder_keeps_it_and_another_file_is_refused(kind, tmp_path):
    path = tmp_path / CASES[kind][1]
    write(kind, path)
    data = read(kind, path)
    found = texts_of(data, kind)
    assert sum(map(len, found.values())) == CASES[kind][3]
    for share, name in zip(SHARES, NAMES, strict=True):
        assert abs(len(found[name]) - share * CASES[kind][3]) <= 5
    held = {name: {whole(kind, one) for one in own} for name, own in found.items()}
    assert not held["train"] & held["dev"]
    assert not held["train"] & held["test"]
    assert not held["dev"] & held["test"]
    assert texts_of(read(kind, path), kind) == found
    noted = data.noted["split"]
    assert (noted["shares"], noted["seed"], len(noted["digest"])) == (SHARES, 1, 16)
    alone = read(kind, path, noted, data.fields, ("test",))
    assert alone.train is None
    assert alone.dev is None
    assert texts_of(alone, kind) == {"test": found["test"]}
    if kind in ("blocks", "lines"):  # in their order
        assert whole(kind, found["test"][-1]) == str(
            CASES[kind][3] // (1 + 2 * (kind == "blocks")) - 1
        )
        with pytest.raises(RequestError, match=r"data\.split\.seed: .* divided in their order"):
            read(kind, path, {"shares": SHARES, "seed": 2})
        with pytest.raises(RequestError, match=r"data\.split\.by: .* has no columns"):
            read(kind, path, {"shares": SHARES, "by": "text"})
    else:
        assert texts_of(read(kind, path, {"shares": SHARES, "seed": 2}), kind) != found
    old, new = {"squad": ("here", "were"), "babi": ("Ann7", "Bob7")}.get(kind, ("a", "o"))
    old, new = (" was ", " has ") if kind == "abstracts" else (old, new)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(RequestError, match="other rows than in the training"):
        read(kind, path, noted, data.fields, ("test",))


def test_a_named_key_groups_what_has_one(tmp_path):
    for kind, by, of in (
        ("questions", "who", lambda one: int(one.query[-1]) % 25),
        ("squad", "document", lambda one: one.text),
        ("babi", "number", lambda one: whole("babi", one)),
        ("rows", "book", lambda one: int(whole("rows", one)) % 20),
        ("abstracts", "id", lambda one: one),
    ):
        path = tmp_path / CASES[kind][1]
        write(kind, path)
        data = read(kind, path, {"shares": SHARES, "by": by})
        parts = {name: getattr(data, name) for name in ("dev", "test")}
        items = {
            name: part.questions if kind in ("squad", "questions") else part.texts
            for name, part in parts.items()
        }
        groups = {name: {of(one) for one in own} for name, own in items.items()}
        assert not groups["dev"] & groups["test"], kind
        assert all(groups.values())
    for kind, by, said in (
        ("questions", "whom", "'whom'.*did you mean 'who'"),
        ("abstracts", "texd", "has no 'texd': did you mean 'text'"),
        ("babi", "nummer", "no column 'nummer'"),
    ):
        write(kind, tmp_path / CASES[kind][1])
        with pytest.raises(RequestError, match=said):
            read(kind, tmp_path / CASES[kind][1], {"shares": SHARES, "by": by})


def test_tasks_of_a_folder_are_divided_each_and_limits_come_after(tmp_path):
    for task in (1, 2):
        stories(tmp_path / f"qa{task}_a_train.txt")
    data = read("babi", tmp_path)
    for name, size in zip(NAMES, (63, 8, 8), strict=True):
        counts = Counter(getattr(data, name).tasks)
        assert all(abs(counts[task] - size) <= 3 for task in ("qa1", "qa2")), (name, counts)
    limited = read("babi", tmp_path, limit=10)
    assert (len(limited.train), len(limited.test)) == (20, len(data.test))
    two = read(
        "babi", tmp_path / "qa1_a_train.txt", [0.9, 0.1], test=str(tmp_path / "qa2_a_train.txt")
    )
    assert (len(two.train) + len(two.dev), len(two.test)) == (79, 79)


@pytest.mark.parametrize("kind", ["squad", "abstracts", "lines"])
def test_what_makes_no_sense_is_refused_and_a_file_alone_is_said(kind, tmp_path, caplog):
    path = tmp_path / CASES[kind][1]
    write(kind, path)
    tasks.load(CASES[kind][0])().data({"path": str(path)})
    assert f"{path} is for training alone, nothing will be scored; data.split: [0.8" in caplog.text
    with pytest.raises(RequestError, match=r"leave data\.dev or data\.split out"):
        read(kind, path, dev=str(path))
    with pytest.raises(RequestError, match="which add up to 1"):
        read(kind, path, [0.8, 0.3])
    for split in ("train", "dev"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        write(kind, tmp_path / "folder" / f"{split}{path.suffix}")
    with pytest.raises(RequestError, match=r"has dev files: leave data\.split out"):
        read(kind, tmp_path / "folder")
    with pytest.raises(RequestError, match="has no test split; it has train, dev"):
        read(kind, path, [0.9, 0.1], {}, ("test",))


def test_cuts_in_order_are_as_near_as_units_let_them():
    assert cut_in_order([1, 1, 1], SHARES) == [0, 1, 2]
    assert cut_in_order([50, 30, 10, 9, 1], SHARES) == [0, 0, 1, 2, 2]
    assert 2 not in cut_in_order([5, 5], SHARES)
