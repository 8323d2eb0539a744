"""Annotated documents: every format there and back, and what is wrong in one sentence."""

import gzip
import json

import pytest

from regard.data.annotations.documents import (
    Mention,
    Relation,
    RelationDocument,
    as_line,
    from_json,
    to_json,
)
from regard.data.formats import write_back
from regard.data.formats.documents import blocks, document_of, read, write
from regard.data.problems import Problems
from regard.errors import RequestError

PUBTATOR = """\
7|t|Zorin and visual rash.
7|a|Zorin made visual or auditory toxicity in 3 rats.
7\t0\t5\tZorin\tChemical\tD1
7\t10\t21\tvisual rash\tDisease\tD2
7\t17\t21\trash\tDisease\t-1
7\t23\t28\tZorin\tChemical\tD1
7\t34\t61\tvisual or auditory toxicity\tDisease\tD3|D4\tvisual toxicity|auditory toxicity
7\tCID\tD1\tD3

8|t|Nothing is named here.
8|a|
"""
OVERLAPPING = RelationDocument(
    "ä & <b>", "Left and right pain. Über 2 lines.",
    (
        Mention(((0, 4), (15, 19)), "Disease", ("D1",)),
        Mention(((9, 19),), "Disease", ("D2",)),
        Mention(((15, 19),), "Disease", (), "odd & <note>"),
        Mention(((21, 25),), "Chemical", ("C1", "C2")),
    ),
    (Relation("CID", "C1", "D1"), Relation("CID", "C2", "D2")),
    (0, 21),
)  # fmt: skip


def written(place, text, name="in.pubtator"):
    path = place / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def documents(path, format=None):
    problems = Problems()
    return [one for _, one in read(path, format, problems)], problems


BIORED = """\
9|t|Zorin cafe\u0301 C677T.
9|a|Pain.
9\t0\t5\tZorin\tChemical\tD1,D2
9\t6\t10\tcaf\u00e9\tFood\tF1
9\t12\t17\tC677T\tVariant\tc|SUB|C|677|T
9\t19\t23\tPain\tDisease\tD3
9\tAssociation\tD2\tD3\tNovel
9\tBind\tD1\tc|SUB|C|677|T
"""


def test_biored_variants_and_offsets_of_the_other_normal_form_are_kept(tmp_path):
    (one,), problems = documents(written(tmp_path, BIORED))
    assert not len(problems)
    assert [m.concepts for m in one.mentions] == [
        ("D1", "D2"), ("F1",), ("c|SUB|C|677|T",), ("D3",)
    ]  # fmt: skip
    assert one.mentions[1].of(one.text) == "cafe\u0301"
    assert one.relations == (
        Relation("Association", "D2", "D3", note="Novel"), Relation("Bind", "D1", "c|SUB|C|677|T")
    )  # fmt: skip
    tags = {n: "B-Chemical B-Food B-Variant O" for n in (1,)} | {2: "B-Disease O"}
    write_back(tmp_path / "in.pubtator", tmp_path / "back.pubtator", tags)
    assert (tmp_path / "back.pubtator").read_text() == BIORED
    for format in ("pubtator", "jsonl"):
        write([one], tmp_path / "out", format)
        assert documents(tmp_path / "out", format)[0] == [one]


def test_pubtator_is_read_as_it_is_written(tmp_path):
    (first, second), problems = documents(written(tmp_path, PUBTATOR))
    assert not len(problems)
    assert first.parts == [
        "Zorin and visual rash.",
        "Zorin made visual or auditory toxicity in 3 rats.",
    ]
    assert [m.of(first.text) for m in first.mentions][2:4] == ["rash", "Zorin"]
    assert list(first.concepts) == ["D1", "D2", "D3", "D4"]
    assert first.mentions[2].concepts == ()
    assert first.mentions[4].note == "visual toxicity|auditory toxicity"
    assert first.relations == (Relation("CID", "D1", "D3"),)
    assert (second.mentions, second.parts[1]) == ((), "")
    write([first, second], tmp_path / "out.pubtator")
    assert (tmp_path / "out.pubtator").read_text() == PUBTATOR + "\n"


def test_gzip_and_windows_line_ends_change_nothing(tmp_path):
    plain, _ = documents(written(tmp_path, PUBTATOR))
    raw = PUBTATOR.replace("\n", "\r\n").encode()
    assert documents(written(tmp_path, gzip.compress(raw), "in.txt.gz"))[0] == plain


@pytest.mark.parametrize("format", ["bioc", "jsonl"])
@pytest.mark.parametrize("kind", ["pubtator", "overlapping"])
def test_formats_hold_all_there_is(tmp_path, format, kind):
    own = documents(written(tmp_path, PUBTATOR))[0] if kind == "pubtator" else [OVERLAPPING]
    own = [one for one in own if one.mentions]
    path = tmp_path / {"bioc": "a.xml", "jsonl": "a.jsonl"}[format]
    write(own, path)
    found, problems = documents(path)
    assert not len(problems)
    assert found == own


def test_pubtator_refuses_what_it_cannot_hold(tmp_path):
    with pytest.raises(RequestError, match="'Left pain' has a gap"):
        write([OVERLAPPING], tmp_path / "x.pubtator")
    lines = RelationDocument("1", "one\ntwo")
    with pytest.raises(RequestError, match="one line each"):
        write([lines], tmp_path / "x.pubtator")
    with pytest.raises(RequestError, match="unknown format of documents 'pubtatr'"):
        write([lines], tmp_path / "x", "pubtatr")


BROKEN = [
    ("7\t0\t5\tZorin\tChemical\tD1", "7\t0\t6\tZorin\tChemical\tD1", "0 to 6 is 'Zorin '"),
    ("7\t0\t5\tZorin\tChemical\tD1", "7\t0\t500\tZorin\tChemical\tD1", "no part of a text of 72"),
    ("7\t0\t5\tZorin\tChemical\tD1", "7\tx\t5\tZorin\tChemical\tD1", "expected numbers"),
    ("7\t0\t5\tZorin\tChemical\tD1", "7\t0\t5", "expected 4 cells"),
    ("7\t0\t5\tZorin\tChemical\tD1", "9\t0\t5\tZorin\tChemical\tD1", "it is of '9'"),
    ("7\tCID\tD1\tD3", "7\tCID\tD1\tD9", "no mention has 'D9'"),
    ("7|a|Zorin", "7|b|more\n7|a|Zorin", "second |b|"),
]


@pytest.mark.parametrize(("line", "other", "said"), BROKEN)
def test_a_broken_line_is_told_with_its_number_and_nothing_else_is_lost(
    tmp_path, line, other, said
):
    found, problems = documents(written(tmp_path, PUBTATOR.replace(line, other, 1)))
    (problem,) = problems
    number = PUBTATOR.split("\n").index(line) + 1 if line[1] == "\t" else 2
    assert problem.line == number
    assert said in str(problem)
    assert len(found) == 2
    whole = documents(written(tmp_path, PUBTATOR))[0][0]
    assert len(found[0].mentions) + len(found[0].relations) >= len(whole.mentions)


def test_documents_without_a_blank_line_between_and_without_text(tmp_path):
    text = PUBTATOR.replace("\n\n8|", "\n8|") + "\n9\t0\t5\tZorin\tChemical\tD1\n\n\n\n"
    found, problems = documents(written(tmp_path, text))
    assert [one.id for one in found] == ["7", "8"]
    assert [p.what for p in problems] == ["no text"]


def test_bytes_that_are_no_text_are_told(tmp_path):
    raw = PUBTATOR.encode().replace(b"rash\tDis", b"r\xff\tDis")
    found, problems = documents(written(tmp_path, raw))
    assert len(found) == 2
    assert problems.counts["not UTF-8"] == 2


def bioc(text):
    return f'<?xml version="1.0"?>\n{text}'


def test_entities_are_never_expanded(tmp_path):
    bomb = bioc(
        '<!DOCTYPE c [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n'
        "<collection><document><passage><offset>0</offset><text>&b;</text></passage></document>"
        "</collection>"
    )
    with pytest.raises(RequestError, match=r"x.xml:2: BioC with a document type that declares"):
        documents(written(tmp_path, bomb, "x.xml"))
    outside = bomb.replace('"ha"', 'SYSTEM "file:///etc/passwd"')
    with pytest.raises(RequestError, match="declares"):
        documents(written(tmp_path, outside, "x.xml"))
    named = bioc(
        '<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
        "<collection><document><passage><offset>5</offset><text>A text.</text></passage></document>"
        "</collection>"
    )
    assert documents(written(tmp_path, named, "x.xml"))[0][0].text == "A text."
    with pytest.raises(RequestError, match="not XML: undefined entity"):
        documents(written(tmp_path, bomb[:22] + bomb.split("\n", 2)[2], "x.xml"))


@pytest.mark.parametrize("text", ["", "<collection>", "no xml", "<a></b>"])
def test_what_is_no_xml_is_refused(tmp_path, text):
    with pytest.raises(RequestError, match=r"x.xml:\d+: not XML"):
        documents(written(tmp_path, text, "x.xml"))


def test_bioc_of_other_programs(tmp_path):
    """Offsets that begin anywhere, relations between annotations, sentences, broken ones told."""
    text = bioc(
        "<collection><document><id>3</id>"
        "<passage><offset>100</offset><text>Zorin.</text>"
        "<annotation id='a'><infon key='type'>Chemical</infon><infon key='MESH'>C1</infon>"
        "<location offset='100' length='5'/><text>Zorin</text></annotation>"
        "<annotation id='x'><infon key='type'>Chemical</infon>"
        "<location offset='100' length='500'/><text>Zorin</text></annotation></passage>"
        "<passage><offset>110</offset>"
        "<sentence><offset>110</offset><text>A rash</text>"
        "<annotation id='b'><infon key='type'>Disease</infon><infon key='identifier'>D1</infon>"
        "<location offset='112' length='4'/></annotation></sentence>"
        "<sentence><offset>118</offset><text>came.</text></sentence></passage>"
        "<relation id='R'><infon key='relation'>CID</infon>"
        "<node refid='a' role=''/><node refid='b' role=''/></relation>"
        "<relation id='S'><infon key='relation'>CID</infon><node refid='a' role=''/></relation>"
        "</document></collection>"
    )
    (one,), problems = documents(written(tmp_path, text, "x.xml"))
    assert one.text == "Zorin.    A rash  came."
    assert [m.of(one.text) for m in one.mentions] == ["Zorin", "rash"]
    assert one.relations == (Relation("CID", "C1", "D1"),)
    assert sorted(p.what for p in problems) == ["broken annotation", "broken relation"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"text": 3}, "a text under 'text'"),
        ({"mentions": 3}, "a list under 'mentions'"),
        ({"mentions": [{"spans": [[0, 99]], "type": "A"}]}, "mention 1: [0, 99] is no part"),
        ({"mentions": [{"spans": [[3, 3]], "type": "A"}]}, "mention 1: [3, 3] is no part"),
        ({"mentions": [{"spans": [[0, 1]]}]}, "mention 1: expected an object"),
        ({"mentions": [{"start": 0, "end": 1, "type": "A", "concepts": "D"}]}, "'concepts'"),
        ({"relations": [{"type": "A", "head": "D"}]}, "relation 1: expected texts"),
        ({"relations": [{"type": "A", "head": "D", "tail": "E"}]}, "'D', which no mention has"),
        ({"passages": [0, 90]}, "90 is behind the text"),
        ({"passages": [3]}, "rise from 0"),
    ],
)
def test_broken_json_is_told_with_its_line(tmp_path, changes, said):
    good = {"text": "A text."}
    lines = [json.dumps(good), json.dumps({**good, **changes}), "no json"]
    found, problems = documents(written(tmp_path, "\n".join(lines), "x.jsonl"))
    assert [one.text for one in found] == ["A text."]
    assert [(p.line, p.what) for p in problems] == [(2, "broken document"), (3, "not JSON")]
    assert said in str(next(iter(problems)))


def test_one_input_is_told_from_another():
    assert document_of("  A text. ") == ("", RelationDocument("", "A text."))
    assert document_of(as_line(OVERLAPPING)) == ("jsonl", OVERLAPPING)
    format, one = document_of("\n" + PUBTATOR.split("\n\n")[0])
    assert (format, one.id, len(one.mentions)) == ("pubtator", "7", 5)
    with pytest.raises(ValueError, match="line 2: broken line"):
        document_of("7|t|Zorin.\n7\t0\t9\tZorin\tA\tD")
    with pytest.raises(ValueError, match="Expecting"):
        document_of("{")


def test_an_input_that_only_begins_as_json_says_so():
    with pytest.raises(ValueError, match="it begins as JSON but is not valid: Expecting"):
        document_of("{broken")


def test_lines_of_a_file_become_inputs():
    lines = ["a text", "", *PUBTATOR.split("\n"), "another"]
    found = list(blocks(iter(lines)))
    assert [one[:4] for one in found] == ["a te", "", "7|t|", "8|t|", "anot"]
    assert found[2] + "\n\n" + found[3] + "\n" == PUBTATOR


def test_documents_of_bioc_become_inputs(tmp_path):
    write([OVERLAPPING, OVERLAPPING], tmp_path / "x.xml")
    lines = (tmp_path / "x.xml").read_text().splitlines()
    assert list(blocks(iter(lines))) == [as_line(OVERLAPPING)] * 2


def test_json_is_plain_and_comes_back():
    assert from_json(json.loads(json.dumps(to_json(OVERLAPPING)))) == OVERLAPPING
