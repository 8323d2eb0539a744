"""Roles against what srl-eval.pl prints for the same files, and against examples by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from regard.data.annotations.bracket_columns import phrases_of
from regard.errors import RequestError
from regard.metrics import Proposition, paired, srl_eval

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "srl_eval.json").read_text("utf-8"))


def propositions(columns: list[str]) -> list[Proposition]:
    """Of a sentence's columns, as the golden file has them."""
    verbs, *cells = (column.split() for column in columns)
    places = [i for i, verb in enumerate(verbs) if verb != "-"]
    return [
        Proposition(phrases_of(column), verbs[i], i)
        for i, column in zip(places, cells, strict=True)
    ]


SAID = [propositions(sentence["said"]) for sentence in GOLDEN["sentences"]]
GOLD = [propositions(sentence["gold"]) for sentence in GOLDEN["sentences"]]


def rows(found) -> dict[str, list[int]]:
    """The table of all labels, as the program's."""
    parts = found["f1"].parts
    return {
        label: [row["right"], row["excess"], row["missed"]]
        for label, row in {**parts["roles"], **parts["excluded"]}.items()
    }


def test_each_sentence():
    assert len(GOLD) >= 200
    for number, (said, gold, printed) in enumerate(zip(SAID, GOLD, GOLDEN["each"], strict=True)):
        found = srl_eval([said], [gold])
        parts = found["f1"].parts
        assert parts["propositions"] == printed["propositions"], number
        assert found["complete"].value == pytest.approx(printed["complete"], abs=0.0051)
        told = {label: row[:3] for label, row in printed["rows"].items()}
        assert told.pop("Overall") == [parts["right"], parts["excess"], parts["missed"]], number
        assert told == rows(found), number


@pytest.mark.parametrize("group", range(len(GOLDEN["groups"])))
def test_whole_files(group):
    """Every number of the table, to the two places printed."""
    size = len(GOLD) // len(GOLDEN["groups"])
    here = slice(group * size, (group + 1) * size)
    found, printed = srl_eval(SAID[here], GOLD[here]), GOLDEN["groups"][group]
    parts = found["f1"].parts
    assert found["complete"].value == pytest.approx(printed["complete"], abs=0.0051)
    table = dict(printed["rows"])
    overall = [found[name].value for name in ("precision", "recall", "f1")]
    assert overall == pytest.approx(table.pop("Overall")[3:], abs=0.0051)
    assert len(table) >= 8
    for label, row in table.items():
        own = {**parts["roles"], **parts["excluded"]}[label]
        assert [own[name] for name in ("precision", "recall", "f1")] == pytest.approx(
            row[3:], abs=0.0051
        ), label


def score(said: str, gold: str):
    return srl_eval([[Proposition.of(said.split())]], [[Proposition.of(gold.split())]])


def test_a_continued_argument_is_one():
    gold = "B-A1 O B-V B-C-A1"
    assert rows(score(gold, gold)) == {"A1": [1, 0, 0], "V": [1, 0, 0]}
    whole = score("B-A1 I-A1 I-A1 I-A1", gold)  # from the same word to the same word
    assert rows(whole) == {"A1": [0, 1, 1], "V": [0, 0, 1]}
    assert rows(score("B-A1 O B-V O", gold))["A1"] == [0, 1, 1]
    assert rows(score("O O B-V B-C-A1", "O O B-V B-A1"))["A1"] == [1, 0, 0]
    assert score("B-R-A0 B-V", "B-A0 B-V")["complete"].value == 0


def test_the_verb_is_not_counted():
    found = score("B-A0 O", "B-A0 B-V")
    assert (found["f1"].value, found["complete"].value) == (100, 100)
    assert found["f1"].parts["excluded"]["V"]["missed"] == 1
    assert score("O O", "O B-V")["complete"].value == 100  # no argument, and none found


def test_predicates_that_are_found():
    """Gold: a (two arguments), b (one). Found: a (one right), c (two that are none)."""
    gold = [Proposition.of(["B-A0", "B-A1"], "a", 0), Proposition.of(["O", "B-A0"], "b", 1)]
    said = [Proposition.of(["B-A0", "O"], "a", 0), Proposition.of(["B-A0", "B-A1"], "c", 2)]
    theirs, mended = srl_eval([said], [gold]), srl_eval([said], [gold], predicates="found")
    assert (theirs["precision"].value, mended["precision"].value) == (100, pytest.approx(100 / 3))
    assert theirs["recall"].value == mended["recall"].value == pytest.approx(100 / 3)
    assert mended["f1"].value == pytest.approx(100 / 3)
    assert "|predicates:found|" in mended["f1"].signature
    other = [Proposition(gold[0].phrases, "another", 0)]
    assert srl_eval([other], [gold])["f1"].parts["missed"] == 3


def test_sums_and_intervals():
    worse, best = srl_eval(SAID, GOLD, samples=100), srl_eval(GOLD, GOLD)
    for name, found in worse.items():
        assert found.sums.of(found.sums.counts.sum(0)) == pytest.approx(found.value)
        assert found.parts["interval"].low <= found.value <= found.parts["interval"].high
        assert best[name].value >= found.value
    told = paired(worse["f1"].sums, best["f1"].sums, samples=100)
    assert told.value == pytest.approx(best["f1"].value - worse["f1"].value)
    some = np.arange(0, len(GOLD), 3)
    again = srl_eval([SAID[i] for i in some], [GOLD[i] for i in some])["f1"].value
    assert worse["f1"].sums.of(worse["f1"].sums.counts[some].sum(0)) == pytest.approx(again)


def test_what_cannot_be_scored():
    one = Proposition.of(["B-A0"])
    with pytest.raises(RequestError, match="as many references as outputs"):
        srl_eval([[one]], [])
    with pytest.raises(RequestError, match="no examples"):
        srl_eval([], [])
    with pytest.raises(RequestError, match="did you mean 'found'"):
        srl_eval([[one]], [[one]], predicates="fond")
    with pytest.raises(RequestError, match="within each other or apart"):
        srl_eval([[one]], [[Proposition([(0, 2, "A0"), (1, 3, "A1")])]])
