"""Vocabularies that grow."""

import pytest

from regard.data.text.tokenizer import Tokenizer
from regard.data.text.vocabulary_growth import grown

OLD = ["der Hund bellt laut", "das Haus und der Hof", "der Hof und das Haus"] * 4
NEW = ["der Zwölfzylinder zylindert", "Zylinder und Zwölf", "das Zwölfeck der Zylinder"] * 4


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "wordpunct", "spaced", "characters"])
def test_old_tokens_keep_their_ids_and_new_texts_are_cut_in_fewer(kind):
    old = Tokenizer.train(OLD, kind, 60)
    new = grown(old, NEW, 60)
    assert new.kind == kind
    assert new.vocabulary[: len(old)] == old.vocabulary
    assert len(new) > len(old) == len(set(old.vocabulary))
    assert len(set(new.vocabulary)) == len(new)
    for text in NEW:
        assert 3 not in new.encode(text).ids  # no unknown token is left
        assert len(new.encode(text)) <= len(old.encode(text))
        assert new.decode(new.encode(text).ids) == text
    assert Tokenizer.from_json(new.to_json()).vocabulary == new.vocabulary


def test_merges_go_on_where_they_ended():
    old = Tokenizer.train(OLD, "bpe", 40)
    new = grown(old, NEW, 40)
    assert max(map(len, new.encode("Zylinder").tokens)) > 2
    assert len(new.encode(NEW[0])) < 0.7 * len(old.encode(NEW[0]))
    used = {token for text in NEW for token in new.encode(text).tokens}
    assert len(used) <= 36
    again = grown(new, NEW, 4)
    assert again.vocabulary == new.vocabulary  # there is no room
    assert grown(old, NEW, 40).to_json() == new.to_json()
    every = grown(old, OLD, 10_000)  # as far as pairs occur twice
    assert every.encode("der Hund").tokens == ["▁der", "▁Hund"]


def test_rare_words_are_left_out():
    old = Tokenizer.train(["a b"], "words")
    assert grown(old, ["c c d", "a e e e"], 100, 2).vocabulary[4:] == ["a", "b", "e", "c"]
    assert grown(old, ["c c d", "e e e"], 5).vocabulary[4:] == ["a", "b", "e"]
