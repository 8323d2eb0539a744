"""Fields: each kind reads, learns, encodes, decodes and is saved; what is wrong is one sentence."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.dataset import Table
from regard.errors import RequestError
from regard.fields import (
    Bad,
    LabelField,
    LabelsField,
    NumberField,
    OrdinalField,
    SpansField,
    StoryField,
    TagsField,
    TextField,
    TreeField,
)  # fmt: skip
from regard.fields.saved import files_of, read_fields
from regard.fields.tags import IGNORED
from regard.protocols import EOS, PAD, UNK

EVERY = np.arange


def never(at, what, detail):
    raise AssertionError((at, what, detail))


def learned(field, values):
    return field.learn([field.read(value, {}) for value in values])


def encoded(field, cells, report=never, fields=None, row=None):
    values = [field.read(cell, {} if row is None else row) for cell in cells]
    return field.encode(values, report, fields or {}, {})


# -- text


def test_a_text_in_words():
    field = learned(TextField("words", 10), ["a b a", "b c"])
    found = encoded(field, ["b a", "c nowhere a"]).collate(EVERY(2))
    ids = {word: i for i, word in enumerate(field.tokenizer.vocabulary)}
    assert found.values.tolist() == [
        [ids["b"], ids["a"], EOS, PAD], [ids["c"], UNK, ids["a"], EOS],
    ]  # fmt: skip
    assert found.lengths.tolist() == [3, 4]
    assert field.arguments() == {"vocab_size": 7}
    assert field.decode([ids["c"], ids["a"]]) == "c a"
    assert not TextField().learned
    with pytest.raises(RequestError, match="not known before it was learned"):
        TextField().arguments()
    with pytest.raises(Bad, match="empty"):
        field.read("  ", {})


def test_characters_of_each_word():
    field = learned(TextField("words", 20, characters=True, end=False), ["ab c", "bc"])
    batch = encoded(field, ["c ab", "bc"]).take(EVERY(2)[::-1]).collate(EVERY(2))
    letters = {"a": 4, "b": 5, "c": 6}  # in the order of the alphabet, behind the specials
    assert batch.extras["characters"].tolist() == [
        [[letters["b"], letters["c"]], [PAD, PAD]],
        [[letters["c"], PAD], [letters["a"], letters["b"]]],
    ]
    assert batch.values.shape == (2, 2)
    assert field.arguments() == {"vocab_size": 7, "num_characters": 7}
    again = TextField("words", 20, characters=True, end=False).load(field.dump(), "file")
    assert torch.equal(
        encoded(again, ["c ab"]).collate(EVERY(1)).extras["characters"],
        encoded(field, ["c ab"]).collate(EVERY(1)).extras["characters"],
    )
    with pytest.raises(RequestError, match="of words; expected a tokenizer of words, got 'bpe'"):
        TextField("bpe", characters=True)


def test_rare_words_are_unknown():
    field = learned(TextField("words", 20, min_count=2, lowercase=True), ["A b", "a c"])
    assert sorted(field.tokenizer.vocabulary[UNK + 1 :]) == ["a"]
    with pytest.raises(RequestError, match="no word of the training texts occurs 2 times"):
        learned(TextField("words", 20, min_count=2), ["a b"])


# -- labels


def test_a_label():
    field = learned(LabelField(), ["pos", "neg", " pos "])
    assert field.names == ["neg", "pos"]
    assert field.arguments() == {"num_classes": 2}
    told = []
    column = encoded(field, ["pos", "neutral", "neg"], lambda *of: told.append(of))
    assert column.collate(EVERY(3)).tolist() == [1, -1, 0]
    assert column.counts.tolist() == [1, 0, 1]
    assert told == [(1, "unseen label", "'neutral' is not in the training data")]
    assert field.decode(0) == "neg"
    with pytest.raises(Bad, match="empty"):
        field.read(" ", {})
    with pytest.raises(RequestError, match="two labels or more in training, got 'a' alone"):
        learned(LabelField(), ["a", "a"])


def test_several_labels():
    field = learned(LabelsField("|"), ["b|a", "", "c"])
    told = []
    column = encoded(field, ["c| a|a", "", "x|b"], lambda *of: told.append(of))
    assert column.collate(EVERY(3)).tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert told == [(2, "unseen label", "'x' is not in the training data")]
    assert field.decode([2, 0]) == "a|c"
    with pytest.raises(RequestError, match="the training data has no label"):
        learned(LabelsField(), ["", " "])


# -- tags


def test_tags_of_the_words_of_a_text():
    field = learned(TagsField("words"), ["O B-X I-X", "O"])
    assert field.names == ["B-X", "I-X", "O"]
    told = []
    values = [field.read(cell, {}) for cell in ("B-X O", "O Y B-X")]
    column = field.encode(values, lambda *of: told.append(of), {}, {})
    batch = column.collate(EVERY(2))
    assert batch.values.tolist() == [[0, 2, IGNORED], [2, IGNORED, 0]]
    assert batch.lengths.tolist() == [2, 3]
    assert column.counts.tolist() == [2, 2]
    assert told == [(1, "unseen tag", "'Y' is not in the training data")]
    assert field.decode([0, 2]) == "B-X O"
    with pytest.raises(Bad, match=r"tags and words differ \(2 tags for 3 words\)"):
        field.read("O O", {"words": "a b c"})


@pytest.mark.parametrize(
    ("cell", "said"),
    [("O I-X", "'I-X' behind 'O'"), ("B-X I-Y", "'I-Y' behind 'B-X'"), ("X", "'X'"),
     ("B-", "'B-'")],
)  # fmt: skip
def test_what_is_no_bio(cell, said):
    with pytest.raises(Bad) as caught:
        TagsField("words", "bio").read(cell, {})
    assert str(caught.value) == f"not a BIO tag ({said})"
    assert TagsField("words").read(cell, {})


# -- numbers


def test_numbers():
    field = learned(NumberField(), ["2", "-0.5", "1e1"])
    assert (field.low, field.high) == (-0.5, 10.0)
    assert encoded(field, ["3.25"]).collate(EVERY(1)).tolist() == [3.25]
    for cell in ("x", "1,5", "nan", "inf"):
        with pytest.raises(Bad, match="not a number"):
            field.read(cell, {})


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_written_as_it_is_read(value):
    field = NumberField()
    assert field.read(field.written(value), {}) == value


# -- spans


def test_spans_in_tokens():
    text = learned(TextField("words", 20, end=False), ["the old man sat"])
    field = SpansField("text")
    row = {"text": "the old man sat"}
    value = field.read("4:11 12:15", row)
    told = []
    column = field.encode(
        [value, []], lambda *of: told.append(of), {"text": text},
        {"text": [row["text"], row["text"]]},
    )  # fmt: skip
    assert column.collate(EVERY(2)).tolist() == [[0, 1, 2], [0, 3, 3]]
    assert column.take(EVERY(2)[::-1]).collate(EVERY(2)).tolist() == [[1, 1, 2], [1, 3, 3]]
    assert column.counts.tolist() == [2, 0]
    assert field.written(value) == "4:11 12:15"
    for cell, said in [("4:99", "4:99 in a text of 15 characters"), ("4-5", "expected start:end"),
                       ("5:5", "5:5 in a text of 15")]:  # fmt: skip
        with pytest.raises(Bad, match=said):
            field.read(cell, row)


# -- trees and stories


def test_trees():
    field = TreeField(target=True)
    value = field.read("(TOP (S (NP (PRP I)) (VP (VBP see))))", {})
    made = field.learn([value])
    assert made.written(value) == "(S (NP XX )NP (VP XX )VP )S"
    ids = made.encode([value], never, {}, {}).collate(EVERY(1)).values[0].tolist()
    assert made.decode(ids[:-1]) == made.written(value)
    for cell, said in [("", "empty"), ("(S (NP", r"not a tree \(.* never closed")]:
        with pytest.raises(Bad, match=said):
            field.read(cell, {})


def test_stories_have_each_sentence_once():
    field = learned(StoryField(facts=2), ["Ann left. Bob slept. Ann ate."])
    column = encoded(field, ["Ann left. Bob slept. Ann ate.", "Ann ate."])
    batch = column.collate(EVERY(2))
    assert batch.lengths.tolist() == [2, 1]
    assert batch.values.shape == (2, 2, 2)
    assert torch.equal(batch.values[0, 1], batch.values[1, 0])
    assert (batch.values[1, 1] == PAD).all()
    assert len(column.written.texts) == 3  # empty, and the two that are kept


# -- files and tables


def test_each_field_is_one_file(tmp_path):
    declared = {
        "words": TextField("words", 20), "tags": TagsField("words"), "grade": NumberField(),
        "label": LabelField(), "labels": LabelsField(), "query": TextField("words", of="words"),
        "spans": SpansField("words"),
    }  # fmt: skip
    values = {
        "words": ["a b", "b c"], "tags": ["X Y", "Y Y"], "grade": ["1", "2"],
        "label": ["p", "q"], "labels": ["k", "l,k"],
    }  # fmt: skip
    fields = {n: learned(f, values[n]) if n in values else f for n, f in declared.items()}
    files = files_of(fields)
    assert sorted(files) == [
        "field.grade.json", "field.label.json", "field.labels.json", "field.tags.json",
        "tokenizer.json",
    ]  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    again = read_fields(declared, tmp_path)
    assert again["query"].tokenizer is again["words"].tokenizer
    assert (again["grade"].low, again["grade"].high) == (1.0, 2.0)
    assert again["tags"].names == ["X", "Y"]
    assert again["labels"].names == ["k", "l"]
    (tmp_path / "field.label.json").write_text('{"kind": "labels", "labels": ["a"]}')
    with pytest.raises(RequestError, match=r"label\.json holds no field of kind 'label'"):
        read_fields(declared, tmp_path)
    (tmp_path / "field.label.json").write_text('{"kind": "label", "labels": "ab"}')
    with pytest.raises(RequestError, match="expected a list of names"):
        read_fields(declared, tmp_path)
    (tmp_path / "field.label.json").unlink()
    with pytest.raises(FileNotFoundError):
        read_fields(declared, tmp_path)


def test_a_table_of_columns():
    text = learned(TextField("words", 20), ["a b c", "d"])
    label = learned(LabelField(), ["p", "q"])
    columns = {
        "text": encoded(text, ["a", "b c", "d a b"]),
        "label": encoded(label, ["p", "?", "q"], lambda *of: None),
    }
    table = Table(columns, ["text"], ["a", "b c", "d a b"], [["p"], ["?"], ["q"]], "label")
    assert table.sizes.tolist() == [[2], [3], [4]]
    assert table.count([0, 1, 2]) == 2
    batch = table.subset([2, 0]).collate([0, 1])
    assert list(batch) == ["text", "label"]
    assert batch["label"].tolist() == [1, 0]
    assert batch["text"].lengths.tolist() == [4, 2]
    assert (batch.index, batch.count) == ([0, 1], 2)
    assert batch.to("meta")["text"].values.device.type == "meta"


def test_lists_stay_lists():
    assert TagsField("text").listed(["B-X", "", "New York"]) == "B-X _ New_York"
    several = LabelsField()
    value = several.read(several.listed(["Paris, France", 'a "b"', "c"]), {})
    assert value == ("Paris, France", 'a "b"', "c")
    assert several.read(several.written(value), {}) == value
    with pytest.raises(Bad, match="a list"):
        LabelField().listed(["a"])


def test_one_number_is_one_label():
    field = OrdinalField()
    values = [field.read(cell, {}) for cell in ("1", "1.0", "2.50", "1e0", "-0.5")]
    assert values == ["1", "1", "2.5", "1", "-0.5"]
    old = field.restored({"labels": ["1.0", "2.5"]})  # a folder from before
    assert old.encode(["1", "2.5"], print, {}).values.tolist() == [0, 1]
