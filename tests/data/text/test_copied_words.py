import pytest

from regard.data.text.copied_words import words_of
from regard.data.text.tokenizer import Tokenizer
from regard.protocols import EOS, UNK

TOKENIZER = Tokenizer.train(["a tool for reading files ."], "spaced", lowercase=True)
V = len(TOKENIZER)


def test_own_words_are_numbered_by_first_occurrence_and_spelled_as_they_stand():
    own, copies = words_of("Foo: a tool for BAR and foo", TOKENIZER)
    assert own.names == ("▁foo", ":", "▁bar", "▁and")
    assert own.spellings == ("▁Foo", ":", "▁BAR", "▁and")
    known = {name: TOKENIZER.encode(name).ids[0] for name in ("a", "tool", "for")}
    assert copies == (V, V + 1, known["a"], known["tool"], known["for"], V + 2, V + 3, V)
    assert own.decode([V, V + 1, known["a"], V + 2, EOS, V + 3]) == "Foo: a BAR"
    assert own.tokens([V + 2, EOS]) == ["▁BAR", "</s>"]
    assert own.words([V, V + 1, known["a"]]) == [0, 0, 1]
    assert len(own) == V + 4


def test_what_is_read_is_cut():
    own, copies = words_of("Foo bar baz", TOKENIZER, 2)
    assert own.names == ("▁foo", "▁bar")
    assert copies == (V, V + 1)


def test_texts_are_read_with_own_words():
    own, _ = words_of("Foo bar", TOKENIZER)
    assert own.encode("a FOO for baz").ids == [*TOKENIZER.encode("a").ids, V,
                                               *TOKENIZER.encode("for").ids, UNK]  # fmt: skip
    assert own.encode_all(["bar", ""]) == [[V + 1], []]
    assert own.spelled()[V:] == own.added() == [" Foo", " bar"]


@pytest.mark.parametrize("kind", ["words", "wordpunct", "spaced", "characters"])
@pytest.mark.parametrize(
    "text",
    ["", "   ", "x" * 3000, "🙂🙃 mixed 中文 и русский العربية", "Ünïcode Å", "</s> <unk> ▁ |||",
     'He said: "(GNU/Linux), 3.11..."'],
)  # fmt: skip
def test_every_text_is_written_out_again_though_nothing_is_known(kind, text):
    tokenizer = Tokenizer.train(["zz"], kind)
    own, copies = words_of(text, tokenizer)
    assert all(i > UNK for i in copies)
    written = own.decode(copies)
    blank = "" if kind == "wordpunct" else " "  # which divides marks from words
    if "▁" not in text:
        assert written.replace(" ", blank) == blank.join(text.split())
    assert own.encode(" ".join(text.split())).ids == list(copies)


def test_words_of_many_texts_are_those_of_each():
    texts = ["Foo: (bar)", "", "a ▁ b", "Foo: x"]
    for kind in ("words", "spaced", "characters", "bpe"):
        tokenizer = Tokenizer.train(["a b x"], kind)
        assert list(tokenizer.words_of_all(texts)) == [tokenizer.words_of(t) for t in texts]
