"""Pieces put together to words: against loops, and adding up."""

import pytest
import torch

from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.protocols import EOS
from regard.views.picture import Picture, WordPieces, picture
from tests.folder import toy


def words(groups, prefix):
    pieces = [f"{prefix}{i}" for i in range(sum(map(len, groups)))]
    return WordPieces(pieces, groups, ["".join(pieces[i] for i in g) for g in groups])


def test_words_get_sums_and_look_on_average():
    rows, columns = words([[0, 1], [2], [3, 4, 5]], "r"), words([[0], [1, 2, 3], [4]], "c")
    weights = torch.rand(6, 5).softmax(-1)
    found = picture(weights, rows, columns)
    for i, some in enumerate(rows.groups):
        for j, others in enumerate(columns.groups):
            expected = sum(float(weights[t, s]) for t in some for s in others) / len(some)
            assert float(found.weights[i, j]) == pytest.approx(expected, abs=1e-6)
    assert torch.allclose(found.weights.sum(1), torch.ones(3))
    assert found.rows == ["r0r1", "r2", "r3r4r5"]
    assert found.columns == ["c0", "c1c2c3", "c4"]


def test_pieces_stay_as_they_are():
    rows, columns = words([[0, 1]], "r"), words([[0], [1, 2]], "c")
    weights = torch.rand(2, 3)
    found = picture(weights, rows, columns, whole=False)
    assert (found.rows, found.columns) == (["r0", "r1"], ["c0", "c1", "c2"])
    assert torch.equal(found.weights, weights)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words"])
def test_the_words_on_the_axes_are_those_people_wrote(kind):
    tokenizer = Tokenizer.train(toy.GERMAN, kind=kind, vocab_size=60)
    text = "das   automatisch geschlossene Ding läuft"
    source = WordPieces.of_text(tokenizer, tokenizer.encode(text))
    assert source.texts == [
        *text.split(),
        "</s>",
    ]  # as written, though no word is in the vocabulary
    known = "ein Hund läuft über die Straße ."
    ids = [*tokenizer.encode(known).ids, EOS]
    target = WordPieces.of(tokenizer, ids)
    assert target.texts == [*known.split(), "</s>"]
    assert len(target.pieces) == len(ids)
    assert [i for group in target.groups for i in group] == list(range(len(ids)))


def test_an_output_that_was_cut_has_no_end():
    tokenizer = Tokenizer.train(toy.GERMAN, kind="bpe", vocab_size=60)
    ids = tokenizer.encode("die Datei").ids
    assert WordPieces.of(tokenizer, ids).texts == ["die", "Datei"]
    assert WordPieces.of(tokenizer, [*ids, EOS]).texts == ["die", "Datei", "</s>"]
    assert WordPieces.of(tokenizer, [EOS]).texts == ["</s>"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_marks_stand_apart_but_not_inside_words(kind):
    texts = ["(die Datei) läuft, 'das' Fenster wird's geschlossen."] * 3
    tokenizer = Tokenizer.train(texts, kind=kind, vocab_size=90)
    expected = ["(", "die", "Datei", ")", "läuft", ",", "'", "das", "'", "Fenster", "wird's",
                "geschlossen", ".", "</s>"]  # fmt: skip
    encoding = tokenizer.encode(texts[0])
    assert WordPieces.of_text(tokenizer, encoding).texts == expected
    assert WordPieces.of(tokenizer, [*encoding.ids, EOS]).texts == expected
    alone = tokenizer.encode("' '")
    assert WordPieces.of_text(tokenizer, alone).texts == ["'", "'", "</s>"]


def test_letters_are_words_of_their_own():
    tokenizer = Tokenizer.train(["read book"], kind="characters")
    assert WordPieces.of_text(tokenizer, tokenizer.encode("bad")).texts == ["b", "a", "d", "</s>"]
    ids = tokenizer.encode("dear").ids
    assert WordPieces.of(tokenizer, ids).texts == list("dear")


def test_one_step():
    whole = Picture(["a", "b"], ["c"], torch.tensor([[0.25], [0.75]]))
    one = whole.row(2)
    assert (one.rows, one.columns, one.weights.tolist()) == (["b"], ["c"], [[0.75]])
    for number in (0, 3):
        with pytest.raises(RequestError, match=f"no step {number}: the picture has 1 to 2"):
            whole.row(number)
