import gzip
import io
import json
import logging
import sys
from types import SimpleNamespace

import pytest

from regard.data.files.registry import format_of
from regard.data.formats import read
from regard.data.problems import Problem, Problems
from regard.errors import RequestError

PAIRS = [("ein Haus", "a house"), ("zwei Hunde\u2028sind", "two dogs are"), ('"so"', "'so'")]
SIDES = {"source": "de", "target": "en"}


def fields(path, columns=SIDES, problems=None, **more):
    return [tuple(row.fields.values()) for row in read(path, columns, problems=problems, **more)]


def write(path, text: str | bytes, zipped: bool = False):
    raw = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    return path


def as_tsv(header: bool = True) -> str:
    rows = [("id", "en", "de")] if header else []
    rows += [(str(i), en, de) for i, (de, en) in enumerate(PAIRS)]
    return "".join("\t".join(row) + "\n" for row in rows)


def as_jsonl() -> str:
    return "".join(json.dumps({"id": 1, "en": en, "de": de}) + "\n" for de, en in PAIRS)


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def zipped(request) -> bool:
    return request.param


def test_tsv_by_name_and_by_number(tmp_path, zipped):
    end = ".gz" if zipped else ""
    path = write(tmp_path / f"a.tsv{end}", as_tsv(), zipped)
    assert fields(path) == PAIRS
    assert fields(path, {"source": 3, "target": "2"}) == PAIRS
    path = write(tmp_path / f"b.tsv{end}", as_tsv(header=False), zipped)
    assert fields(path, {"source": 3, "target": "2"}, header=False) == PAIRS
    assert [row.line for row in read(path, {"source": 1}, header=False)] == [1, 2, 3]


def test_jsonl(tmp_path, zipped):
    path = write(tmp_path / ("a.jsonl.gz" if zipped else "a.jsonl"), as_jsonl(), zipped)
    assert fields(path) == PAIRS
    assert fields(path, {"number": "id"}) == [("1",)] * 3


def test_moses(tmp_path, zipped):
    end = ".gz" if zipped else ""
    write(tmp_path / f"train.de{end}", "".join(de + "\n" for de, _ in PAIRS), zipped)
    write(tmp_path / f"train.en{end}", "".join(en + "\n" for _, en in PAIRS), zipped)
    assert fields(tmp_path / "train") == PAIRS
    both = {"source": tmp_path / f"train.de{end}", "target": tmp_path / f"train.en{end}"}
    assert fields(both, {"source": "x", "target": "y"}) == PAIRS


@pytest.mark.parametrize("format", ["tsv", "jsonl"])
def test_standard_input(monkeypatch, zipped, format):
    raw = (as_tsv() if format == "tsv" else as_jsonl()).encode()
    stream = io.BufferedReader(io.BytesIO(gzip.compress(raw) if zipped else raw))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    assert fields("-", format=format) == PAIRS


def test_moses_with_one_side_from_standard_input(monkeypatch, tmp_path):
    stream = io.BufferedReader(io.BytesIO("".join(de + "\n" for de, _ in PAIRS).encode()))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    write(tmp_path / "en", "".join(en + "\n" for _, en in PAIRS))
    assert fields({"source": "-", "target": tmp_path / "en"}) == PAIRS


def test_windows_line_ends_byte_order_mark_and_no_last_line_end(tmp_path):
    path = write(tmp_path / "a.tsv", b"\xef\xbb\xbfde\ten\r\neins\tone\r\nzwei\ttwo")
    assert fields(path) == [("eins", "one"), ("zwei", "two")]


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.tsv", "tsv"), ("a.tsv.gz", "tsv"), ("a.jsonl.gz", "jsonl"), ("-", "tsv"),
     ("train", "moses"), ("corpus.clean", "moses")],
)  # fmt: skip
def test_formats_by_name(name, format):
    assert format_of(name) == format


def test_broken_lines_of_tsv_are_reported_and_the_rest_is_read(tmp_path):
    rows = [b"de\ten", b"eins\tone", b"zwei", b"", b"dr\xffei\tthree", b"\t", b"vier\tfour"]
    path = write(tmp_path / "a.tsv", b"\n".join(rows) + b"\n")
    problems = Problems()
    assert fields(path, problems=problems) == [("eins", "one"), ("vier", "four")]
    file = str(path)
    assert list(problems) == [
        Problem(file, 3, "lacks a column", "1 columns, at least 2 expected"),
        Problem(file, 4, "empty"),
        Problem(file, 5, "not UTF-8", "byte 3"),
        Problem(file, 6, "empty"),
    ]
    assert dict(problems.counts) == {"lacks a column": 1, "empty": 2, "not UTF-8": 1}
    assert len(problems) == 4


def test_broken_lines_of_jsonl(tmp_path):
    rows = ['{"de": "eins", "en": "one"}', "{", '["de"]', '{"de": "zwei"}', "",
            '{"de": "drei", "en": null}', '{"de": "vier", "en": "four"}']  # fmt: skip
    path = write(tmp_path / "a.jsonl", "\n".join(rows))
    problems = Problems()
    assert fields(path, problems=problems) == [("eins", "one"), ("vier", "four")]
    assert [(p.line, p.what) for p in problems] == [
        (2, "not JSON"), (3, "not a JSON object"), (4, "lacks a column"), (5, "empty"),
        (6, "lacks a column"),
    ]  # fmt: skip


def test_broken_lines_of_moses(tmp_path):
    write(tmp_path / "a.de", b"eins\nzw\xffei\n\ndrei\n")
    write(tmp_path / "a.en", b"one\ntwo\n\nthree\n")
    problems = Problems()
    assert fields(tmp_path / "a", problems=problems) == [("eins", "one"), ("drei", "three")]
    de = str(tmp_path / "a.de")
    assert [(p.file, p.line, p.what) for p in problems] == [(de, 2, "not UTF-8"), (de, 3, "empty")]


def test_a_line_too_long_for_anything_is_left_out(tmp_path):
    long = b"x" * ((1 << 20) + 5)
    path = write(tmp_path / "a.tsv", b"de\ten\n" + long + b"\ty\neins\tone\n")
    problems = Problems()
    assert fields(path, problems=problems) == [("eins", "one")]
    assert [(p.line, p.what) for p in problems] == [(2, "too long")]


def test_only_the_first_few_of_a_kind_are_logged_then_their_number(tmp_path, caplog):
    path = write(tmp_path / "a.tsv", "de\ten\n" + "x\n" * 10)
    with caplog.at_level(logging.WARNING):
        fields(path, problems=Problems(shown=2))
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith(f"{path}:2: lacks a column")
    assert len(lines) == 3
    assert "10 lines left out in all: lacks a column" in lines[2]


def test_a_column_that_is_not_there(tmp_path):
    path = write(tmp_path / "a.tsv", as_tsv())
    with pytest.raises(RequestError, match=r"a\.tsv:1: there is no column 'enn'.*'id', 'en', 'de'"):
        fields(path, {"source": "de", "target": "enn"})
    with pytest.raises(RequestError, match="did you mean 'en'"):
        fields(path, {"source": "de", "target": "enn"})
    with pytest.raises(RequestError, match=r"there is no column 4 .* it has 3"):
        fields(path, {"source": 4})
    with pytest.raises(RequestError, match="counted from 1"):
        fields(path, {"source": 0})
    with pytest.raises(RequestError, match="header: false"):
        fields(path, {"source": "de"}, header=False)


def test_a_key_that_no_line_has(tmp_path):
    path = write(tmp_path / "a.jsonl", as_jsonl())
    with pytest.raises(RequestError, match=r"no line has the key 'enn'.*'id', 'en', 'de'"):
        fields(path, {"source": "de", "target": "enn"})


@pytest.mark.parametrize(("de", "en"), [(3, 2), (2, 5)])
def test_moses_files_of_unequal_length(tmp_path, de, en):
    write(tmp_path / "a.de", "x\n" * de)
    write(tmp_path / "a.en", "y\n" * en)
    with pytest.raises(RequestError, match=f"a.de has {de} lines, .*a.en has {en} lines"):
        fields(tmp_path / "a")


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(RequestError, match="there is no file"):
        fields(tmp_path / "a.tsv")
    with pytest.raises(RequestError, match=r"there is no file .*a\.de"):
        fields(tmp_path / "a")
    with pytest.raises(RequestError, match="no file is named for 'target'"):
        fields({"source": tmp_path / "x"})
    with pytest.raises(RequestError, match="did you mean 'jsonl'"):
        read("-", SIDES, format="jsonll")
    (tmp_path / "b.tsv").mkdir()
    with pytest.raises(RequestError, match="is a folder"):
        fields(tmp_path / "b.tsv")


def test_a_gzip_file_cut_short(tmp_path):
    import random

    text = "de\ten\n" + "".join(f"{random.random()}\t{random.random()}\n" for _ in range(5000))
    path = write(tmp_path / "a.tsv.gz", gzip.compress(text.encode())[:-2000])
    with pytest.raises(RequestError, match=r"a\.tsv\.gz: damaged gzip file after line \d+"):
        fields(path)
