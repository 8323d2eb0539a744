"""Training splits on disk: the same examples as in memory, made once, gone on with when killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass

import numpy as np
import pytest
import torch

from regard.data.batch import plan
from regard.data.storage import building
from regard.errors import RequestError
from regard.tasks.generation.pronunciation import Pronunciation
from regard.tasks.generation.summarization import Summarization
from regard.tasks.generation.translation import Translation
from regard.tasks.labels.classification import Classification
from regard.tasks.labels.entailment import Entailment
from regard.tasks.labels.similarity import Similarity
from regard.tasks.tags.tagging import Tagging

WORDS = [
    "das",
    "Haus",
    "ist",
    "klein",
    "und",
    "der",
    "Hund",
    "läuft",
    "über",
    "die",
    "日本",
    "Straße",
]
SECTION = {"tokenizer": {"kind": "words", "vocab_size": 50}, "max_length": 9}


def line(i):
    draw = np.random.default_rng(i)
    both = [" ".join(draw.choice(WORDS, draw.integers(1, 8))) for _ in range(2)]
    return "\t".join(both)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("corpus")
    lines = ["source\ttarget", *map(line, range(300)), "\tnothing there", " ".join(WORDS) + "\tx"]
    (made / "train.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    (made / "dev.tsv").write_text("source\ttarget\ndas Haus\tder Hund\n", "utf-8")
    section = {**SECTION, "path": str(made), "store": str(made / "store")}
    return made, section, Translation().data(section)


def encode_here(monkeypatch, part):
    """Parts of so many rows are encoded by this process; returns their names as they are made."""
    encoded, told = [], []

    def worker(*arguments):
        told.append(arguments)
        return subprocess.Popen(["true"], text=True)

    def asked(one, name):
        place, names, longest = told[-1]
        encoded.append(name)
        building.encoded(place, name, names, longest)
        return one

    monkeypatch.setattr(building, "PART", part)
    monkeypatch.setattr(building, "_worker", worker)
    monkeypatch.setattr(building, "_asked", asked)
    monkeypatch.setattr(building, "_waited", lambda one: one)
    return encoded


def same(one, other):
    assert len(one) == len(other)
    np.testing.assert_array_equal(one.sizes, other.sizes)
    for indices in plan(one.sizes, tokens=64, seed=3):
        mine, yours = one.collate(indices), other.collate(indices)
        assert (mine.source == yours.source).all()
        assert (mine.target_out == yours.target_out).all()
    assert list(one.texts) == list(other.texts)
    assert list(one.references) == list(other.references)


def test_a_store_has_what_memory_has(folder):
    _, section, data = folder
    whole = Translation().data({**section, "store": ""})
    same(data.train, whole.train)
    assert dict(data.problems.counts) == dict(whole.problems.counts) == {"empty": 1, "too long": 1}
    assert len(data.dev) == 1
    some = data.train.subset([5, 2])
    assert some.texts == [whole.train.texts[5], whole.train.texts[2]]
    assert data.train.texts[-1] == whole.train.texts[-1]
    assert data.train.texts[3:5] == whole.train.texts[3:5]
    assert data.train.references[3:5] == whole.train.references[3:5]


def test_the_second_start_reads_the_store_alone(folder, monkeypatch):
    _, section, data = folder
    monkeypatch.setattr(building, "build", None)
    same(Translation().data(section).train, data.train)
    known = Translation().data(section, data.fields)  # with the tokenizers that were learned
    same(known.train, data.train)


def test_another_setting_is_another_store(folder):
    made, section, data = folder
    before = set((made / "store").glob("ids-*"))
    shorter = Translation().data({**section, "max_length": 5}).train
    assert len(set((made / "store").glob("ids-*")) - before) == 1
    assert 0 < len(shorter) < len(data.train)
    assert shorter.sizes.max() <= 5


def test_tokenizers_learn_from_a_sample_that_is_said(folder, caplog):
    _, section, data = folder
    caplog.set_level("INFO")
    other = Translation().data({**section, "sample": 3})
    assert "the tokenizers are learned from 3 of 301 rows" in caplog.text
    assert len(other.fields["source"].tokenizer.vocabulary) < len(
        data.fields["source"].tokenizer.vocabulary
    )


def test_what_cannot_be_stored_is_said(folder, tmp_path):
    _, section, _ = folder
    (tmp_path / "train.tsv").write_text("text\tlabel\tsource\na b\tx\tu\nb\ty\tv\n", "utf-8")
    corpus = {"path": str(tmp_path), "store": str(tmp_path / "t")}
    for task in (Classification(sentences="punctuation"), Classification(characters=True)):
        with pytest.raises(RequestError, match=r"the field 'text' is read otherwise"):
            task.data(corpus)
    with pytest.raises(RequestError, match=r"the task tagging is read otherwise"):
        Tagging().data({**corpus, "columns": {"tags": "label"}})
    with pytest.raises(
        RequestError, match=r"data\.store: .*train\.tsv is a file; expected a folder"
    ):
        Translation().data({**section, "store": str(tmp_path / "train.tsv")})
    with pytest.raises(RequestError, match=r"data\.limit\.train: a store has every row"):
        Translation().data({**section, "limit": 10})
    (tmp_path / "train.tsv").write_text("source\ttarget\n\t\n", "utf-8")
    with pytest.raises(RequestError, match="no row to learn from"):
        Translation().data({"path": str(tmp_path), "store": str(tmp_path / "s")})


def test_parts_that_are_there_are_not_made_again(folder, tmp_path, monkeypatch):
    _, _, data = folder
    tokenizers = {n: own.tokenizer for n, own in data.fields.items()}
    examples = [(i, {"source": s, "target": r[0]}) for i, (s, r) in enumerate(
        zip(data.train.texts, data.train.references, strict=True))]  # fmt: skip
    encoded = encode_here(monkeypatch, 100)
    place = tmp_path / "s"
    with monkeypatch.context() as patched:  # killed before they are joined
        patched.setattr(building, "_joined", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            building.build(place, examples, tokenizers, 9, print)
    assert encoded == ["part-000000.npz", "part-000001.npz", "part-000002.npz"]
    (place / "part-000001.npz").unlink()
    store = building.build(place, examples, tokenizers, 9, print)
    assert encoded[3:] == ["part-000001.npz"]
    assert list(store.texts["source"]) == list(data.train.texts)
    assert (store.ids["target"].sizes == data.train.sizes[:, 1] - 1).all()
    assert not list(place.glob("part-*"))


PAIRS = [(f"{' '.join(line(i).split()[:6])} {i}", line(i + 500).split()[-1], i) for i in range(90)]


@pytest.mark.parametrize(
    ("task", "columns", "label"),
    [
        (Classification(weights="balanced"), ["text"], lambda i: "odd" if i % 3 else "even"),
        (Classification("several"), ["text"], lambda i: ["x", "x,y", "y"][i % 3]),
        (Classification("ordinal"), ["text"], lambda i: str(i % 5)),
        (Entailment(["overlap"]), ["premise", "hypothesis"], lambda i: "yn"[i % 2]),
        (Similarity(), ["a", "b"], lambda i: str(1 + i % 9 / 2)),
        (Similarity("rank", positive="1"), ["a", "b"], lambda i: str(i % 2)),
        (Summarization(), ["source"], lambda i: f"über {i} new{i}"),
        (Summarization(copying=False, read_source=3), ["source"], lambda i: f"{i} new"),
        (Pronunciation(), ["source"], lambda i: "A B | B C"[: 3 + i % 2 * 6]),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_other_tasks_have_what_memory_has(tmp_path, monkeypatch, task, columns, label):
    fields = task.fields()
    target = next(n for n, own in fields.items() if own.target and n != "group")
    rows = ["\t".join([*columns, target])]
    for first, second, i in PAIRS:
        rows.append("\t".join([*[first, second][: len(columns)], label(i)]))
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    encode_here(monkeypatch, 40)
    section = {
        "path": str(tmp_path), "header": True, "columns": {n: n for n in (*columns, target)},
        "max_length": 30,
    }  # fmt: skip
    whole = task.data(section).train
    for _ in range(2):  # made, and opened
        kept = task.data({**section, "store": str(tmp_path / "s")}).train
        assert len(kept) == len(whole) <= 100
        np.testing.assert_array_equal(kept.sizes, whole.sizes)
        assert list(kept.texts) == list(whole.texts)
        for indices in plan(whole.sizes, tokens=64, seed=3):
            alike(kept.collate(indices), whole.collate(indices))
            assert kept.count(indices) == whole.count(indices)
        alike(kept.subset([3, 1]).collate([0, 1]), whole.subset([3, 1]).collate([0, 1]))


def alike(one, other):
    """Two batches of any kind: tensors, or what has some."""
    if isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    elif isinstance(one, Mapping):
        assert one.keys() == other.keys()
        for name in one:
            if name != "group":  # numbered anew in each part; no model sees it
                alike(one[name], other[name])
    elif is_dataclass(one):
        for own in dataclass_fields(one):
            alike(getattr(one, own.name), getattr(other, own.name))
    else:
        assert one == other


@pytest.mark.slow
def test_killed_anywhere_it_goes_on(folder, tmp_path):
    _, section, data = folder
    program = (
        "import sys\nfrom regard.data.storage import building\nbuilding.PART = 20\n"
        "from regard.tasks.generation.translation import Translation\n"
        f"print(len(Translation().data({ {**section, 'store': str(tmp_path / 's')}!r}).train))\n"
    )
    for after in (2.5, 3.5, 4.0, 4.5, 5.0, 6.0):
        one = subprocess.Popen([sys.executable, "-c", program], start_new_session=True,
                               stdout=subprocess.DEVNULL)  # fmt: skip
        time.sleep(after)
        os.killpg(one.pid, signal.SIGKILL)
        one.wait()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == [str(len(data.train))], done.stderr
    same(Translation().data({**section, "store": str(tmp_path / "s")}).train, data.train)
