"""CSV as spreadsheets write it, against Python's `csv` writer."""

import csv
import io
import itertools

import pytest

from regard.data.files.delimited import Dialect, dialect_of
from regard.data.files.registry import read
from regard.data.problems import Problem, Problems
from regard.errors import RequestError

ROWS = [
    ("text", "label", "n"),
    ('She said "no, never"', "good", "1"),
    ("two\nlines; of text", "bad", "2"),
    ("ein Haus, ein\tHund", "good", "3"),
    ("喜欢|是", "bad", ""),
]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16"]
COLUMNS = {"text": "text", "label": 2, "n": "n"}


def texts(path, columns=COLUMNS, problems=None, **more):
    return [tuple(row.fields.values()) for row in read(path, columns, problems=problems, **more)]


@pytest.mark.parametrize(("delimiter", "encoding"), [*itertools.product(",;\t|", ENCODINGS)])
def test_delimiters_quotes_and_encodings_are_found_out(delimiter, encoding, tmp_path):
    for quotechar, escape in (('"', None), ('"', "\\"), ("'", None)):
        out = io.StringIO()
        csv.writer(
            out, delimiter=delimiter, quotechar=quotechar, escapechar=escape,
            doublequote=escape is None,
            quoting=csv.QUOTE_ALL if quotechar == "'" else csv.QUOTE_MINIMAL,
        ).writerows(ROWS)  # fmt: skip
        path = tmp_path / f"{ord(quotechar)}{escape is None}.csv"
        path.write_bytes(out.getvalue().encode(encoding))
        assert texts(path) == ROWS[1:]
        assert dialect_of(path) == Dialect(delimiter, quotechar, escape or "")


def test_a_row_is_at_the_line_where_it_begins_and_a_broken_one_costs_itself(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(
        b'text,label\n"a\nb",x\n"never closed,x\nc,y\n"d"e,x\n'
        b"f,x,more\n,\ng\nh\xff,x\ni\rj,x\nk,y,,\n"
    )
    problems = Problems()
    found = list(read(path, {"text": "text", "label": "label"}, problems=problems))
    assert [(row.line, *row.fields.values()) for row in found] == [
        (2, "a\nb", "x"), (5, "c", "y"), (12, "k", "y")
    ]  # fmt: skip
    assert [(p.line, p.what) for p in sorted(problems, key=lambda p: p.line)] == [
        (4, "broken quotes"), (6, "broken quotes"), (7, "too many columns"), (8, "empty"),
        (9, "lacks a column"), (10, "not UTF-8"), (11, "lone carriage return"),
    ]  # fmt: skip


def test_what_is_given_is_taken_where_it_divides_the_first_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b,c\n1;2,3\n")
    assert texts(path, {"x": "b,c"}, dialect={"delimiter": ";"}) == [("2,3",)]
    assert texts(path, {"x": "c"}, dialect={"delimiter": ","}) == [("3",)]
    assert texts(path, {"x": "c"}, dialect={"delimiter": "|"}) == [("3",)]
    path.write_text("text\nno delimiter here\n")
    assert texts(path, {"x": "text"}) == [("no delimiter here",)]


def test_rows_of_tsv_with_more_cells_than_headings_and_lone_carriage_returns(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"de\ten\na\tb\nc\td\te\nf\tg\t\nh\ri\tj\n")
    problems = Problems()
    assert texts(path, {"source": "de", "target": "en"}, problems) == [("a", "b"), ("f", "g")]
    assert list(problems) == [
        Problem(str(path), 3, "too many columns", "3 columns, 2 expected"),
        Problem(str(path), 5, "lone carriage return", r"lines end with \n or \r\n"),
    ]
    path.write_bytes(b"de\ten\rx\ty\r")
    with pytest.raises(RequestError, match=r"a\.tsv:1: the heading line has a lone carriage"):
        texts(path, {"source": "de"})


def test_two_columns_of_one_name_are_asked_for_by_number(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,label,t\n1,2,3\n")
    with pytest.raises(RequestError, match="columns 1 and 3 are both named 't', for 'text'"):
        texts(path, {"text": "t"})
    assert texts(path, {"text": 3, "label": "label"}) == [("3", "2")]
    path.write_text('"a\nb",c\n1,2\n')
    with pytest.raises(RequestError) as raised:
        texts(path, {"text": "t"})
    assert "\n" not in str(raised.value)
