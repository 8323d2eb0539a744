"""Predicted tags in the file that they were predicted for: all else stays byte for byte."""

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.annotations.bracket_columns import phrases_of, start_end_of
from regard.data.formats import jsonl, read, write_back
from regard.data.problems import Problems
from regard.errors import RegardError, RequestError
from tests.data.test_column_files import NER, ROLES, UD

JSON = """{"id": 7,"tags" :["B", "O"], "more": {"tags": "x, y"}}

{"tags": "B-X  O", "text": "\\u00e9t\\u00e9 x"}
not JSON
{"text": "no tags yet"}
{}
"""

CASES = {
    "conll": (NER, {"text": 1, "tags": 4}, 4),
    "conllu": (UD, {"text": "FORM", "tags": "UPOS"}, "UPOS"),
    "conll2005": (ROLES, {"tags": "tags"}, "tags"),
}
ENDS = {"as it is": lambda t: t, "windows": lambda t: t.replace("\n", "\r\n"),
        "no last end": lambda t: t.rstrip("\n"), "a mark": lambda t: "\ufeff" + t}  # fmt: skip


def tags_of_rows(path, columns, format) -> dict[int, str]:
    return {row.line: row.fields["tags"] for row in read(path, columns, format)}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("format", CASES)
def test_gold_tags_give_the_same_bytes(tmp_path, format, end):
    text, columns, column = CASES[format]
    (tmp_path / "in").write_bytes(ENDS[end](text).encode())
    told = tags_of_rows(tmp_path / "in", columns, format)
    assert len(told) == 2
    assert write_back(tmp_path / "in", tmp_path / "out", told, column, format) == (2, 0)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("format", CASES)
def test_other_tags_and_back_again(tmp_path, format, end):
    """Other cells and blanks stay; the tags read again are those written."""
    text, columns, column = CASES[format]
    (tmp_path / "in").write_bytes(ENDS[end](text).encode())
    gold = tags_of_rows(tmp_path / "in", columns, format)
    other = {line: " ".join(["B-Q", *["I-Q"] * tags.count(" ")]) for line, tags in gold.items()}
    write_back(tmp_path / "in", tmp_path / "other", other, column, format)
    assert tags_of_rows(tmp_path / "other", columns, format) == other
    write_back(tmp_path / "other", tmp_path / "again", gold, column, format)
    first, again = (tmp_path / "in").read_bytes(), (tmp_path / "again").read_bytes()
    assert [line.split() for line in again.split(b"\n")] == [
        line.split() for line in first.split(b"\n")
    ]
    assert format == "conll2005" or again == first  # aligned blanks are laid out anew


def test_what_is_written_by_hand(tmp_path):
    (tmp_path / "a.conll").write_text(NER)
    write_back(tmp_path / "a.conll", tmp_path / "b.conll", {6: "B-LOC I-LOC"}, column=4)
    written = (tmp_path / "b.conll").read_text()
    assert written == NER.replace("# # I-NP O", "# # I-NP B-LOC").replace("I-PER", "I-LOC")
    (tmp_path / "roles").write_text(ROLES)
    told = {4: "B-ARG0 I-ARG0 B-V O O I-ARG2 I-ARG2 O"}  # an I- that continues nothing begins
    assert write_back(tmp_path / "roles", tmp_path / "out", told, format="conll2005") == (1, 1)
    expected = ["(ARG0*", "*)", "(V*)", "*", "*", "(ARG2*", "*)", "*"]
    lines = (tmp_path / "out").read_text().split("\n")
    assert [line.split()[5] for line in lines[1:9]] == expected
    assert lines[1] == "Ann   NNP (S(NP*) -    -  (ARG0*    (ARG0*)"
    assert lines[0] == "# doc = a/b"
    assert lines[9:] == ["", "Oh UH (X*) - -", "", ""]


def test_json_lines(tmp_path):
    (tmp_path / "a.jsonl").write_text(JSON)
    told = {1: "B O", 3: "O O", 5: "O O O", 6: "O"}
    assert write_back(tmp_path / "a.jsonl", tmp_path / "b.jsonl", told) == (4, 0)
    old, new = JSON.split("\n"), (tmp_path / "b.jsonl").read_text().split("\n")
    assert new[0] == old[0]
    assert new[2] == '{"tags": "O O", "text": "\\u00e9t\\u00e9 x"}'
    assert new[4] == '{"text": "no tags yet", "tags": ["O", "O", "O"]}'
    assert json.loads(new[5]) == {"tags": ["O"]}
    assert (new[1], new[3]) == (old[1], old[3])
    told = {1: "O B"}
    assert write_back(tmp_path / "a.jsonl", tmp_path / "b.jsonl", told) == (1, 3)
    assert (tmp_path / "b.jsonl").read_text() == JSON.replace('["B", "O"]', '["O", "B"]')


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text() | st.just("tags"), VALUES, max_size=5)


@settings(max_examples=60)
@given(OBJECTS, st.sampled_from([None, (", ", " : ")]), st.booleans())
def test_json_lines_of_any_kind(tmp_path_factory, value, separators, ascii):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    written = json.dumps(value, separators=separators, ensure_ascii=ascii)
    path.write_text(written, "utf-8", newline="")
    [(rows, changed)] = jsonl.edits(path, "tags", {1: "B O"}, Problems())
    tags = "B O" if isinstance(value.get("tags"), str) else ["B", "O"]
    assert rows == [1]
    assert json.loads(changed.get(1, written)) == value | {"tags": tags}


def test_zipped_by_the_name_of_the_target(tmp_path):
    (tmp_path / "a.conll.gz").write_bytes(gzip.compress(NER.encode()))
    told = tags_of_rows(tmp_path / "a.conll.gz", {"tags": 4}, None)
    write_back(tmp_path / "a.conll.gz", tmp_path / "b.conll", told, 4)
    assert (tmp_path / "b.conll").read_text() == NER
    write_back(tmp_path / "b.conll", tmp_path / "b.conll.gz", told, 4)
    assert gzip.decompress((tmp_path / "b.conll.gz").read_bytes()) == NER.encode()


@pytest.mark.parametrize(
    ("format", "told", "said"),
    [
        ("conll", {3: "O"}, "in:3: expected 2 tags, got 1"),
        ("conll", {4: "O O"}, "in:4: there is a prediction for this line, but no row"),
        ("conll2005", {4: "B-A(0 O O O O O O O"}, r"in:4: .*without brackets.*'A\(0'"),
        ("conll2005", {4: "B O O O O O O O"}, "in:4: expected a label"),
        ("tsv", {}, "tags are not written to 'tsv'"),
    ],
)
def test_what_cannot_be_written_leaves_the_target(tmp_path, format, told, said):
    text, _, column = CASES.get(format, CASES["conll"])
    (tmp_path / "in").write_text(text)
    (tmp_path / "out").write_text("before")
    with pytest.raises(RequestError, match=said):
        write_back(tmp_path / "in", tmp_path / "out", told, column, format)
    assert (tmp_path / "out").read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


def test_standard_input_and_folders(tmp_path):
    with pytest.raises(RequestError, match="read only once"):
        write_back("-", tmp_path / "out", {}, format="conll")
    with pytest.raises(RequestError, match="there is no file"):
        write_back(tmp_path / "a.conll", tmp_path / "out", {}, 1)
    (tmp_path / "a.conll").write_text(NER)
    (tmp_path / "file").write_text("")
    with pytest.raises(RegardError):
        write_back(tmp_path / "a.conll", tmp_path / "file" / "out", {}, 4)


PHRASES = st.tuples(st.integers(0, 7), st.integers(1, 8), st.sampled_from("XYZ"))


@given(st.lists(PHRASES, max_size=6))
def test_brackets_both_ways(phrases):
    phrases = [(start, end, label) for start, end, label in phrases if start < end]
    crossing = any(a < c < b < d for a, b, _ in phrases for c, d, _ in phrases)
    if crossing:
        with pytest.raises(RequestError, match="crosses"):
            start_end_of(phrases, 8)
        return
    assert sorted(phrases_of(start_end_of(phrases, 8))) == sorted(phrases)


REAL = Path(os.environ.get("REGARD_DATA", "")) / "srl" / "dev.conll.gz"


@pytest.mark.skipif(not REAL.is_file(), reason="needs the set srl under $REGARD_DATA")
def test_the_real_roles_come_back_byte_for_byte(tmp_path):
    told = tags_of_rows(REAL, {"tags": "tags"}, "conll2005")
    assert len(told) == 4906  # as its README says
    write_back(REAL, tmp_path / "out", told, format="conll2005")
    assert (tmp_path / "out").read_bytes() == gzip.decompress(REAL.read_bytes())
