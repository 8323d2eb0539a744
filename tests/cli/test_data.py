"""`regard data`: counts that were made by hand here."""

import gzip
import json

import numpy as np
import pytest

from regard.data.graphs.files import write_folder
from regard.data.graphs.graph import Graph
from tests.cli.run import run

TRAIN = b"""\
kind\tde\ten
a\tDas Haus\tThe house
a\tDas Haus\tThe house
b\tEin Hund lief weg\tA dog ran away
b\t\tNothing there
\xff\tx\ty

b\tnur zwei
"""
TEST = b"""\
kind\tde\ten
a\tDas Haus\tThe house
b\tEin Hund lief weg\tThe dog went off
b\tNeu\tNew
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.tsv").write_bytes(TRAIN)
    with gzip.open(tmp_path / "test.tsv.gz", "wb") as file:
        file.write(TEST)
    return tmp_path


def test_rows_lengths_duplicates_and_problems(capsys, folder):
    ran = run(capsys, "data", str(folder), "--columns", "source=de,target=en", "--json")
    assert ran.code == 0
    train = ran.result["splits"]["train"]
    assert (train["rows"], train["duplicates"]) == (4, 1)
    source = train["columns"]["source"]
    assert source["words"] == {"min": 0, "median": 2, "p95": 4, "p99": 4, "max": 4}
    assert source["characters"]["max"] == len("Ein Hund lief weg")
    assert (source["distinct"], source["empty"]) == (3, 1)
    assert train["problems"] == {"not UTF-8": 1, "empty": 1, "lacks a column": 1}
    places = [p.partition(": ")[0] for p in train["first_problems"]]
    assert places == [f"{folder / 'train.tsv'}:{line}" for line in (6, 7, 8)]
    assert sorted(s["line"] for s in train["samples"]) == [s["line"] for s in train["samples"]]
    assert "train.tsv:6: not UTF-8" in ran.err


def test_leaks_between_splits(capsys, folder):
    ran = run(capsys, "data", str(folder), "--columns", "source=de,target=en", "--json")
    (leak,) = ran.result["leaks"]
    assert (leak["of"], leak["in"], leak["rows"]) == ("test", "train", 3)
    assert leak["shared"] == {"row": 1, "source": 2, "target": 1}


def test_columns_of_labels_are_no_leaks(capsys, folder):
    more = TEST + b"".join(b"a\tde %d\ten %d\n" % (i, i) for i in range(4))
    (folder / "dev.tsv").write_bytes(more)
    leaks = run(capsys, "data", str(folder), "-q", "--json").result["leaks"]
    assert [set(x["shared"]) for x in leaks if x["of"] == "dev"] == [{"row", "de", "en"}]


def test_the_page(capsys, folder):
    ran = run(capsys, "data", str(folder))
    assert ran.code == 0
    assert "train: 4 rows, 1 of them duplicates" in ran.out
    assert "left out: 1 not UTF-8" in ran.out
    assert "of 3 test" in ran.out
    assert "Neu | New" in ran.out


def test_other_formats(capsys, tmp_path):
    rows = [{"id": i, "de": f"wort {i}", "en": "word"} for i in range(5)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    found = run(capsys, "data", str(path), "--json").result["splits"]["rows.jsonl"]
    assert (found["rows"], set(found["columns"])) == (5, {"id", "de", "en"})

    (tmp_path / "corpus.de").write_text("eins\nzwei\n")
    (tmp_path / "corpus.en").write_text("one\ntwo\n")
    found = run(capsys, "data", str(tmp_path / "corpus"), "--json").result["splits"]["corpus"]
    assert (found["rows"], list(found["columns"])) == (2, ["de", "en"])

    (tmp_path / "plain.tsv").write_text("cat\tK AE T\ndog\tD AO G\n")
    words = ["data", str(tmp_path / "plain.tsv"), "--no-header", "--json"]
    found = run(capsys, *words).result["splits"]["plain.tsv"]
    assert (found["rows"], list(found["columns"])) == (2, ["1", "2"])


def test_csv_is_inspected_by_its_heading(capsys, tmp_path):
    (tmp_path / "a.csv").write_text('text;label\n"a; b";x\n"c\nd";y\n')
    found = run(capsys, "data", str(tmp_path / "a.csv"), "--json").result["splits"]["a.csv"]
    assert (found["rows"], list(found["columns"])) == (2, ["text", "label"])
    assert found["samples"][1]["text"] == "c\nd"


def test_folders_of_text_pairs_are_told_from_their_files(capsys, tmp_path):
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "a.txt").write_text(f"A long {split}.")
        (tmp_path / split / "a.summary").write_text("short")
        (tmp_path / split / "alone.txt").write_text("x")
    ran = run(capsys, "data", str(tmp_path), "--json")
    found = ran.result["splits"]
    assert {name: one["rows"] for name, one in found.items()} == {"train": 1, "test": 1}
    assert found["train"]["problems"] == {"one of two files": 1}
    one = run(capsys, "data", str(tmp_path / "train"), "--json").result["splits"]["train"]
    assert one["samples"][0]["summary"] == "short"


def test_what_taggers_read_is_told_from_what_is_in_the_file(capsys, tmp_path):
    rows = [{"tokens": ["a", "b"], "tags": ["O", "B"], "label": 1, "more": [["x"]]}] * 3
    path = tmp_path / "tags.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    found = run(capsys, "data", str(path), "--json").result["splits"]["tags.jsonl"]
    assert (found["rows"], list(found["columns"])) == (3, ["tokens", "tags", "label"])
    assert found["samples"][0]["tags"] == "O B"
    roles = "Ann NNP (S(NP*) - - (A0*)\nran VBD (VP*)) run 01 (V*)\n\nNo UH (S*) - -\n"
    (tmp_path / "roles.conll").write_text(roles)
    found = run(capsys, "data", str(tmp_path / "roles.conll"), "--json").result["splits"]
    assert found["roles.conll"]["samples"][0]["tags"] == "B-A0 B-V"
    names = "1|t|Zorin.\n1\t0\t5\tZorin\tDrug\tD1\n"
    (tmp_path / "all.pubtator.txt").write_text(names)
    found = run(capsys, "data", str(tmp_path / "all.pubtator.txt"), "--json").result["splits"]
    assert found["all.pubtator.txt"]["samples"][0]["tags"] == "B-Drug O"
    ran = run(capsys, "data", str(tmp_path))
    said = "has no train.*, dev.* or test.* file; there are all.pubtator.txt, roles.conll, tags.js"
    assert said in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.tsv"], "there is no data at 'nowhere.tsv'"),
        (["train.tsv", "--columns", "source=fr"], "there is no column 'fr' for 'source'"),
        (["train.tsv", "--columns", "source"], "--columns: expected field=column"),
        (["train.tsv", "--format", "tvs"], "did you mean 'tsv'?"),
        (["-"], "expected --columns for standard input"),
        (["empty.tsv"], "expected at least one line"),
        (["text.jsonl"], "expected a JSON object"),
    ],
)
def test_wrong_requests(capsys, folder, monkeypatch, words, said):
    (folder / "empty.tsv").write_bytes(b"")
    (folder / "text.jsonl").write_text("just words\n")
    monkeypatch.chdir(folder)
    ran = run(capsys, "data", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert said in run(capsys, "data", *words, "--json").result["error"]


def test_regard_data_is_looked_up(folder, capsys, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(folder))
    ran = run(capsys, "data", "train.tsv", "--json")
    assert ran.code == 0, ran.err
    assert ran.result["path"] == str(folder / "train.tsv")


@pytest.mark.parametrize("form", ["folder", "npz"])
def test_a_graph_has_its_nodes_edges_and_classes(capsys, tmp_path, form):
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    labels, index = np.array([0, 1, -1]), {"train": np.array([0]), "test": np.array([1])}
    if form == "npz":
        path = tmp_path / "mine.npz"
        x = np.ones((3, 5), np.float32)
        arrays = {"train_idx": index["train"], "val_idx": index["test"], "test_idx": index["test"]}
        np.savez(path, edge_index=edges, x=x, y=labels, names=np.array(["cat", "dog"]), **arrays)
    else:
        path = tmp_path / "mine"
        write_folder(Graph(edges, np.ones((3, 5), np.float32), labels, index, ["cat", "dog"]), path)
    ran = run(capsys, "data", str(path))
    assert ran.code == 0, ran.err
    assert "a graph: 3 nodes, 4 edges, 5 features" in ran.out
    assert "train 1" in ran.out
    found = run(capsys, "data", str(path), "--json").result["graph"]
    assert found["classes"] == {"cat": 1, "dog": 1}
    assert found["unlabeled"] == 1
