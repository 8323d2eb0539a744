"""Words that no vocabulary has are read as what they look like."""

import pytest

from regard.data.text.tokenizer import Tokenizer
from regard.data.text.word_shapes import is_shape, shape
from regard.protocols import UNK

TEXTS = ["the dog was walking"] * 3 + ["the dog was Barking at Obama", "Talking of 12 dogs", "NATO"]


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("walking", "?low:ing"), ("ing", "?low:"),
        ("Walking", "?cap:ing"), ("nations", "?low:ions"),
        ("NATO", "?all:"), ("A", "?cap:"), ("McDonald", "?cap:"), ("iPhone", "?mix:e"),
        ("12", "?num"), ("-1,200.5", "?num"), ("50%", "?num"), ("1990s", "?low#:s"),
        ("p53-null", "?low-#:"), ("-LRB-", "?all:"), (":-)", "?mark"), ("...", "?mark"),
        ("日本", "?mix:"),
    ],
)  # fmt: skip
def test_shapes(word, wanted):
    assert shape(word) == wanted
    assert is_shape(wanted)
    assert not is_shape(word)


@pytest.mark.parametrize("lowercase", [False, True])
def test_a_vocabulary_with_shapes(lowercase):
    tokenizer = Tokenizer.train(TEXTS, kind="shapes", lowercase=lowercase)
    tokens = tokenizer.tokens(tokenizer.encode("The dog was Sinking 7 squids").ids)
    the = "the" if lowercase else "<unk>"  # no rare word in small letters without an ending
    assert tokens == [the, "dog", "was", "?cap:ing", "?num", "?low:s"]


def test_saved_and_all_at_once():
    tokenizer = Tokenizer.train(TEXTS, kind="shapes")
    again = Tokenizer.from_json(tokenizer.to_json())
    texts = ["the dog Sinking , dogs", "", "the \x1c NATO ▁ dog"]
    assert again.kind == "shapes"
    for text, ids in zip(texts, again.encode_all(texts), strict=True):
        assert ids.tolist() == tokenizer.encode(text).ids == again.encode(text).ids


def test_a_shape_that_was_never_seen():
    tokenizer = Tokenizer.train([*TEXTS, "blorb"], kind="shapes")
    assert tokenizer.tokens(tokenizer.encode("runable").ids) == ["?low:"]
    assert tokenizer.encode("iPhone").ids == [UNK]
