"""Words of languages without blanks: found, kept with the vocabulary, written out again."""

import json
import re
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.text.bpe_dropout import BpeDropout
from regard.data.text.segmented import chosen_kind
from regard.data.text.segmenters import SEGMENTERS, Segmenter, needs, units
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.vocabulary_growth import frequent, grown
from regard.errors import RequestError
from regard.system.extras import install

CHINESE = [
    "我们今天去公园。",
    "使用 GNU tar 工具解压文件。",
    "工具很好，GNU/Linux 3.11（工具）也好！",
]
KINDS = ("segmented", "bpe", "unigram")


class Pairs(Segmenter):
    """Words of two letters, as a segmenter that is installed everywhere."""

    def cut(self, run, script):
        return [run[i : i + 2] for i in range(0, len(run), 2)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tar: (it's) 3.11", ["tar:", "(it's)", "3.11"]),  # blanks alone divide
        ("我爱你。", [*"我爱你。"]),
        ("使用GNU/Linux 3.1(工具)……", ["使", "用", "GNU/Linux", "3.1", "(", "工", "具", ")", "……"]),
        ("กิน ข้าว", ["กิ", "น", "ข้", "า", "ว"]),
        ("ភាសា မြန်မာ", ["ភា", "សា", "မြ", "န်", "မာ"]),
        ("ガギ、カ\u3099 안녕", ["ガ", "ギ", "、", "カ\u3099", "안녕"]),
    ],
)
def test_units_of_scripts_without_blanks_are_letters_with_their_marks(text, words):
    assert Segmenter().words(text) == words
    assert "".join(words) == "".join(text.split())
    assert [text[start:end] for start, end in units(text, None)] == text.split()
    if words[0] == "使":
        assert Pairs().words(text)[:2] == ["使用", "GNU/Linux"]


LETTERS = "我爱你工具，。（ガーกิข้ាa1.- \u3000"


@pytest.mark.parametrize("segmenter", [Segmenter(), Pairs()])
@settings(max_examples=40)  # each trains three vocabularies
@given(words=st.lists(st.text(st.sampled_from(LETTERS), min_size=1, max_size=9), max_size=6))
def test_texts_come_back_and_places_are_theirs(segmenter, words):
    text = " ".join(unicodedata.normalize("NFC", " ".join(words)).split())
    for kind in KINDS:
        made = Tokenizer.train([text, *LETTERS] * 2, kind, 400, segmenter=segmenter)
        found = made.encode(text)
        if kind != "segmented" or 3 not in found.ids:
            assert made.decode(found.ids) == text
        for (start, end), token in zip(found.offsets, found.tokens, strict=True):
            if token not in ("▁", "<unk>"):
                assert text[start:end].strip() == token.strip("▁")
        assert made.encode_all([text])[0].tolist() == found.ids
        assert sorted(found.words) == found.words
        assert made.words_of(text) == next(iter(made.words_of_all([text])))
        assert "".join(text[a:b] for a, b in made.units(text)) == text.replace(" ", "")
        assert set(found.words) <= set(range(len(made.units(text))))
        if 3 not in found.ids:
            assert made.words(found.ids) == found.words


def test_a_segmenter_is_kept_with_its_version_and_what_grows_has_it():
    pytest.importorskip("rjieba")
    for kind in KINDS:
        made = Tokenizer.train(CHINESE * 5, kind, 200, segmenter="auto")
        assert made.segmenter is not None
        assert made.segmenter.libraries == ("rjieba",)
        again = Tokenizer.from_json(made.to_json())
        assert again.segmenter == made.segmenter
        assert json.loads(made.to_json())["regard"]["segmenter"] == made.segmenter.names
        for text in CHINESE:
            assert again.encode(text) == made.encode(text)
            assert again.decode(again.encode(text).ids) == text
        more = grown(made, ["他们明天去图书馆。"] * 5, 200)
        assert more.segmenter == made.segmenter
        assert more.vocabulary[: len(made)] == made.vocabulary
        assert "图书馆" in more.vocabulary or kind == "unigram"
        words = [made.encode(CHINESE[0]).text[a:b] for a, b in made.units(CHINESE[0])]
        assert words == ["我们", "今天", "去", "公园", "。"]
    kept = frequent(Tokenizer.train([*CHINESE, CHINESE[0]], "segmented"), [*CHINESE, CHINESE[0]], 2)
    assert {"我们", "工具"} <= {*kept.vocabulary}
    assert "文件" not in kept.vocabulary
    pieces = Tokenizer.train(CHINESE * 5, "bpe", 200, segmenter="rjieba")
    with pytest.raises(RequestError, match="segmenter"):
        BpeDropout(pieces, 0.1)


def test_pieces_of_plain_subwords_are_counted_by_letters():
    made = Tokenizer.train(["我爱你", "他说我爱你", "你说我爱他"] * 5, "bpe", 100)
    found = made.encode("我爱你 ok")
    assert found.tokens[0] == "▁我爱你"
    assert found.words[0] == 2
    assert made.units("我爱你 ok") == [(0, 1), (1, 2), (2, 3), (4, 6)]
    apart = Tokenizer.train(["我们 今天 去 公园", "他们 明天 去 公园"] * 5, "bpe", 100)
    assert apart.units("我们 去") == [(0, 2), (3, 4)]  # blanks divide these texts already
    assert apart.words(apart.encode("我们 去").ids)[-1] == 1


def test_what_cannot_be_cut_is_refused_in_one_sentence(monkeypatch):
    with pytest.raises(RequestError, match="segmenter: 'jieba': did you mean 'rjieba'"):
        Segmenter.of("jieba")
    with pytest.raises(RequestError, match=r"expected with a kind among segmented, bpe, unigram"):
        Tokenizer.train(CHINESE, "words", segmenter="letters")
    for name, own in SEGMENTERS.items():
        monkeypatch.setitem(sys.modules, own.package, None)
        with pytest.raises(RequestError, match=re.escape(install(own.extra))):
            needs(name)
    text = {"rjieba": "我爱你", "sudachipy": "私は水を飲む", "pythainlp": "กินข้าว"}
    for name, one in text.items():
        with pytest.raises(RequestError, match=f"words of {SEGMENTERS[name].language} need"):
            Tokenizer.train([one], "segmented")
    with pytest.raises(RequestError, match="words of Chinese need rjieba"):
        Segmenter.from_names(["rjieba 0.2.2"]).words("我爱你")


def test_what_is_only_shown_falls_back_to_letters(monkeypatch, caplog):
    """A translator into Chinese works without the library; texts to encode still need it."""
    pytest.importorskip("rjieba")
    made = Tokenizer.train(CHINESE * 5, "bpe", 200, segmenter="rjieba")
    ids, words = made.encode("我们去").ids, made.units("我们去")
    assert words == [(0, 2), (2, 3)]
    monkeypatch.setitem(sys.modules, "rjieba", None)
    again = Tokenizer.from_json(made.to_json())
    assert again.units("我们去") == [(0, 1), (1, 2), (2, 3)]
    assert again.words(ids)[-1] == 2
    (said,) = [one.message for one in caplog.records]
    assert said.startswith("rjieba is not installed: letters of Chinese stand for words (pip ")
    for refused in again.encode, lambda text: again.encode_all([text]):
        with pytest.raises(RequestError, match="words of Chinese need rjieba"):
            refused("我们去")


@pytest.mark.parametrize(
    ("usual", "text", "kind"),
    [
        ("wordpunct", "我爱你 ok", "segmented"),
        ("wordpunct", "I love 你", "wordpunct"),
        ("words", "กินข้าว", "segmented"),
        ("bpe", "我爱你", "bpe"),
        ("words", "나는 너를", "words"),
    ],
)
def test_kind_auto_looks_at_the_script(usual, text, kind):
    assert chosen_kind(usual, [text]) == kind


def test_another_version_of_a_segmenter_is_told(caplog):
    pytest.importorskip("rjieba")
    assert Segmenter.from_names(["rjieba 0.0.1"]).words("我们去") == ["我们", "去"]
    assert Segmenter.of("rjieba").words("我们去") == ["我们", "去"]
    (said,) = [one.message for one in caplog.records]
    assert said.endswith("was 0.0.1 in training: some words may be cut in another way")


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_no_width_is_dropped_where_it_is_asked(kind):
    odd, plain = "Fens\u00adter\u200b ist\ufeff ＡＢ１ 好，", "Fenster ist AB1 好，"
    texts = [plain, *plain] * 3
    folding = Tokenizer.train(texts, kind, 80, fold=True, segmenter="letters")
    folding = Tokenizer.from_json(folding.to_json())
    found = folding.encode(odd)
    assert found.ids == folding.encode(plain).ids == folding.encode_all([odd])[0].tolist()
    assert folding.decode(found.ids) == plain
    for (start, end), token in zip(found.offsets, found.tokens, strict=True):
        kept = odd[start:end].translate(dict.fromkeys((0xAD, 0x200B, 0xFEFF)))
        assert len(kept.strip()) == len(token.strip("▁"))
    usual = Tokenizer.train(texts, kind, 80, segmenter="letters")
    assert 3 in usual.encode(odd).ids
