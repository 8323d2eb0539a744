"""Stories: bAbI text line by line, rows of JSON, folders of tasks, and what is wrong with them."""

import gzip
import json

import pytest

from regard.data import Problems, read
from regard.data.passages import stories
from regard.data.passages.stories import SentenceIndex, told, words_of
from regard.errors import RequestError

TEXT = """\
1 Mary went home.
2 Where is Mary? \thome\t1
3 Bob slept.
4 What did Bob do?\tslept,ate\t3 1
1 Anna left.
2 Who left?\tAnna
"""
EVERY = {name: name for name in ("story", "question", "answer", "support", "number")}


def test_facts_pile_up_until_the_numbers_begin_again(tmp_path):
    file = tmp_path / "qa1_x_train.txt.gz"
    file.write_bytes(gzip.compress(TEXT.encode()))
    rows = list(read(file, EVERY, "babi"))
    assert [tuple(row.fields.values()) for row in rows] == [
        ("Mary went home.", "Where is Mary?", "home", "1", "1"),
        ("Mary went home.\nBob slept.", "What did Bob do?", "slept,ate", "3 1", "1"),
        ("Anna left.", "Who left?", "Anna", "", "2"),
    ]
    assert [row.line for row in rows] == [2, 4, 6]


def test_lines_that_are_wrong_are_told_with_file_and_line_and_the_rest_is_read(tmp_path):
    file = tmp_path / "s.txt"
    file.write_bytes(b"1 A b.\nno number\n\n2 Who?\t\n3\n4 \xff\n5 \tx\n1 Where?\there\t\n")
    problems = Problems()
    rows = list(read(file, EVERY, "babi", problems=problems))
    assert [(r.fields["story"], r.fields["question"]) for r in rows] == [("", "Where?")]
    assert [(p.line, p.what) for p in problems] == [
        (2, "not a numbered line"),
        (3, "empty"),
        (4, "lacks an answer"),
        (5, "not a numbered line"),
        (6, "not UTF-8"),
        (7, "lacks a question"),
    ]


def test_a_column_that_stories_do_not_have_is_refused(tmp_path):
    (tmp_path / "s.txt").write_text(TEXT)
    with pytest.raises(RequestError, match=r"s.txt: bAbI stories have no column 'anser' .*answer"):
        list(read(tmp_path / "s.txt", {"target": "anser"}, "babi"))


@pytest.mark.parametrize(
    ("text", "facts", "question"),
    [
        ("A went. B slept!  Who? ", ["A went.", "B slept!"], "Who?"),
        ("1 A went.\n2 Who went? \tA\t1", ["A went."], "Who went?"),
        ("who is at 3.5 street", [], "who is at 3.5 street"),
        ("", [], ""),
        (" ... \n?", [], ""),
    ],
)
def test_a_text_is_facts_and_a_question(text, facts, question):
    assert told(text) == (facts, question)


def test_words_lose_marks_and_capitals_and_are_composed():
    assert words_of('"Cafe\u0301," said Ann\'s cat... ?!') == ["café", "said", "ann's", "cat"]


def asked(file, columns=None, form=None):
    names = columns or {name: name for name in ("story", "question", "answer")}
    return list(stories.read(file, "t", names, form, Problems()))


def test_json_rows_are_stories_of_their_own(tmp_path):
    file = tmp_path / "train.jsonl"
    rows = [
        {"story": "Ann left. Bob came.", "q": "Who came?", "answer": "Bob", "task": "x"},
        {"story": "", "q": "Why?", "answer": "no reason", "task": "y"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    columns = {"story": "story", "question": "q", "answer": "answer", "task": "task"}
    first, second = asked(file, columns)
    assert (first.facts, first.task) == (["Ann left.", "Bob came."], "x")
    assert (second.facts, second.answer, second.task) == ([], "no reason", "y")
    assert first.number != second.number


def test_a_folder_of_tasks(tmp_path):
    for task, split in ((2, "train"), (10, "train"), (2, "test"), (2, "train-10k"), (2, "valid")):
        (tmp_path / f"qa{task}_some-name_{split}.txt").write_text(TEXT)
    found = stories.files(str(tmp_path), None, "1k")
    assert [task for task, _ in found["train"]] == ["qa2", "qa10"]
    assert sorted(found) == ["dev", "test", "train"]
    larger = stories.files(str(tmp_path), ["qa2"], "10k")
    names = [file.name for _, file in larger["train"]]
    assert names == ["qa2_some-name_train.txt", "qa2_some-name_train-10k.txt"]
    with pytest.raises(RequestError, match=r"no task 'qa3'; it has qa2, qa10"):
        stories.files(str(tmp_path), ["qa3"], "1k")
    (tmp_path / "qa2_some-name_train-10k.txt").unlink()
    with pytest.raises(RequestError, match=r"has no .*_train-10k.txt files"):
        stories.files(str(tmp_path), None, "10k")


def test_a_sentence_is_kept_once_and_unknown_words_are_three():
    sheet = SentenceIndex({"ann": 4, "left": 5})
    assert [sheet.add(t) for t in ("Ann left.", "Bob left.", "Ann left.", "")] == [1, 2, 1, 0]
    assert sheet.words().tolist() == [[0, 0], [4, 5], [3, 5]]
