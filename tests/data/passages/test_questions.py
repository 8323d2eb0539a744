"""Questions from CBT, SQuAD and JSON lines, and from single inputs; what is broken is reported."""

import gzip
import json

import pytest

from regard.data import formats
from regard.data.passages import questions
from regard.data.problems import Problems
from regard.errors import RequestError

STORY = (
    "1 Alice saw the Hatter .\n"
    "2 The Hatter had tea .\n21 XXXXX drank tea .\tHatter\t\tAlice|Hatter\n"
)


def read(path, **more):
    problems = Problems()
    return list(questions.read(path, problems, **more)), problems


def test_a_cbt_file(tmp_path):
    path = tmp_path / "NE_test.txt.gz"
    path.write_bytes(gzip.compress((STORY + "\n" + STORY).encode()))
    found, problems = read(path)
    assert len(found) == 2
    assert not len(problems)
    one = found[1]
    assert " ".join(one.words) == "Alice saw the Hatter . The Hatter had tea ."
    assert one.query == ["XXXXX", "drank", "tea", "."]
    assert (one.answers, one.candidates, one.line) == (["Hatter"], ["Alice", "Hatter"], 7)
    assert one.piece(0, 1) == "Alice saw"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 A .\n21 no blank\tA\t\tA|B\n", ":2: broken question (no XXXXX in the query)"),
        ("21 XXXXX\tA\t\tA|B\n", ":1: broken question (no sentence before it)"),
        ("1 A .\n21 XXXXX\t\t\tA|B\n", ":2: broken question (no answer)"),
        ("1 A .\n21 XXXXX\tC\t\tA|B\n", ":2: broken question (the answer 'C' is not one of"),
        ("A sentence.\n", ":1: not CBT (expected a number and a sentence"),
        ("1 A .\n2 B .\n\n", ":3: no question (2 sentences without one)"),
        ("1 A \xff\n", ":1: not UTF-8"),
    ],
)
def test_broken_questions_are_reported_and_left_out(tmp_path, text, said):
    path = tmp_path / "x.txt"
    path.write_bytes(text.encode("latin-1") + STORY.encode())
    found, problems = read(path)
    assert len(found) == 1
    assert said in str(next(iter(problems)))


def test_no_question_at_all(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("Once upon a time.\n")
    with pytest.raises(
        RequestError, match="no question in 1 lines: expected '21 query with XXXXX'"
    ):
        read(path)


def squad(*asked, context="The old farmer had sons."):
    return json.dumps(
        {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": asked}]}]}
    )


def test_a_squad_file(tmp_path):
    path = tmp_path / "x.json"
    answers = [{"text": "a man", "answer_start": -1}, {"text": "old farmer", "answer_start": 4}]
    path.write_text(squad({"id": "q1", "question": "Who had sons?", "answers": answers}))
    (one,), _ = read(path)
    assert one.words == ["The", "old", "farmer", "had", "sons", "."]
    assert one.query == ["Who", "had", "sons", "?"]
    assert (one.answers, one.starts) == (["a man", "old farmer"], [-1, 4])
    assert one.span() == (1, 2)
    assert one.piece(1, 2) == "old farmer"


def test_broken_squad_questions_are_reported(tmp_path):
    path = tmp_path / "x.json"
    good = {"id": "q3", "question": "Who?", "answers": [{"text": "sons", "answer_start": 99}]}
    path.write_text(squad({"id": "q1", "answers": []}, {"id": "q2", "question": "Who?"}, good))
    (one,), problems = read(path)
    assert one.starts == [19]  # where it is, whatever is said
    assert [str(p).rpartition(":question:")[2] for p in problems] == [
        "1: broken question (no text at 'question')", "2: broken question (q2: no answer)"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("context", "answer", "told", "piece"),
    [
        ("The cat sat.", " cat", 3, (1, 1)),
        ("concatenate the cat", "cat", None, (2, 2)),
        ("concatenate the cat", "cat", 2, (2, 2)),
        ("\U0001f600 the cat, a cat", "cat", 7, (2, 2)),  # counted in UTF-16: an emoji is two
        ("\U0001f600\U0001f600 cat, cat", "cat", 10, (4, 4)),
        ("cat a b c d cat", "cat", 11, (5, 5)),  # the nearest
        ("cafe\u0301 noir, caf\u00e9", "caf\u00e9", 12, (3, 3)),  # in either normal form
    ],
)
def test_answers_are_found_where_offsets_are_not_right(context, answer, told, piece, tmp_path):
    asked = {"id": "q", "question": "?", "answers": [{"text": answer, "answer_start": told}]}
    (tmp_path / "x.json").write_text(squad(asked, context=context))
    row = {"document": context, "query": "?", "answers": [answer]}
    (tmp_path / "x.jsonl").write_text(json.dumps(row | ({"starts": [told]} if told else {})))
    for name in ("x.json", "x.jsonl"):
        (one,), problems = read(tmp_path / name)
        assert (one.span(), len(problems)) == (piece, 0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "x.json is not JSON: .*line 1 column 2"),
        (b'{"data": [{}]}', "is not SQuAD: expected data"),
        (gzip.compress(b"{}" * 500, mtime=0)[:-9], "damaged gzip file"),
    ],
)
def test_files_that_are_not_squad(tmp_path, content, said):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=said):
        read(path)


def test_json_lines(tmp_path):
    path = tmp_path / "x.jsonl"
    rows = [
        {
            "passage": "Tom ran. Ann sat.",
            "query": "XXXXX ran",
            "candidates": ["Tom", "Ann"],
            "answer": "Tom",
        },
        {"passage": "", "query": "XXXXX ran"},
        {"passage": "Tom ran.", "query": 3},
        {"query": "XXXXX"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n{\n")
    found, problems = read(path, columns={"document": "passage"})
    assert [one.candidates for one in found] == [["Tom", "Ann"]]
    assert found[0].words == ["Tom", "ran", ".", "Ann", "sat", "."]
    assert dict(problems.counts) == {"lacks a column": 1, "not JSON": 1, "broken question": 2}
    with pytest.raises(RequestError, match="no line has both 'document' and 'query'; there are"):
        read(path)


def test_unknown_endings_and_columns(tmp_path):
    with pytest.raises(RequestError, match="no format for reading has this ending"):
        read(tmp_path / "x.csv")
    with pytest.raises(RequestError, match=r"CBT files have no column 'answr'.*answer"):
        list(formats.read("x", {"a": "answr"}, "cbt"))
    with pytest.raises(RequestError, match="SQuAD files have no column 'text'"):
        list(formats.read("x", {"a": "text"}, "squad"))


def test_single_inputs():
    block = questions.parse(STORY.strip())
    line = questions.parse("Alice saw the Hatter . ||| XXXXX drank ||| Alice|Hatter")
    told = questions.parse(
        json.dumps({"document": "Alice.", "query": "XXXXX", "candidates": "a|b"})
    )
    assert block.candidates == line.candidates == ["Alice", "Hatter"]
    assert told.candidates == ["a", "b"]
    assert block.query[0] == line.query[0] == "XXXXX"
    for text, said in [
        ("nothing", "expected a JSON object"), ("{", "not JSON"), ('{"query": "a"}', "'document'"),
        (" ||| a", "the document is empty"), ("a ||| ", "the query is empty"),
        ('{"document": "a", "query": "b", "candidates": 3}', "a list of texts at 'candidates'"),
        ('{"document": "a", "query": "b", "answers": ["a"], "starts": [0, 1]}', "'starts'"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=said):
            questions.parse(text)


def test_numbered_lines_are_joined_to_inputs():
    lines = [
        *STORY.splitlines(),
        "",
        '{"document": "a"}',
        "",
        *STORY.splitlines(),
        "1 A .",
        "2 B .",
    ]
    found = list(questions.blocks(iter(lines)))
    assert found == [STORY.strip(), '{"document": "a"}', "", STORY.strip(), "1 A .\n2 B ."]
