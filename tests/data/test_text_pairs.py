import pytest

from regard.data import Problems, read
from regard.errors import RequestError

COLUMNS = {"source": "text", "target": "summary"}


def test_pairs_in_the_order_of_their_names(tmp_path):
    for name, text in {
        "b.txt": "Two.\r\nLines 🙂", "b.summary": "two", "a.txt": "One.", "a.summary": "one\n",
        "c.txt": "alone", "d.summary": "alone", "e.txt": "x", "notes.md": "ignored",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "e.summary").write_bytes(b"\xff")
    problems = Problems()
    rows = list(read(tmp_path, COLUMNS, "text-pairs", problems=problems))
    assert [row.fields for row in rows] == [
        {"source": "One.", "target": "one\n"}, {"source": "Two.\nLines 🙂", "target": "two"},
    ]  # fmt: skip
    assert [(row.file, row.line) for row in rows] == [
        (str(tmp_path / "a.txt"), 1), (str(tmp_path / "b.txt"), 1),
    ]  # fmt: skip
    assert dict(problems.counts) == {"one of two files": 2, "not UTF-8": 1}
    named = next(iter(read(tmp_path, {"key": "name"}, "text-pairs")))
    assert named.fields == {"key": "a"}


def test_what_is_no_folder_of_texts_is_refused(tmp_path):
    with pytest.raises(RequestError, match=r"no file that ends in \.txt"):
        list(read(tmp_path, COLUMNS, "text-pairs"))
    with pytest.raises(RequestError, match="reads a folder"):
        list(read(tmp_path / "none", COLUMNS, "text-pairs"))
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(RequestError, match="no column 'headline'"):
        list(read(tmp_path, {"target": "headline"}, "text-pairs"))
