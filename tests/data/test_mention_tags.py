"""The names of PubTator files as tags of words, and predicted ones in the file again."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.annotations.documents import Mention, RelationDocument
from regard.data.annotations.tag_schemes import lenient_spans
from regard.data.formats import pubtator, read, write_back
from regard.data.formats.pubtator_tags import tagged
from regard.data.text.plain_words import plain_words, word_places
from regard.errors import RequestError
from regard.metrics.spans import conlleval
from tests.data.test_annotated import PUBTATOR

COLUMNS = {"text": "text", "tags": "tags", "name": "id"}
ABSTRACT = """\
1|t|Lidocaine-induced pain.
1|a|In rats 5-HT (Zorin) hurt. It did. Pain of the e.g. heart was seen.
1\t0\t9\tLidocaine\tChemical\tD1
1\t18\t22\tpain\tDisease\tD2
1\t32\t36\t5-HT\tChemical\t-1\ta note
1\t38\t43\tZorin\tChemical\tD3
1\tCID\tD1\tD2

2|a|No title here, but pain.
2\t20\t24\tpain\tDisease\tD2
"""


def placed(folder, text=ABSTRACT):
    path = folder / "a.pubtator"
    path.write_bytes(text.encode())
    return path


def rows(path, columns=COLUMNS):
    return list(read(path, columns, "pubtator-tags"))


def test_sentences_by_hand(tmp_path):
    found = [(row.line, *row.fields.values()) for row in rows(placed(tmp_path))]
    assert found == [
        (1, "Lidocaine - induced pain .", "B-Chemical O O B-Disease O", "1"),
        (2, "In rats 5 - HT ( Zorin ) hurt .",
         "O O B-Chemical I-Chemical I-Chemical O B-Chemical O O O", "1"),
        (2, "It did .", "O O O", "1"),
        (2, "Pain of the e.g. heart was seen .", "O O O O O O O O", "1"),
        (9, "No title here , but pain .", "O O O O O B-Disease O", "2"),
    ]  # fmt: skip


def test_what_words_cannot_say_is_counted(tmp_path, caplog):
    """`rash` within `visual rash`; the others by hand."""
    first = rows(placed(tmp_path, PUBTATOR))[0].fields
    assert first["tags"] == "B-Chemical O B-Disease I-Disease O"
    assert "1 names overlap a longer one and are left out" in caplog.text
    text = "Zorins do. Harm and pain."
    told = tagged(
        RelationDocument(
            "1", text,
            (Mention(((0, 5),), "A"), Mention(((7, 15),), "B"), Mention(((7, 9),), "C")),
        )
    )  # fmt: skip
    assert [one.tags for one in told.sentences] == [["B-A", "B-B", "I-B"], ["O"] * 4]
    assert (told.within, told.overlapping, told.cut) == (1, 1, 1)


def test_a_column_or_a_set_of_files_that_is_not_there(tmp_path):
    with pytest.raises(RequestError, match="PubTator files have no column 'tag'"):
        rows(placed(tmp_path), {"tags": "tag"})
    with pytest.raises(RequestError, match="one file"):
        rows({"text": placed(tmp_path)})


WORD = st.text("aB1-'.,é(% ", min_size=1, max_size=12)


@settings(max_examples=60)
@given(st.lists(WORD, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_every_character_by_itself(parts, draw):
    """A word has the first mention that touches it and begins in its sentence."""
    text = " ".join(parts)
    mentions, at = [], 0
    while at < len(text) - 1:
        start = at + draw.randrange(4)
        end = start + 1 + draw.randrange(5)
        at = end + 1
        if end <= len(text) and text[start:end].strip() == text[start:end] != "":
            mentions.append(Mention(((start, end),), draw.choice("XY")))
    found = tagged(RelationDocument("1", text, tuple(mentions)))
    for sentence in found.sentences:
        first, last = sentence.places[0][0], sentence.places[-1][1]
        own = [m for m in mentions if first <= m.start < last]
        before = None
        for (start, end), tag in zip(sentence.places, sentence.tags, strict=True):
            owner = next((m for m in own if m.start < end and start < m.end), None)
            letter = "I" if owner is before else "B"
            assert tag == (f"{letter}-{owner.type}" if owner else "O")
            before = owner
    read_again = [text[a:b] for one in found.sentences for a, b in one.places]
    assert "".join(read_again) == "".join(text.split())


def test_words_are_those_of_the_tokenizer():
    text = "It's 5.5 mg/kg of U.S. 5-HT(1A), don't: [3H]-naloxone..."
    found = [text[a:b].lower() for a, b in word_places(text)]
    assert found == plain_words([text])[0]


def test_f1_of_words_is_f1_of_offsets():
    """Where borders fit, spans of words and of characters are the same ones."""
    draw = random.Random(1)
    said, right, offsets = [], [], ([], [])
    for number in range(30):
        text = "".join(f"W{draw.randrange(9)} " if draw.random() < 0.8 else ". " for _ in range(40))
        places = [place for one in tagged(RelationDocument("", text)).sentences
                  for place in one.places]  # fmt: skip
        mentions, at = [], 0
        while (at := at + draw.randrange(4)) + 2 < len(places):
            end = at + 1 + draw.randrange(2)
            place = (places[at][0], places[end - 1][1])
            if "." not in text[slice(*place)]:
                mentions.append(Mention((place,), draw.choice("XY")))
            at = end
        guessed = [Mention(m.spans, draw.choice("XXY")) for m in mentions if draw.random() < 0.8]
        for tags, found, own in (
            (said, offsets[0], guessed), (right, offsets[1], mentions),
        ):  # fmt: skip
            told = tagged(RelationDocument(str(number), text, tuple(own)))
            assert (told.within, told.overlapping, told.cut) == (0, 0, 0)
            tags += [one.tags for one in told.sentences]
            found += [(number, m.spans, m.type) for m in own]
    both = set(offsets[0]) & set(offsets[1])
    assert len(both) > 20
    expected = 200 * len(both) / (len(offsets[0]) + len(offsets[1]))
    assert conlleval(said, right)["f1"].value == pytest.approx(expected)


def joined(path):
    found: dict[int, list[str]] = {}
    for row in rows(path):
        found.setdefault(row.line, []).extend(row.fields["tags"].split())
    return {line: " ".join(tags) for line, tags in found.items()}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_gold_tags_give_the_same_bytes(tmp_path, end):
    path = placed(tmp_path, ABSTRACT.replace("\n", end))
    assert write_back(path, tmp_path / "b", joined(path), format="pubtator-tags") == (3, 0)
    assert (tmp_path / "b").read_bytes() == path.read_bytes()


def test_predicted_names_are_written(tmp_path):
    """Names that stay keep their lines; others go, or come without a concept."""
    path = placed(tmp_path)
    tags = joined(path)
    tags[2] = tags[2].replace("B-Chemical O O O", "O O O O")  # Zorin is none
    tags[2] = tags[2][: -len("O O O O O O O O")] + "B-Disease I-Disease I-Disease O I-Disease O O O"
    write_back(path, tmp_path / "b", {2: tags[2], 9: "O O O O O O O"}, format="pubtator-tags")
    written = (tmp_path / "b").read_text().split("\n")
    text = ABSTRACT.split("\n")
    at = text[1].index("Pain of") - len("1|a|") + len("Lidocaine-induced pain. ")
    assert written == [
        *text[:5], f"1\t{at}\t{at + 11}\tPain of the\tDisease\t-1",
        f"1\t{at + 17}\t{at + 22}\theart\tDisease\t-1", *text[6:9], "",
    ]  # fmt: skip
    assert joined(tmp_path / "b")[2] == tags[2].replace("O I-Disease", "O B-Disease")
    with pytest.raises(RequestError, match=r":2: expected 21 tags, got 1"):
        write_back(path, tmp_path / "c", {2: "O"}, format="pubtator-tags")


def test_blocks_of_documents_without_a_blank_line(tmp_path):
    text = ABSTRACT.replace("\n\n2|a|", "\n2|t|").replace("20\t24", "19\t23")
    path = placed(tmp_path, text)
    assert [one.fields["name"] for one in rows(path)] == ["1"] * 4 + ["2"]
    assert lenient_spans(rows(path)[-1].fields["tags"].split()) == [(5, 6, "Disease")]
    assert pubtator.parse(["3|t|Pain."]).text == "Pain."
