"""PER, WER and word error rate: official scorers' frozen outputs, and cases worked by hand."""

import json
import random
from pathlib import Path

import pytest

from regard.errors import RequestError
from regard.metrics import per, wer, word_error_rate

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(name):
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def test_word_error_rate_is_what_jiwer_says():
    texts, frozen = golden("sacrebleu.json"), golden("jiwer.json")
    found = word_error_rate(texts["hyp"], texts["ref"])
    assert found.value == pytest.approx(100 * frozen["wer"], abs=1e-9)
    assert found.parts["edits"] == sum(
        frozen[k] for k in ("substitutions", "deletions", "insertions")
    )
    pairs = [(h, r) for h, r in zip(texts["hyp"], texts["ref"], strict=True) if h]
    printed = frozen["printed without the empty output by: jiwer -r ref -h hyp"]
    value = word_error_rate([h for h, _ in pairs], [r for _, r in pairs]).value
    assert value == pytest.approx(100 * printed, abs=1e-9)


def test_word_error_rate_is_what_the_installed_jiwer_says():
    jiwer = pytest.importorskip("jiwer")
    draw = random.Random(5)
    for _ in range(30):
        hyps, refs = (
            [" ".join(draw.choices("abcde", k=draw.randint(1, 15))) for _ in range(6)]
            for _ in range(2)
        )
        assert word_error_rate(hyps, refs).value == pytest.approx(100 * jiwer.wer(refs, hyps))


@pytest.mark.parametrize("speaker", ["f", "g"])
def test_nearest_variants_are_what_sclite_chose(speaker):
    """sclite's alternations {a / b} are variants; its counts are of the alternative it chose."""
    said = [u for u in golden("sclite.json")["utterances"] if u["id"].startswith(speaker)]
    counts = [sum(column) for column in zip(*(u["C S D I"] for u in said), strict=True)]
    correct, substituted, deleted, inserted = counts
    found = word_error_rate([u["hyp"] for u in said], [u["refs"] for u in said])
    assert found.parts["edits"] == substituted + deleted + inserted
    assert found.parts["words"] == correct + substituted + deleted


def test_sclite_utterances_without_reference_words_only_insert():
    said = golden("sclite.json")["utterances"]
    empty = [u for u in said if u["id"].startswith("empty")]
    assert len(empty) == 2
    found = word_error_rate([u["hyp"] for u in said], [u["refs"] for u in said])
    inserted = sum(u["C S D I"][3] for u in empty)
    without = [u for u in said if not u["id"].startswith("empty")]
    rest = word_error_rate([u["hyp"] for u in without], [u["refs"] for u in without])
    assert found.parts["edits"] - rest.parts["edits"] == inserted == 13
    assert found.parts["words"] == rest.parts["words"]


def test_per_by_hand():
    """1 edit of 3 phonemes, 0 of 3 (second variant), 2 deleted of 2: 3 / 8."""
    score = per(["K AE D", "D AO G", ""], [["K AE T"], ["D AA G", "D AO G"], ["AY T"]])
    assert score.value == pytest.approx(100 * 3 / 8)
    assert (score.parts["edits"], score.parts["phonemes"]) == (3, 8)


def test_per_takes_the_length_of_the_first_of_equals():
    """One edit to either variant: the first counts, 4 phonemes; the other way round 2."""
    assert per(["A B C"], [["A B C D", "A B"]]).value == pytest.approx(25)
    assert per(["A B C"], [["A B", "A B C D"]]).value == pytest.approx(50)


def test_wer_is_the_share_of_words_that_equal_no_variant():
    outputs = ["K AE T", "D  AO G", "B", ""]
    score = wer(outputs, [["K AE T"], ["D AA G", "D AO G"], ["B IY"], ["AH"]])
    assert score.value == 50
    assert score.parts == {"wrong": 2, "words": 4}


def test_phonemes_are_compared_whole_not_by_letters():
    assert per(["AE"], ["AA"]).value == 100
    assert per(["A E"], ["AE"]).value == 200


@pytest.mark.parametrize("rate", [per, wer, word_error_rate])
def test_what_cannot_be_scored_is_refused(rate):
    with pytest.raises(RequestError, match="no examples"):
        rate([], [])
    with pytest.raises(RequestError, match="got 1 and 2"):
        rate(["a", "b"], ["a"])
    with pytest.raises(RequestError, match="example 2 has no reference"):
        rate(["a", "b"], [["a"], []])


def test_references_without_words_are_refused():
    with pytest.raises(RequestError, match="no phonemes"):
        per(["A"], [""])


def test_signatures_say_what_was_computed():
    assert "nrefs:1|unit:phonemes|edit:levenshtein" in per(["A"], ["A"]).signature
    assert "nrefs:var" in wer(["A", "B"], [["A"], ["B", "C"]]).signature
    assert "|version:regard-" in word_error_rate(["a"], ["a"]).signature


def test_the_interval_is_that_of_resampled_examples():
    draw = random.Random(11)
    outputs = ["A B C D" if draw.random() < 0.7 else "A X C D" for _ in range(200)]
    score = per(outputs, ["A B C D"] * 200, samples=4000)
    low, high, level, samples = score.parts["interval"]
    assert (level, samples) == (95, 4000)
    assert low < score.value < high
    wrong = [o != "A B C D" for o in outputs]
    drawn = sorted(25 * sum(draw.choices(wrong, k=200)) / 200 for _ in range(4000))
    assert low == pytest.approx(drawn[100], abs=0.35)
    assert high == pytest.approx(drawn[3899], abs=0.35)
    assert per(outputs, ["A B C D"] * 200, samples=4000).parts == score.parts
