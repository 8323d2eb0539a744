import gzip
import logging

import numpy as np
import pytest

from regard import tasks
from regard.data import problems as problems_module
from regard.data.problems import Problems
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.protocols import EOS
from tests.tasks.echo import write

ROWS = [(f"das ist Satz {i}", f"this is sentence {i}") for i in range(20)]
COLUMNS = {"source": "de", "target": "en"}


@pytest.fixture
def task():
    return tasks.load("translation")()


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "data", train=ROWS, dev=ROWS[:3], test=ROWS[3:5])


def config(folder, **more):
    tokenizer = {"kind": "bpe", "vocab_size": 60}
    return {"path": str(folder), "columns": COLUMNS, "tokenizer": tokenizer, **more}


def test_splits_become_examples(task, folder):
    data = task.data(config(folder))
    assert [len(split) for split in (data.train, data.dev, data.test)] == [20, 3, 2]
    assert data.test.texts == ["das ist Satz 3", "das ist Satz 4"]
    assert data.test.references == [["this is sentence 3"], ["this is sentence 4"]]
    source, target = data.tokenizers["source"], data.tokenizers["target"]
    assert source is target
    for i in range(20):
        assert data.train.source[i].tolist() == source.encode(ROWS[i][0]).ids
        assert data.train.target[i].tolist() == target.encode(ROWS[i][1]).ids
        assert data.train.sizes[i].tolist() == [
            len(data.train.source[i]) + 1,
            len(data.train.target[i]) + 1,
        ]
    assert data.train.count([2, 5]) == int(data.train.sizes[[2, 5], 1].sum())
    batch = data.train.collate([2, 5])
    assert batch.count == data.train.count([2, 5])
    assert batch.source[1, batch.source_lengths[1] - 1] == EOS
    told = {"source_vocab_size": len(source), "target_vocab_size": len(source)}
    assert task.model_arguments(data.tokenizers) == told


def test_examples_in_part(task, folder):
    train = task.data(config(folder)).train
    part = train.subset([7, 3])
    assert part.texts == [ROWS[7][0], ROWS[3][0]]
    assert part.references == [[ROWS[7][1]], [ROWS[3][1]]]
    assert part.source[1].tolist() == train.source[3].tolist()
    assert part.sizes.tolist() == train.sizes[[7, 3]].tolist()


def test_the_same_tokenizers_again(task, folder):
    first, second = task.data(config(folder)), task.data(config(folder))
    assert first.tokenizers["source"].to_json() == second.tokenizers["source"].to_json()
    given = task.data(config(folder), first.fields, ("test",))
    assert given.tokenizers["source"] is first.tokenizers["source"]
    assert given.train is None
    assert given.dev is None
    assert np.array_equal(given.test.source.flat, first.test.source.flat)


def test_tokenizers_of_their_own(task, folder):
    target = {"kind": "words", "vocab_size": 15, "lowercase": True}
    sides = {"kind": "bpe", "vocab_size": 60, "target": target}
    found = task.data(config(folder, tokenizer=sides)).tokenizers
    assert (found["source"].kind, found["target"].kind) == ("bpe", "words")
    assert len(found["target"]) == 15
    assert (found["source"].lowercase, found["target"].lowercase) == (False, True)
    apart = task.data(config(folder, tokenizer={"kind": "words", "shared": False})).tokenizers
    assert "sentence" in apart["target"].vocabulary
    assert "sentence" not in apart["source"].vocabulary


def test_an_end_that_texts_have_not_does_not_count(tmp_path):
    """In memory and in a store, which is encoded elsewhere; a translation's texts have an end."""
    rows = [("one two three", "yes"), ("one two three four", "no"), ("one", "no")]
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\n" + "\n".join("\t".join(row) for row in rows) + "\n")
    for store in ("", str(tmp_path / "store")):
        section = {"path": str(path), "max_length": 3, "store": store}
        data = tasks.load("classification")().data(section, splits=["train"])
        assert len(data.train) == 2
        assert dict(data.problems.counts) == {"too long": 1}
    both = {"path": str(path), "columns": {"source": "text", "target": "label"}, "max_length": 3}
    section = {**both, "tokenizer": {"kind": "words"}}
    assert len(tasks.load("translation")().data(section, splits=["train"]).train) == 1


def test_totals_of_lines_left_out_are_logged_once(monkeypatch):
    logged = []
    monkeypatch.setattr(problems_module.log, "warning", lambda text, *words: logged.append(words))
    found = Problems(shown=1)
    for line in range(3):
        found.add("a.tsv", line, "empty")
    for _ in range(2):  # the reader of the format, and that of the rows
        found.report("a.tsv")
    found.add("a.tsv", 9, "empty")
    found.report("a.tsv")
    totals = [words[1] for words in logged if words[0] == "a.tsv"]
    assert totals == [3, 4]


def test_lines_left_out_are_reported_with_file_and_line(task, tmp_path, caplog):
    rows = [
        *ROWS[:2],
        ("", "no source"),
        ("kein Ziel", " "),
        ("allein",),
        (" ".join("x" * 90), "x"),
    ]
    folder = write(tmp_path / "data", train=[*rows, *ROWS], test=[("a " * 90, "a"), *ROWS])
    with caplog.at_level(logging.WARNING):
        data = task.data(config(folder, max_length=50))
    assert len(data.train) == 22
    assert [(p.line, p.what) for p in data.problems] == [
        (6, "lacks a column"), (4, "empty"), (5, "empty"), (7, "too long")
    ] or sorted((p.line, p.what) for p in data.problems) == [
        (4, "empty"), (5, "empty"), (6, "lacks a column"), (7, "too long")
    ]  # fmt: skip
    assert all(p.file.endswith("train.tsv") for p in data.problems)
    assert len(data.test) == 21, "a score is of every sentence, however long"
    assert "train.tsv:7: too long (" in caplog.text
    assert "at most 50" in caplog.text


def test_limits_are_spread_over_the_file(task, folder):
    data = task.data(config(folder, limit=5))
    assert len(data.train) == 5
    assert len(data.dev) == 3
    assert data.train.texts[0] == ROWS[0][0]
    assert data.train.texts[-1] == ROWS[19][0]
    limited = task.data(config(folder, limit={"dev": 2, "train": 100}))
    assert [len(limited.train), len(limited.dev)] == [20, 2]


def test_files_named_one_by_one(task, folder, tmp_path):
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    (tmp_path / "a.en.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    named = {
        "train": {"source": str(tmp_path / "a.de"), "target": str(tmp_path / "a.en.gz")},
        "test": str(folder / "train.tsv"),
        "columns": COLUMNS,
        "tokenizer": {"kind": "characters"},
    }
    data = task.data(named)
    assert data.train.texts == ["eins", "zwei"]
    assert len(data.test) == 20
    assert data.dev is None
    pair = task.data(
        {"path": str(tmp_path / "a"), "columns": COLUMNS, "tokenizer": {"vocab_size": 50}}
    )
    assert [r[0] for r in pair.train.references] == ["one", "two"]


def test_one_file_is_the_split_that_is_asked_for(task, folder):
    tokenizers = task.data(config(folder)).tokenizers
    data = task.data(config(folder / "dev.tsv"), tokenizers, ("test",))
    assert len(data.test) == 3
    assert data.train is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"pathh": "x"}, "data has no key 'pathh': did you mean 'path'"),
        ({"columns": {"src": "de"}}, "data.columns has no key 'src'"),
        (
            {"tokenizer": {"vocab_sizes": 3}},
            "data.tokenizer has no key 'vocab_sizes': did you mean 'vocab_size'",
        ),
        ({"tokenizer": {"source": {"shared": True}}}, "data.tokenizer.source has no key 'shared'"),
        ({"limit": {"trian": 3}}, "did you mean 'train'"),
        ({"path": None}, "data.path is not given"),
        ({"columns": {"source": "du", "target": "en"}}, "there is no column 'du'"),
        ({"tokenizer": {"shared": True, "source": {"vocab_size": 9}}}, "needs the same kind"),
    ],
)
def test_wrong_requests(task, folder, wrong, message):
    with pytest.raises(RequestError, match=message):
        task.data({**config(folder), **wrong})


def test_a_split_that_is_not_there(task, tmp_path):
    folder = write(tmp_path / "data", train=ROWS)
    tokenizers = {"source": Tokenizer.train(["a"]), "target": Tokenizer.train(["a"])}
    with pytest.raises(RequestError, match="has no test split; it has train"):
        task.data(config(folder), tokenizers, ("test",))
    with pytest.raises(RequestError, match="no training file"):
        task.data(config(write(tmp_path / "other", test=ROWS)))


def test_a_file_without_a_usable_line(task, tmp_path):
    folder = write(tmp_path / "data", train=[("", "x"), ("y", "")])
    with pytest.raises(RequestError, match=r"train\.tsv has no usable line.*'empty': 2"):
        task.data(config(folder))


def test_there_is_a_table_of_tasks():
    for name in tasks.TASKS:
        assert tasks.load(name).name == name
    with pytest.raises(RequestError, match="did you mean 'translation'"):
        tasks.load("translate")


def test_an_empty_reference_is_scored_and_not_learned_from(tmp_path):
    for split in ("train", "dev", "test"):
        rows = "de\ten\nein Haus\ta house\nzwei\t\n\tthree\n" + "x\ty\n" * 3
        (tmp_path / f"{split}.tsv").write_text(rows)
    data = tasks.load("translation")().data(config(tmp_path))
    assert [len(one) for one in (data.train, data.dev, data.test)] == [4, 5, 5]
    assert data.test.references[1] == [""]
    assert dict(data.problems.left_out) == {"empty": 4}
