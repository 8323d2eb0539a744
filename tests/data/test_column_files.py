"""CoNLL-2003, CoNLL-U and CoNLL-2005 files: rows as counted by hand, and broken sentences."""

import gzip
import logging

import pytest

from regard.data.files.registry import columns_of, format_of
from regard.data.formats import read
from regard.data.problems import Problems
from regard.datasets.inspection import inspect
from regard.errors import RequestError

NER = """-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

# # I-NP O
Peter NNP I-NP I-PER
"""

UD = """# sent_id = 1
# text = He's in New York
1-2\tHe's\t_\t_\t_\t_\t_\t_\t_\t_
1\tHe\the\tPRON\tPRP\t_\t4\tnsubj\t_\t_
2\t's\tbe\tAUX\tVBZ\t_\t4\tcop\t_\t_
3\tin\tin\tADP\tIN\t_\t4\tcase\t_\t_
3.1\tthe\tthe\tDET\tDT\t_\t_\t_\t_\t_
4\tNew York\tNew York\tPROPN\tNNP\t_\t0\troot\t_\t_

1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
"""

ROLES = """# doc = a/b
Ann   NNP (S(NP*) -    -  (ARG0*)   (ARG0*)
will  MD  (VP*    -    -  *         *
give  VB  *       give 01 (V*)      *
it    PRP (NP*)   -    -  (ARG1*)   *
up    RP  *       -    -  (C-V*)    *
,     ,   *       -    -  *         *
or    CC  *       -    -  (C-ARG1*  *
go    VB  *))     go   LV *)        (V*)

Oh UH (X*) - -

"""

EVERY = {name: name for name in ("text", "tags", "predicate", "lemma", "sense", "pos")}


def put(path, text: str, end: str = ""):
    path = path.with_name(path.name + end)
    path.write_bytes(gzip.compress(text.encode()) if end else text.encode())
    return path


def rows(path, columns, format=None, problems=None):
    return [(row.line, row.fields) for row in read(path, columns, format, problems=problems)]


@pytest.mark.parametrize("end", ["", ".gz"])
def test_columns_by_number(tmp_path, end):
    path = put(tmp_path / "a.conll", NER, end)
    assert rows(path, {"text": 1, "tags": "4"}) == [
        (3, {"text": "EU rejects", "tags": "I-ORG O"}),
        (6, {"text": "# Peter", "tags": "O I-PER"}),
    ]


def test_columns_by_the_names_of_a_heading(tmp_path):
    text = "# global.columns = FORM NER\n# a b\n# x = y\nNew York\tB-LOC\n\n#\tO\n"
    assert rows(put(tmp_path / "a.conll", text), {"text": "FORM", "tags": "NER"}) == [
        (4, {"text": "New_York", "tags": "B-LOC"}),
        (6, {"text": "#", "tags": "O"}),
    ]
    with pytest.raises(RequestError, match="did you mean 'NER'"):
        rows(tmp_path / "a.conll", {"tags": "NERR"})


def test_a_document_mark_within_a_sentence_is_no_word(tmp_path):
    text = "-DOCSTART- O\nEU I-ORG\n-DOCSTART- O\n\n-DOCSTART-\n\nUN I-ORG"
    found = rows(put(tmp_path / "a.conll", text), {"text": 1, "tags": 2})
    assert [(line, one["text"]) for line, one in found] == [(2, "EU"), (7, "UN")]


def test_broken_columns_are_reported_and_the_other_sentences_read(tmp_path):
    text = b"a B-X\nb O\n\nc B-X\nd\n\ne \xff\nf O\n\ng O O\n\nh\t\tO\n\ni O\r\n\r\n"
    (tmp_path / "a.conll").write_bytes(text)
    problems = Problems()
    found = rows(tmp_path / "a.conll", {"text": 1, "tags": 2}, problems=problems)
    assert [line for line, _ in found] == [1, 14]
    assert found[-1][1] == {"text": "i", "tags": "O"}
    assert [(p.line, p.what, p.detail) for p in problems] == [
        (5, "broken columns", "1 columns, 2 expected"),
        (7, "not UTF-8", "byte 3"),
        (10, "broken columns", "3 columns, 2 expected"),
        (12, "broken columns", "3 columns, 2 expected"),
    ]


def test_an_empty_cell_is_reported(tmp_path):
    problems = Problems()
    assert rows(put(tmp_path / "a.conll", "a\tO\nb\t\n"), {"text": 1}, problems=problems) == []
    assert [(p.line, p.detail) for p in problems] == [(2, "column 2 is empty")]


def test_a_file_that_is_no_column_file_takes_no_more_memory_than_the_longest_example(tmp_path):
    path = put(tmp_path / "a.conll", (f"{'word' * 100} O\n" * 3000) + "\nword O\n")
    problems = Problems()
    assert [line for line, _ in rows(path, {"text": 1}, problems=problems)] == [3002]
    assert [(p.line, p.what) for p in problems] == [(1, "too long")]


@pytest.mark.parametrize(
    ("column", "said"),
    [(5, "no column 5 for 'tags'; .*there are 4"), (0, "no column 0"), ("NER", "numbers from 1")],
)
def test_columns_that_are_not_there(tmp_path, column, said):
    with pytest.raises(RequestError, match=said):
        rows(put(tmp_path / "a.conll", NER), {"text": 1, "tags": column})


def test_universal_dependencies(tmp_path):
    path = put(tmp_path / "a.conllu", UD)
    assert rows(path, {"text": "FORM", "tags": "UPOS", "xpos": 5}) == [
        (4, {"text": "He 's in New_York", "tags": "PRON AUX ADP PROPN", "xpos": "PRP VBZ IN NNP"}),
        (10, {"text": "#", "tags": "SYM", "xpos": "NN"}),
    ]
    with pytest.raises(RequestError, match="did you mean 'FORM'"):
        rows(path, {"text": "FROM"})
    with pytest.raises(RequestError, match="no column 11"):
        rows(path, {"text": 11})


def test_broken_universal_dependencies(tmp_path):
    word = "\t_" * 9
    text = f"1{word}\n3{word}\n\n1{word}\t_\n\n1 _ _\n\na{word}\n\n# alone\n\n1{word}\n"
    problems = Problems()
    found = rows(put(tmp_path / "a.conllu", text), {"text": "FORM"}, problems=problems)
    assert found == [(12, {"text": "_"})]
    assert [(p.line, p.what, p.detail) for p in problems] == [
        (2, "not CoNLL-U", "word 2 has the ID '3'"),
        (4, "not CoNLL-U", "11 columns, 10 expected"),
        (6, "not CoNLL-U", "3 columns, 10 expected"),
        (8, "not CoNLL-U", "word 1 has the ID 'a'"),
    ]


GIVE = {
    "text": "Ann will give it up , or go", "pos": "NNP MD VB PRP RP , CC VB",
    "tags": "B-ARG0 O B-V B-ARG1 B-C-V O B-C-ARG1 I-C-ARG1",
    "predicate": "2", "lemma": "give", "sense": "01",
}  # fmt: skip
GO = GIVE | {
    "tags": "B-ARG0 O O O O O O B-V", "predicate": "7", "lemma": "go", "sense": "LV",
}  # fmt: skip


@pytest.mark.parametrize("end", ["", ".gz"])
def test_roles_a_row_for_each_predicate(tmp_path, end, caplog):
    path = put(tmp_path / "a.conll", ROLES, end)
    with caplog.at_level(logging.INFO):
        assert rows(path, EVERY, "conll2005") == [(4, GIVE), (9, GO)]
    assert "1 sentences without a predicate" in caplog.text


def test_words_and_props_joined(tmp_path):
    """The order of CoNLL-2005's own files: senses before lemmas; or lemmas alone."""
    both = [line.split() for line in ROLES.split("\n")[1:9]]
    theirs = "\n".join(" ".join([w, p, s, v, *r]) for w, p, _, v, s, *r in both)
    assert rows(put(tmp_path / "a", theirs), EVERY, "conll2005") == [(3, GIVE), (8, GO)]
    plain = "\n".join("\t".join([w, v, *r]) for w, _, _, v, _, *r in both)
    none = {"pos": " ".join("-" * 8), "sense": "-"}
    found = rows(put(tmp_path / "b", plain), EVERY, "conll2005")
    assert found == [(3, GIVE | none), (8, GO | none)]
    props = "\n".join(" ".join([v, *r]) for _, _, _, v, _, *r in both)
    found = rows(put(tmp_path / "c", props), {"tags": "tags", "lemma": "lemma"}, "conll2005")
    assert [one for _, one in found] == [{k: g[k] for k in ("tags", "lemma")} for g in (GIVE, GO)]
    with pytest.raises(RequestError, match=r"c:1: there are no words .*paste"):
        rows(tmp_path / "c", EVERY, "conll2005")


def test_nested_phrases_leave_the_outer_ones(tmp_path, caplog):
    text = "a x 01 (A0(A1*)\nb - - *A0)\nc - - (A2*)\n"
    path = put(tmp_path / "a", text)
    assert rows(path, {"tags": "tags"}, "conll2005") == [(1, {"tags": "B-A0 I-A0 B-A2"})]
    assert "1 phrases inside others are not in the tags" in caplog.text


def test_broken_roles(tmp_path):
    good = "a x 01 (A0*)\n\n"
    text = good + "a x 01 (A0*\nb y 02 *\n\na x 01 (A0* *\nb y 02 *) *)\n\n"
    text += "a x 01\n\na x 01 *\nb -\n\n" + good
    problems = Problems()
    found = rows(put(tmp_path / "a", text), EVERY, "conll2005", problems)
    assert [(line, one["tags"]) for line, one in found] == [
        (1, "B-A0"),
        (6, "B-A0 I-A0"),
        (14, "B-A0"),
    ]
    assert [(p.line, p.what, p.detail) for p in problems] == [
        (3, "broken columns", "2 predicates and 1 columns of roles"),
        (7, "broken roles", "word 2 closes a phrase that none opened: '*)'"),
        (9, "broken columns", "1 predicates and 0 columns of roles"),
        (12, "broken columns", "2 columns, 4 expected"),
    ]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("(A0* *", "the phrase 'A0' of word 1 is not closed"),
        ("(A0 *)", "word 1 has '(A0'"),
        ("(A0*A1)", "closes 'A1' where 'A0' is open"),
        ("* *)", "word 2 closes a phrase that none opened"),
        ("*x", "behind the star"),
        ("( *", "word 1 has '('"),
    ],
)
def test_brackets_that_are_wrong(cells, said):
    from regard.data.annotations.bracket_columns import phrases_of

    with pytest.raises(RequestError) as caught:
        phrases_of(cells.split())
    assert said in str(caught.value)


def test_formats_by_name():
    names = ["a.conll", "a.conll.gz", "a.conllu", "a.CONLLU.gz"]
    assert [format_of(name) for name in names] == ["conll", "conll", "conllu", "conllu"]


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.conll", NER, ["1", "2", "3", "4"]),
        ("b.conll", "# global.columns = FORM NER\nEU I-ORG\n", ["FORM", "NER"]),
        ("a.conllu", UD, list(columns_of("conllu"))),
    ],
)
def test_regard_data_reads_every_column(tmp_path, name, text, columns):
    path = put(tmp_path / name, text)
    found = inspect(str(path))["splits"][name]
    assert list(found["columns"]) == columns
    assert found["rows"] == len(rows(path, {"first": 1}))
