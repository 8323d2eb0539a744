"""One table of formats for everyone."""

import gzip

import pytest

from regard.data import sources
from regard.data.files.registry import FORMATS, columns_of, format_of, packing_of, read
from regard.data.formats.documents import documents_format
from regard.data.passages import questions, running_text
from regard.data.problems import Problems
from regard.errors import RequestError
from regard.inference.records import kind_of
from tests.fuzz.seeds import COLUMNS, TEXTS
from tests.repo.tree import TOP


def test_every_format_is_read_through_the_table(tmp_path):
    for name, one in FORMATS.items():
        assert callable(getattr(one.load(), one.reader)), name
        if name in COLUMNS and name not in ("moses", "text-pairs"):
            path = tmp_path / f"in{one.endings[0] if one.endings else '.x'}"
            path.write_bytes(TEXTS[name][0])
            assert list(read(path, COLUMNS[name], name, problems=Problems(shown=0))), name
    endings = [ending for one in FORMATS.values() for ending in one.endings]
    assert len(endings) == len(set(endings))
    assert {"FORM", "UPOS"} < {*columns_of("conllu")}
    assert columns_of("csv") == ()


def test_every_format_has_seeds_and_a_line_in_the_docs():
    pages = (TOP / "docs" / "howto" / page for page in ("data.md", "images.md"))
    said = "".join(page.read_text("utf-8") for page in pages).lower()
    for name, one in FORMATS.items():
        assert name in TEXTS or name in ("text-pairs", "npz", "folders", "tar"), name
        told = (f"format: {name}", *one.endings, f"| {name} |" if name != "folders" else name)
        assert any(text in said for text in told), name


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_every_door_asks_the_table(packed):
    assert packing_of(f"a.csv{packed}") == packed
    assert format_of(f"a.csv{packed}") == kind_of(f"a.csv{packed}") == "csv"
    assert documents_format(f"a.jsonl{packed}") == "jsonl"
    assert documents_format(f"a.xml{packed}") == "bioc"
    assert questions.format_of(f"a.json{packed}") == "squad"
    assert questions.format_of(f"a.txt{packed}") == "cbt"
    assert running_text.format_of(f"a.csv{packed}") == "csv"
    assert running_text.format_of(f"a.txt{packed}") == kind_of(f"a.txt{packed}") == "text"


def test_a_folder_with_one_csv_file_has_a_training_split(tmp_path):
    (tmp_path / "train.csv.gz").write_bytes(gzip.compress(b"text,label\na,b\n"))
    assert sources.splits(tmp_path) == {"train": tmp_path / "train.csv.gz"}
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "train.xlsx").write_bytes(b"PK")
    with pytest.raises(RequestError, match=r"train\.xlsx: \.xlsx files are not read; .*as CSV"):
        sources.splits(tmp_path / "b")


def test_arrays_of_json(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"t": ["New York", "", "is"], "n": 1.0, "b": true}, 3, {"t": "x"},'
                    ' {"t": NaN, "n": 1, "b": "c"}]', "utf-16")  # fmt: skip
    problems = Problems()
    wanted = {"text": "t", "number": "n", "more": "b"}
    rows = list(read(path, wanted, problems=problems, lists=["text"]))
    assert [row.fields for row in rows] == [
        {"text": ["New York", "", "is"], "number": "1", "more": "true"}
    ]
    assert [(p.line, p.what) for p in problems] == [
        (2, "not a JSON object"), (3, "lacks a column"), (4, "lacks a column"),
    ]  # fmt: skip
    path.write_bytes(TEXTS["squad"][0])
    with pytest.raises(RequestError, match=r"say data\.format: squad"):
        list(read(path, wanted))
