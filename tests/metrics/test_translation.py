"""BLEU and chrF against the frozen output of sacreBLEU's own command line."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest

from regard.errors import RequestError
from regard.metrics import bleu, chrf

FROZEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "sacrebleu.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", FROZEN["cases"], ids=lambda c: c["command"])
def test_what_sacrebleu_printed(case):
    streams = [FROZEN[name] for name in case["references"]]
    references = [list(several) for several in zip(*streams, strict=True)]
    score = {"bleu": bleu, "chrf": chrf}[case["name"]]
    found = score(FROZEN["hyp"], references, **case["arguments"])
    printed = case["printed"]
    assert found.name == case["name"]
    assert found.value == pytest.approx(printed["score"], abs=1e-6)
    without_version = printed["signature"].rpartition("|version:")[0]
    assert found.signature.rpartition("|version:")[0] == without_version
    if "confidence_var" in printed:
        low, high, *_ = found.parts["interval"]
        assert (high - low) / 2 == pytest.approx(printed["confidence_var"], abs=1e-5)
        assert (high + low) / 2 == pytest.approx(printed["confidence_mean"], abs=1e-5)


def test_one_reference_may_be_given_as_text():
    nested = bleu(FROZEN["hyp"], [[r] for r in FROZEN["ref"]])
    assert bleu(FROZEN["hyp"], FROZEN["ref"]) == nested


def test_the_formula_by_hand():
    """Clipped precisions and the brevity penalty, written out for text that needs no tokenizing."""
    outputs, references = ["a b c d e", "the the the cat"], ["a b c d e f", "the cat sat down now"]
    hits, total = [0] * 4, [0] * 4
    for output, reference in zip(outputs, references, strict=True):
        o, r = output.split(), reference.split()
        for n in range(4):
            grams = Counter(tuple(o[i : i + n + 1]) for i in range(len(o) - n))
            gold = Counter(tuple(r[i : i + n + 1]) for i in range(len(r) - n))
            hits[n] += sum((grams & gold).values())
            total[n] += sum(grams.values())
    penalty = math.exp(1 - 11 / 9)
    mean = math.exp(sum(math.log(h / t) for h, t in zip(hits, total, strict=True)) / 4)
    found = bleu(outputs, references, tokenize="none")
    assert found.value == pytest.approx(100 * penalty * mean)
    assert found.parts["brevity_penalty"] == pytest.approx(penalty)
    assert found.parts["precisions"] == pytest.approx(
        [100 * h / t for h, t in zip(hits, total, strict=True)]
    )


def test_examples_may_have_different_numbers_of_references():
    outputs = ["a b c d e", "f g h i j"]
    found = bleu(outputs, [["x y z", "a b c d e"], ["f g h i j"]])
    assert found.value == pytest.approx(100)
    assert "nrefs:var" in found.signature


@pytest.mark.parametrize("score", [bleu, chrf])
def test_what_cannot_be_scored_is_refused(score):
    with pytest.raises(RequestError, match="no examples"):
        score([], [])
    with pytest.raises(RequestError, match="got 1 and 2"):
        score(["a", "b"], ["a"])


def test_an_unknown_tokenizer_gets_the_nearest_name():
    with pytest.raises(RequestError, match="did you mean '13a'"):
        bleu(["a"], ["a"], tokenize="13")
