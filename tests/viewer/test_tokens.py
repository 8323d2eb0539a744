"""Names of places from tokenizers: pieces, the words that they make, special tokens."""

from types import SimpleNamespace

import numpy as np
import pytest

import regard
from regard.errors import RequestError
from regard.views import axis_of
from regard.views.word_pieces import from_pieces

tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("transformers")
from tests.viewer.small_transformers import tokenizer  # noqa: E402

TEXT = "the cats' mat."
PIECES = ["[CLS]", "the", "cat", "##s", "'", "mat", ".", "[SEP]"]
WORDS = ["[CLS]", "the", "cats", "'", "mat", ".", "[SEP]"]


def spelled(pre, decoder_mark, words):
    """A tokenizer of whole pieces with another way to mark the beginnings of words."""
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            {w: i for i, w in enumerate(words)}, [(a, b) for a, b in decoder_mark]
        )
    )
    made.pre_tokenizer = pre
    return made


def test_every_form_of_a_tokenizers_output():
    made = tokenizer()
    batch = made([TEXT, "the dog"], padding=True)
    for given in (
        made(TEXT), batch, made(TEXT).encodings[0], (made, TEXT), (made, made(TEXT)),
        (made, made(TEXT)["input_ids"]), (made, made(TEXT, return_tensors="pt")["input_ids"]),
        (made.backend_tokenizer, TEXT), (made, made(TEXT).encodings[0]),
    ):  # fmt: skip
        axis = axis_of(given)
        assert axis.pieces == PIECES
        assert axis.texts == WORDS
        assert axis.groups == [[0], [1], [2, 3], [4], [5], [6], [7]]
        assert axis.special == [0, 7]
    axis = axis_of(batch, row=1)
    assert axis.pieces == ["[CLS]", "the", "dog", "[SEP]", *["[PAD]"] * 4]
    assert axis.special == [0, 3, 4, 5, 6, 7]


def test_the_words_of_byte_pairs_are_those_of_the_text():
    """`Ġ` begins a word; bytes that are no letters are shown as the text has them."""
    words = ["Ġ", "Ã", "¼", "b", "e", "r", "Ã¼", "Ġb", "er"]
    pre = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made = spelled(pre, [("Ã", "¼"), ("Ġ", "b"), ("e", "r")], words)
    axis = axis_of((made, "über ber"))
    assert axis.pieces == ["Ã¼", "b", "er", "Ġb", "er"]
    assert axis.texts == ["über", "ber"]
    assert axis.groups == [[0, 1, 2], [3, 4]]


def test_words_without_a_pre_tokenizer_are_told_by_their_marks():
    """Then a tokenizer counts the whole text to one word, as Llama's does."""
    words = ["▁", "b", "e", "r", "▁b", "er"]
    made = spelled(None, [("▁", "b"), ("e", "r")], words)
    made.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    for given in ((made, "ber ber"), made.encode("ber ber")):
        axis = axis_of(given)
        assert axis.pieces == ["▁b", "er", "▁b", "er"]
        assert axis.texts == ["ber", "ber"]


def test_two_texts_are_apart():
    axis = axis_of(tokenizer()("the cat", "cats mat"))
    assert axis.texts == ["[CLS]", "the", "cat", "[SEP]", "cats", "mat", "[SEP]"]
    assert axis.special == [0, 3, 7]


def test_a_slow_tokenizer():
    slow = SimpleNamespace(input_ids=[2, 5], encodings=None)
    with pytest.raises(RequestError, match=r"give \(tokenizer, output\)"):
        axis_of(slow)


def test_they_name_what_is_seen():
    batch = tokenizer()([TEXT, "the dog"], padding=True)
    weights = np.broadcast_to(np.eye(8, dtype=np.float32), (2, 1, 8, 8))
    view = regard.view([weights], tokens=batch, row=1)
    assert view.axes[0].pieces[2] == "dog"
    with pytest.raises(RequestError, match="no row 2 in a tokenizer's batch of 2"):
        axis_of(batch, row=2)
    with pytest.raises(RequestError, match="expected rows or tokens"):
        regard.view([weights], "a b", tokens=batch)
    with pytest.raises(RequestError, match="expected 8 labels for 8 places, got 9"):
        regard.view([weights], tokens=(tokenizer(), "the cats' mat mat."))


def test_the_mark_of_a_blank_may_be_a_piece_of_its_own():
    named = from_pieces(["▁stress", "▁", "ul", "cers", "▁"])
    assert named.texts == ["stress", "ulcers", "▁"]
