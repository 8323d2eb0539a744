"""Words, sentences and normal forms in twenty scripts; nothing depends on the form of a file."""

import random
import sys
import unicodedata

import pytest
import regex

from regard.data.pairs.concept_positions import sentence_ends
from regard.data.passages.questions import question
from regard.data.passages.stories import told
from regard.data.text.markup import cut_out, finder
from regard.data.text.normal_form import Composed, composed
from regard.data.text.tokenizer import KINDS, Tokenizer
from regard.data.text.words import sentences, spoken, unicode_words
from regard.decode.rules.forbidden_words import _ends
from regard.fields.label import LabelField
from regard.fields.pretrained import Pretrained
from regard.metrics import (
    bleu,
    caption_rouge,
    cer,
    chrf,
    cider_d,
    copied_names,
    exact_match,
    rouge,
    span_f1,
    word_error_rate,
)
from regard.views import Axis
from regard.views.word_pieces import from_pieces

# A sentence with its marks, and its words as they are spoken.
SCRIPTS = {
    "Latin": ("Zoë’s cafés, col·legi!", "zoë's cafés col·legi"),
    "Vietnamese": ("Tiếng Việt: được.", "tiếng việt được"),
    "Greek": ("Καλημέρα, κόσμε·", "καλημέρα κόσμε"),
    "Cyrillic": ("Мой йод; ёж!", "мой йод ёж"),
    "Armenian": ("Բարեւ, աշխարհ։", "բարեւ աշխարհ"),
    "Georgian": ("გამარჯობა, ქართული!", "გამარჯობა ქართული"),
    "Hebrew": ("שָׁלוֹם, צה״ל!", "שָׁלוֹם צה״ל"),
    "Arabic": ("مَرْحَبًا، كيف؟", "مَرْحَبًا كيف"),
    "Persian": ("می\u200cخواهم، آب.", "می\u200cخواهم آب"),
    "Devanagari": ("की, कि क\u094d\u200dष।", "की कि क\u094d\u200dष"),
    "Bengali": ("বাংলা ভাষা।", "বাংলা ভাষা"),
    "Tamil": ("தமிழ், மொழி.", "தமிழ் மொழி"),
    "Telugu": ("తెలుగు, భాష.", "తెలుగు భాష"),
    "Sinhala": ("සිංහල, භාෂාව.", "සිංහල භාෂාව"),
    "Thai": ("กิน, ข้าว!", "กิน ข้าว"),
    "Burmese": ("မြန်မာ၊ စာ။", "မြန်မာ စာ"),
    "Khmer": ("ភាសា ខ្មែរ។", "ភាសា ខ្មែរ"),
    "Ethiopic": ("ሰላም፣ ዓለም።", "ሰላም ዓለም"),
    "Hangul": ("안녕, 세계!", "안녕 세계"),
    "Japanese": ("ガギグ、ひらがな。", "ガギグ ひらがな"),
    "Han": ("我爱你。", "我爱你"),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_of_a_script_are_the_same_in_both_forms(script):
    text, words = SCRIPTS[script]
    apart = unicodedata.normalize("NFD", text)
    assert spoken(text) == spoken(apart) == composed(words)
    found = unicode_words(text)
    assert found == unicode_words(apart)
    letters = regex.sub(r"[^\p{L}\p{M}\p{N}\u200c\u200d]", "", composed(text.lower()))
    assert "".join(found) == letters  # nothing is lost
    assert not any(unicodedata.category(word[0]).startswith("M") for word in found)
    for score in (
        bleu, caption_rouge, cer, chrf, cider_d, exact_match, span_f1, word_error_rate,
        lambda y, r: rouge(y, r, tokenize="unicode")["rouge1"], lambda y, r: rouge(y, r)["rouge1"],
        lambda y, r: copied_names(y, r, r),
    ):  # fmt: skip
        others = [text, "Étude b c d e"]
        plain = score(others, others)
        for outputs, right in ((apart, text), (text, apart), (apart, apart)):
            mixed = score([outputs, others[1]], [right, unicodedata.normalize("NFD", others[1])])
            assert mixed.value == pytest.approx(plain.value)
            assert mixed.signature == plain.signature


def test_different_vowels_are_different_words():
    assert spoken("की") != spoken("कि")
    assert word_error_rate(["कि"], ["की"]).value == 100
    assert rouge(["कि"], ["की"], tokenize="unicode")["rouge1"].value == 0
    assert [spoken(f"don{one}t") for one in "'’‘＇"] == ["don't"] * 4
    assert spoken("‘quoted’ dogs’") == "quoted dogs"
    assert unicode_words("กิน 👍🏽") == ["กิ", "น", "👍", "🏽"]
    assert unicode_words("မြန်မာ") == ["မြ", "န်", "မာ"]
    assert copied_names(["bei österreich"], ["Österreich"], ["Österreich"]).parts["of"] == 1
    assert copied_names(["Österreich"], ["Österreich"], ["in Österreich"]).value == 100


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a. b! c? “d.” e 3.5", ["a.", "b!", "c?", "“d.”", "e 3.5"]),
        ("好。”他说！？对……", ["好。”", "他说！？", "对……"]),
        ("यह है। वह है॥ ठीक", ["यह है।", "वह है॥", "ठीक"]),
        ("كيف؟ نعم۔ لا", ["كيف؟", "نعم۔", "لا"]),
        ("Բարեւ։ Ով", ["Բարեւ։", "Ով"]),
        ("ከ። ለ", ["ከ။".replace("။", "።"), "ለ"]),
        ("မြန်။ မာ", ["မြန်။", "မာ"]),
        ("３．５は。", ["３．５は。"]),
    ],
)
def test_sentences_end_as_their_script_says(text, parts):
    assert [one.strip() for one in sentences(text) if one.strip()] == parts
    assert "".join(sentences(text)) == text


def test_every_composed_character_is_mapped_to_its_place():
    letters = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.decomposition(c)]
    apart = [unicodedata.normalize("NFD", c) for c in letters if not 0xD800 <= ord(c) < 0xE000]
    random.Random(0).shuffle(apart)
    for n in range(0, len(apart), 50):
        raw = "x" + "x".join(apart[n : n + 50]) + "y"
        found = Composed(raw)
        assert found.text == unicodedata.normalize("NFC", raw)
        for place, letter in enumerate(found.text):
            start, end = found.to_raw(place, place + 1)
            assert unicodedata.normalize("NFC", raw[start:end]).find(letter) >= 0
            if letter in "xy":
                assert (raw[start], found.from_raw(start)) == (letter, place)
    assert Composed("abc").to_raw(1, 2) == (1, 2)
    assert Composed("e\u0301").from_raw(99) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_places_of_pieces_are_those_of_the_text_as_it_was_given(kind):
    texts = [text for text, _ in SCRIPTS.values()]
    tokenizer = Tokenizer.train(texts * 3, kind, 400)
    for text in texts:
        apart = unicodedata.normalize("NFD", text)
        one, other = tokenizer.encode(composed(text)), tokenizer.encode(apart)
        assert (one.ids, one.words) == (other.ids, other.words)
        for found in (one, other):
            pieces = [composed(found.text[a:b]) for a, b in found.offsets]
            assert pieces == [one.text[a:b] for a, b in one.offsets]


def test_questions_in_both_forms_have_the_same_words_and_answers():
    for text, words in SCRIPTS.values():
        answer = words.split()[-1]
        text = composed(f"Été: {text.lower()}")
        start = text.find(composed(answer))
        answer = text[start : start + len(composed(answer))] if start >= 0 else text.split()[-1]
        for form in ("NFC", "NFD"):
            raw, said = (unicodedata.normalize(form, one) for one in (text, answer))
            fields = {"document": raw, "query": raw, "answers": [said], "starts": [raw.find(said)]}
            found = question(fields)
            first, last = found.span()
            assert found.piece(first, last) == composed(answer)
            assert found.query == found.words
            assert not any(unicodedata.category(w[0]).startswith("M") for w in found.words)
    plain = question({"document": "don't well-known a_b 3.5", "query": "q"}).words
    assert plain == ["don't", "well-known", "a_b", "3", ".", "5"]


def test_labels_and_vectors_in_both_forms_are_one(tmp_path):
    field = LabelField().learn([LabelField().read(one, {}) for one in ("e\u0301", "b", "é")])
    assert field.names == ["b", "é"]
    old = LabelField().restored({"labels": ["b", "e\u0301"]})
    told = [*old.encode([old.read("é", {})], lambda *_: None, {}).values]
    assert told == [1]
    for byte_order_mark in ("", "\ufeff"):
        file = tmp_path / "vectors.txt"
        file.write_text(f"{byte_order_mark}e\u0301 1 2\nb 3 4\n", "utf-8")
        found = Pretrained(str(file)).read(["é", "b"])
        assert found.words == ["é", "b"]
        assert found.vectors.tolist() == [[1, 2], [3, 4]]


def test_what_is_kept_and_avoided_ends_with_its_marks():
    kept = cut_out('a <a href="x>y">b</a> <b it\'s>', finder(["tags"]), str)
    assert (kept.text, kept.spans[0].opening) == ("a b ", '<a href="x>y">')
    stand = cut_out("की{name}", finder(["all"]), lambda n: f"#{n}").stands[0]
    assert stand.before
    assert stand.times("#1\u0940 #1") == 1
    assert _ends("क", "क")
    assert not _ends("क", "की")


def test_sentences_of_stories_and_documents_end_in_every_script():
    assert told("玛丽回家了。鲍勃睡了。玛丽在哪里？") == (
        ["玛丽回家了。", "鲍勃睡了。"],
        "玛丽在哪里？",
    )
    assert told("वह घर गया। वह कहाँ है?") == (["वह घर गया।"], "वह कहाँ है?")
    text = "阿司匹林。它会 3.5 毫克! 好。"
    assert [text[:end] for end in sentence_ends(text)] == [
        "阿司匹林。",
        "阿司匹林。它会 3.5 毫克! ",
    ]
    assert sentence_ends("Zorin. Made 3.5 mg e.g. of x. (a)") == [7, 30]


@pytest.mark.parametrize("mark", "。，！？、；：」』）》…।॥؟،؛։፣၊។")
def test_marks_of_every_script_stand_alone_on_axes(mark):
    made = from_pieces(["▁wort", mark, "▁ab", "-", "c"])
    assert made.texts[:2] == ["wort", mark]
    assert Axis(["▁wort", f"▁{mark}", "ab"], "text").delimiters == [1]
