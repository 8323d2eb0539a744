"""EVALB against what evalb prints for the same trees, and against examples counted by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from regard.data.annotations.trees import Tree
from regard.errors import RequestError
from regard.metrics import Parameters, evalb, paired

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "evalb.json").read_text("utf-8"))
PAIRS = [tuple(map(Tree.parse, pair)) for pair in GOLDEN["trees"]]
PRINTED = {
    "f1": "Bracketing FMeasure",
    "recall": "Bracketing Recall",
    "precision": "Bracketing Precision",
    "complete": "Complete match",
    "crossing": "Average crossing",
    "no_crossing": "No crossing",
    "few_crossing": "2 or less crossing",
    "tagging": "Tagging accuracy",
}


def score(gold: str, test: str, **more):
    return evalb([Tree.parse(test)], [Tree.parse(gold)], **more)


@pytest.mark.parametrize("at", range(len(PAIRS)))
def test_each_sentence(at):
    (gold, test), said = PAIRS[at], GOLDEN["sentences"][at]
    parts = evalb([test], [gold], punctuation="own")["f1"].parts
    status = 1 * parts["errors"] + 2 * parts["skipped"]
    counted = {key: parts[key] for key in ("match", "words", "tags")}
    assert {"status": status, **counted} == {key: said[key] for key in ("status", *counted)}
    if not status:
        assert (parts["gold"], parts["test"]) == (said["gold"], said["test"])
        crossing = evalb([test], [gold], punctuation="own")["crossing"].value
        assert crossing == said["crossing"]


@pytest.mark.parametrize("block", ["all", "40"])
def test_the_summary(block):
    """Of all sentences, and of those of at most 40 words."""
    longest = 40 if block == "40" else 1000
    pairs = [
        pair for pair, row in zip(PAIRS, GOLDEN["sentences"], strict=True)
        if row["length"] <= longest
    ]  # fmt: skip
    found = evalb([t for _, t in pairs], [g for g, _ in pairs], punctuation="own")
    said = GOLDEN["summary"][block]
    for name, printed in PRINTED.items():
        assert found[name].value == pytest.approx(said[printed], abs=0.0051), name
    parts = found["f1"].parts
    assert parts["errors"] == said["Number of Error sentence"]
    assert parts["skipped"] == said["Number of Skip  sentence"]
    assert f"errors:{parts['errors']}|" in found["f1"].signature


def test_by_hand():
    """Places without punctuation: gold S 0-4, NP 0-2, VP 2-4, ADVP 3-4."""
    gold = "(TOP (S (NP (DT the) (NN dog)) (, ,) (VP (VBZ runs) (ADVP (RB away))) (. .)))"
    test = "(TOP (S (NP (DT the)) (NP (NN dog) (, ,)) (VP (VBZ runs) (PRT (RP away))) (. .)))"
    found = score(gold, test)
    # test: S 0-4, NP 0-1, NP 1-2, VP 2-4, PRT 3-4; S, VP and ADVP = PRT match.
    assert found["recall"].value == 100 * 3 / 4
    assert found["precision"].value == 100 * 3 / 5
    assert found["f1"].value == pytest.approx(100 * 6 / 9)
    assert found["tagging"].value == 100 * 3 / 4
    assert (found["complete"].value, found["crossing"].value) == (0, 0)


def test_a_bracket_twice_matches_once():
    gold, twice = "(TOP (NP (NN x) (NN y)))", "(TOP (NP (NP (NN x) (NN y))))"
    found = score(gold, twice)
    assert (found["recall"].value, found["precision"].value) == (100, 50)


def test_labels_end_and_what_is_empty_goes():
    gold = "(TOP (S (NP-SBJ (-NONE- *)) (VP (VB go) (NP=2 (NN home)))))"
    test = "(TOP (S (VP (VB go) (NP (NN home)))))"
    assert score(gold, test)["complete"].value == 100


def test_crossing():
    gold = "(TOP (S (A (X a) (X b)) (B (X c) (X d))))"
    test = "(TOP (S (X a) (C (D (X b) (X c)) (X d))))"
    assert score(gold, test)["crossing"].value == 2  # C 1-4 and D 1-3 overlap A 0-2


def test_a_wrong_tag_of_punctuation():
    """evalb leaves the sentence out; by the treebank's tags it counts."""
    gold = "(TOP (S (NP (NN x)) (, --) (VP (VB y))))"
    test = "(TOP (S (NP (NN x)) (NN --) (NP (VB y))))"
    assert score(gold, test, punctuation="own")["f1"].parts["errors"] == 1
    found = score(gold, test)["f1"]
    assert (found.parts["errors"], found.parts["match"], found.parts["gold"]) == (0, 2, 3)


def test_other_parameters():
    gold, test = "(TOP (S (NP (NN x) (. ?))))", "(TOP (NP (NN x) (. ?)))"
    plain = Parameters("plain", frozenset())
    found = score(gold, test, parameters=plain)
    assert (found["f1"].parts["gold"], found["f1"].parts["test"]) == (3, 2)
    assert "evalb:plain|" in found["f1"].signature


def test_sums_and_intervals():
    golds, tests = [g for g, _ in PAIRS], [t for _, t in PAIRS]
    worse = evalb(tests, golds, samples=200)
    best = evalb(golds, golds)
    for name, found in worse.items():
        assert found.sums.of(found.sums.counts.sum(0)) == pytest.approx(found.value)
        assert found.parts["interval"].low <= found.value <= found.parts["interval"].high, name
    told = paired(worse["f1"].sums, best["f1"].sums, samples=200)
    assert told.value == pytest.approx(100 - worse["f1"].value)
    assert told.p < 0.02
    # F1 of a resampled set is that of its sums, not a mean of sentences.
    some = np.arange(0, len(golds), 3)
    again = evalb([tests[i] for i in some], [golds[i] for i in some])["f1"]
    assert worse["f1"].sums.of(worse["f1"].sums.counts[some].sum(0)) == pytest.approx(again.value)


def test_what_cannot_be_scored():
    tree = Tree.parse("(TOP (NP (NN x)))")
    with pytest.raises(RequestError, match="as many trees as 1"):
        evalb([], [tree])
    with pytest.raises(RequestError, match="no trees"):
        evalb([], [])
    with pytest.raises(RequestError, match="'gold'"):
        evalb([tree], [tree], punctuation="goald")
