import copy
import json
import pickle
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text.plain_words import plain_words
from regard.data.text.tokenizer import KINDS, SPECIALS, Tokenizer, word_groups
from regard.errors import RequestError

TEXTS = [
    'Er sagte: "Das Fenster (im 2. Stock) wird um 18:30 geschlossen."',
    "Übermäßig große Bäume -- so-genannte »Riesen« -- wachsen langsam…",
    "It's a well-known e-mail: write to me@example.org, please!",
    "<s> is not </s>, nor is <unk> or [x] {y} 100% of 3,141.59 €",
    "日本語のテキストです。 中文没有空格，也可以。",
    "the cat sat on the mat and the cat slept on the mat",
    "café naïve Ǆ ½ → ← ☺",
]
LETTERS = sorted(set("".join(TEXTS)) - {" "})
SUBWORDS = ("bpe", "unigram", "characters")


def trained(kind: str, size: int = 300, **more: bool | str) -> Tokenizer:
    # Every letter twice, alone and in words: what was seen can be written.
    if kind == "segmented":
        more["segmenter"] = "letters"  # installed everywhere
    return Tokenizer.train([*TEXTS, *TEXTS, *LETTERS, *LETTERS], kind=kind, vocab_size=size, **more)


# A shape has no word to come back to, and punctuation that stands apart has lost its place.
WRITTEN = [kind for kind in KINDS if kind not in ("shapes", "wordpunct")]
TOKENIZERS = {kind: trained(kind) for kind in KINDS}
SMALL = {kind: trained(kind, lowercase=True) for kind in KINDS}


@pytest.mark.parametrize("kind", SUBWORDS)
@given(words=st.lists(st.text(st.sampled_from(LETTERS), min_size=1, max_size=9), max_size=8))
def test_any_text_of_seen_letters_with_single_spaces_comes_back(kind: str, words: list[str]):
    text = unicodedata.normalize("NFC", " ".join(words))
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("text", TEXTS)
def test_training_texts_come_back(kind: str, text: str):
    tokenizer = TOKENIZERS[kind]
    if kind == "words":  # whole words that look like special tokens are unknown
        text = " ".join(word for word in text.split() if word not in SPECIALS)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.mark.parametrize("kind", SUBWORDS)
def test_white_space_becomes_single_spaces_and_text_becomes_nfc(kind: str):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode("  the\t\tcat   cafe\u0301 \u00a0 the \n").ids
    assert tokenizer.decode(ids) == "the cat café the"


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_ids_are_the_specials(kind: str):
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.vocabulary[:4] == list(SPECIALS)
    assert len(tokenizer) == len(set(tokenizer.vocabulary))
    assert len(tokenizer) <= 300


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_makes_a_special_token(kind: str):
    tokenizer = TOKENIZERS[kind]
    text = "a </s> b <s> c <pad> <unk>"
    assert min(tokenizer.encode(text).ids) >= 3
    assert min(tokenizer.encode_all([text])[0]) >= 3


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_letters_are_unknown_and_left_out_of_the_output(kind: str):
    tokenizer = TOKENIZERS[kind]
    encoding = tokenizer.encode("the ЖЖ cat")
    assert 3 in encoding.ids
    assert tokenizer.decode(encoding.ids).split() == ["the", "cat"]


def test_decode_stops_at_the_end_token():
    tokenizer = TOKENIZERS["bpe"]
    cat, mat = tokenizer.encode("the cat").ids, tokenizer.encode("the mat").ids
    assert tokenizer.decode([1, *cat, 2, *mat]) == "the cat"


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_point_at_the_text(kind: str):
    text = 'Er sagte: "Das  Fenster" 18:30'
    encoding = TOKENIZERS[kind].encode(text)
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        if token not in SPECIALS:
            assert text[start:end].strip() == token.replace("▁", " ").strip()
    covered = {i for start, end in encoding.offsets for i in range(start, end)}
    assert covered >= {i for i, letter in enumerate(text) if letter != " "}


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words"])
def test_words_are_white_space_words(kind: str):
    text = '  Er sagte:  "Das Fenster ЖЖ" (im ЖЖ-Stock)! '
    encoding = TOKENIZERS[kind].encode(text)
    words = text.split()
    assert sorted(set(encoding.words)) == list(range(len(words)))
    for word, (start, end) in zip(encoding.words, encoding.offsets, strict=True):
        assert text[start:end].strip() in words[word]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters"])
@pytest.mark.parametrize("text", TEXTS)
def test_words_of_an_output_are_those_of_its_text(kind: str, text: str):
    tokenizer = TOKENIZERS[kind]
    encoding = tokenizer.encode(text)
    assert tokenizer.words(encoding.ids) == encoding.words


def test_letters_are_their_own_words():
    assert TOKENIZERS["characters"].encode("cat sat").words == list(range(7))


def test_word_groups():
    assert word_groups([0, 0, 1, 2, 2, 2]) == [[0, 1], [2], [3, 4, 5]]
    assert word_groups([]) == []


def test_punctuation_and_digits_stand_apart():
    tokens = TOKENIZERS["bpe"].encode('"Das Fenster" 1830').tokens
    assert "".join(tokens) == '▁"Das▁Fenster"▁1830'
    for token in tokens:
        bare = token.removeprefix("▁")
        assert bare.isalpha() or len(bare) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_training_again_gives_the_same(kind: str):
    again = trained(kind)
    assert again.to_json() == TOKENIZERS[kind].to_json()


@pytest.mark.parametrize("kind", KINDS)
def test_copies_pickles_and_files_are_the_same(kind: str, tmp_path):
    tokenizer = trained(kind, lowercase=True)
    tokenizer.save(tmp_path / "tokenizer.json")
    others = [
        copy.deepcopy(tokenizer),
        pickle.loads(pickle.dumps(tokenizer)),
        Tokenizer.load(tmp_path / "tokenizer.json"),
        Tokenizer.from_json(tokenizer.to_json()),
    ]
    for other in others:
        assert (other.kind, other.lowercase) == (kind, True)
        assert other.vocabulary == tokenizer.vocabulary
        assert other.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])


@pytest.mark.parametrize("kind", WRITTEN)
def test_lowercase(kind: str):
    tokenizer = trained(kind, lowercase=True)
    ids = tokenizer.encode("ER SAGTE: the CAT").ids
    assert ids == tokenizer.encode("er sagte: the cat").ids
    if kind != "words":
        assert tokenizer.decode(ids) == "er sagte: the cat"
    assert not any(token != token.lower() for token in tokenizer.vocabulary)


@pytest.mark.parametrize("kind", KINDS)
def test_many_at_once_are_as_one_by_one(kind: str):
    tokenizer = TOKENIZERS[kind]
    texts = [*TEXTS, "", "   ", "ЖЖЖ"]
    packed = tokenizer.encode_all(texts, at_once=3)
    assert [row.tolist() for row in packed] == [tokenizer.encode(text).ids for text in texts]
    assert packed.flat.dtype == np.int32
    assert len(tokenizer.encode_all([])) == 0


@pytest.mark.parametrize("kind", KINDS)
@given(texts=st.lists(st.text(st.sampled_from("aé\u0301tThe.5 \u00a0\t\x1c▁ЖΣσ"), max_size=12)))
def test_odd_texts_at_once_are_as_one_by_one(kind: str, texts: list[str]):
    for tokenizer in (TOKENIZERS[kind], SMALL[kind]):
        packed = tokenizer.encode_all(texts)
        assert [row.tolist() for row in packed] == [tokenizer.encode(text).ids for text in texts]


def test_the_file_is_one_of_the_tokenizers_library():
    layout = json.loads(TOKENIZERS["bpe"].to_json())
    assert layout["model"]["type"] == "BPE"
    assert layout["added_tokens"] == []


def test_wrong_requests(tmp_path):
    with pytest.raises(RequestError, match="did you mean 'bpe'"):
        Tokenizer.train(TEXTS, kind="bpee")
    with pytest.raises(RequestError, match="it must be above 4"):
        Tokenizer.train(TEXTS, vocab_size=4)
    with pytest.raises(RequestError, match="there is no tokenizer"):
        Tokenizer.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(RequestError, match="is not a tokenizer"):
        Tokenizer.load(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't go (it's U.S. law).", "do n't go ( it 's u.s. law ) ."),
        ("a well-known 1,000.5 at 18:30 - no...", "a well-known 1,000.5 at 18:30 - no ..."),
        ("The <e1>fire</e1>, a<b>c</b>", "the <e1> fire </e1> , a <b> c </b>"),
        ("`` 2nd <num> '' -LRB- x--y", "`` 2nd <num> '' - lrb - x -- y"),
    ],
)
def test_punctuation_and_endings_stand_apart_as_in_files_of_vectors(text, words):
    words = words.split()
    tokenizer = Tokenizer.train([text], "wordpunct", lowercase=True)
    assert tokenizer.words_of(text) == words
    found = tokenizer.encode(text)
    assert found.tokens == words
    assert [text[a:b].lower() for a, b in found.offsets] == words
    assert plain_words([text]) == [words]


def test_another_vocabulary_cuts_in_the_same_way():
    tokenizer = Tokenizer.train(["b a b"], "wordpunct").with_vocabulary(["b", "a", "new"])
    assert tokenizer.vocabulary == [*SPECIALS, "b", "a", "new"]
    assert tokenizer.encode("new b, c").ids == [6, 4, 3, 3]
    assert Tokenizer.from_json(tokenizer.to_json()).kind == "wordpunct"
