"""SemEval-2010 task 8: sentences with two marks, and what is wrong with files of them."""

import pytest

from regard.data import Problems, read
from regard.errors import RequestError

COLUMNS = {"text": "text", "relation": "relation"}
GOOD = """\
7\t"The <e1>fire</e1> was caused by <e2>lightning</e2>."
Cause-Effect(e2,e1)
Comment: an easy one

8\tHe said "<e1>no</e1>" to <e2>it</e2>.
Other
"""


def test_examples_are_read_with_their_lines(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(GOOD.replace("\n", "\r\n"))
    rows = list(read(path, COLUMNS, "semeval"))
    assert [(row.fields["text"], row.fields["relation"], row.line) for row in rows] == [
        ("The <e1>fire</e1> was caused by <e2>lightning</e2>.", "Cause-Effect(e2,e1)", 1),
        ('He said "<e1>no</e1>" to <e2>it</e2>.', "Other", 5),
    ]
    more = {"key": "number", "note": "comment"}
    told = [row.fields for row in read(path, more, "semeval")]
    assert told == [{"key": "7", "note": "an easy one"}, {"key": "8", "note": ""}]


def test_broken_examples_are_reported_and_left_out(tmp_path, caplog):
    path = tmp_path / "train.txt"
    broken = "9\tno relation\n\nno number\nOther\n\n10\ttwo\nOther\nCause-Effect(e1,e2)\n\n"
    path.write_text(broken + GOOD)
    problems = Problems()
    rows = list(read(path, COLUMNS, "semeval", problems=problems))
    assert [row.line for row in rows] == [10, 14]
    assert dict(problems.counts) == {
        "no relation": 1, "not SemEval": 1, "several relations": 1,
    }  # fmt: skip
    assert f"{path}:3: not SemEval" in caplog.text


def test_what_is_no_such_file_is_refused(tmp_path):
    path = tmp_path / "other.txt"
    path.write_text("label\ttext\npos\tfine\n")
    with pytest.raises(RequestError, match="no example in 2 lines: expected a number, a tab"):
        list(read(path, COLUMNS, "semeval"))
    path.write_text(GOOD)
    with pytest.raises(RequestError, match="no column 'label' for 'relation'"):
        list(read(path, {"relation": "label"}, "semeval"))


def test_an_example_with_a_line_that_cannot_be_read_is_left_out(tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD.replace("an easy one", "\udcff").encode("utf-8", "surrogateescape"))
    problems = Problems()
    assert [row.line for row in read(path, COLUMNS, "semeval", problems=problems)] == [5]
    assert dict(problems.counts) == {"not UTF-8": 1}
