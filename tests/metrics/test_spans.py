"""Spans against what conlleval.pl and seqeval say of the same tags, and by hand."""

import json
from pathlib import Path

import pytest

from regard.data.annotations.tag_schemes import convert, lenient_spans, tags_of
from regard.errors import RequestError
from regard.metrics import conlleval, seqeval_strict
from tests.metrics.golden_tags import short

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "spans.json").read_text("utf-8"))
SCHEMES = [name for name in GOLDEN if name != "made by"]
RULES = {
    "conlleval": lambda said, gold, scheme: conlleval(said, gold),
    "seqeval": seqeval_strict,
}
CASES = [(scheme, rule) for scheme in SCHEMES for rule in RULES if rule in GOLDEN[scheme]]


def sides(scheme: str) -> tuple[list[list[str]], list[list[str]]]:
    """(Outputs, references)."""
    pairs = GOLDEN[scheme]["pairs"]
    return [said.split() for _, said in pairs], [gold.split() for gold, _ in pairs]


def test_every_program_has_every_scheme_that_it_knows():
    assert len(CASES) == 7
    assert all(len(GOLDEN[scheme]["pairs"]) >= 200 for scheme in SCHEMES)


@pytest.mark.parametrize(("scheme", "rule"), CASES)
def test_each_sentence(scheme, rule):
    for number, (said, gold) in enumerate(zip(*sides(scheme), strict=True)):
        parts = RULES[rule]([said], [gold], scheme)["f1"].parts
        told = [parts["right"], parts["said"], parts["there"]]
        assert told == GOLDEN[scheme][rule]["each"][number], (said, gold)


@pytest.mark.parametrize(("scheme", "rule"), CASES)
def test_every_short_sequence(scheme, rule):
    """The number of spans of all sequences of a few tags, valid or not."""
    told = [RULES[rule]([one], [one], scheme)["f1"].parts["there"] for one in short(scheme)]
    assert "".join(map(str, told)) == GOLDEN[scheme][rule]["short"]
    assert len(told) > 600


@pytest.mark.parametrize(("scheme", "rule"), CASES)
def test_all_sentences(scheme, rule):
    said, gold = sides(scheme)
    found, printed = RULES[rule](said, gold, scheme), GOLDEN[scheme][rule]["all"]
    parts = found["f1"].parts
    for name in ("right", "said", "there"):
        assert parts[name] == printed[name]
    rates = [found[name].value for name in ("precision", "recall", "f1")]
    if rule == "conlleval":
        assert parts["words"] == printed["words"]
        rates, scale, close = [found["accuracy"].value, *rates], 1, 0.0051
    else:
        scale, close = 100, 1e-9
    assert rates == pytest.approx([scale * rate for rate in printed["rates"]], abs=close)
    assert set(parts["types"]) == set(printed["types"])
    for label, (*row, count) in printed["types"].items():
        own = parts["types"][label]
        told = [own[name] for name in ("precision", "recall", "f1")]
        assert told == pytest.approx([scale * rate for rate in row], abs=close), label
        other = own["excess"] if rule == "conlleval" else own["missed"]
        assert own["right"] + other == count


def test_the_rules_differ_where_tags_are_not_valid():
    said, gold = [["I-X", "I-X", "O"]], [["B-X", "I-X", "O"]]
    assert conlleval(said, gold)["f1"].value == 100
    assert seqeval_strict(said, gold)["f1"].value == 0
    open_end = [["B-X", "I-X", "O"]]
    assert conlleval(open_end, [["B-X", "E-X", "O"]])["f1"].value == 100
    assert seqeval_strict(open_end, [["B-X", "E-X", "O"]], "iobes")["f1"].value == 0


def test_valid_tags_have_the_same_scores_in_each_scheme():
    said, gold = sides("iob2")
    pairs = [(a, b) for a, b in zip(said, gold, strict=True) if valid(a) and valid(b)]
    assert len(pairs) > 40
    both, told = list(zip(*pairs, strict=True)), set()
    for scheme in ("iob2", "iobes", "bilou"):
        other = [[convert(tags, "iob2", scheme) for tags in side] for side in both]
        told.add(seqeval_strict(*other, scheme)["f1"].value)
        if scheme != "bilou":
            told.add(conlleval(*other)["f1"].value)
    assert len(told) == 1


def valid(tags: list[str]) -> bool:
    before = "O"
    for tag in tags:
        if tag[0] == "I" and (before == "O" or before[1:] != tag[1:]):
            return False
        before = tag
    return True


def test_a_label_of_zero_is_none():
    """`$type ? $type : ""` of the program."""
    assert conlleval([["B-0", "I"]], [["B", "I-0"]])["accuracy"].value == 100 * 0 / 2
    assert conlleval([["B-0", "I"]], [["B", "I-0"]])["f1"].value == 100
    assert set(conlleval([["B-0"]], [["B-0"]])["f1"].parts["types"]) == {""}


def test_signatures_and_intervals():
    said, gold = sides("iobes")
    found = seqeval_strict(said, gold, "iobes", samples=50)
    for score in found.values():
        assert score.sums.of(score.sums.counts.sum(0)) == pytest.approx(score.value)
        assert score.parts["interval"].low <= score.value <= score.parts["interval"].high
    assert found["f1"].signature.startswith("metric:seqeval|mode:strict|scheme:iobes|version:")
    assert conlleval(said, gold)["f1"].signature.startswith("metric:conlleval|version:")


@pytest.mark.parametrize(
    ("score", "said", "why"),
    [
        (conlleval, ["U-X", "O"], "example 1: conlleval knows .* got 'U-X'"),
        (conlleval, ["B-", "O"], "got 'B-'"),
        (conlleval, ["O"], "expected 2 tags in example 1, got 1"),
        (seqeval_strict, ["E-X", "O"], "iob2 has the letters B, I, O; got 'E-X'"),
    ],
)
def test_what_cannot_be_scored(score, said, why):
    with pytest.raises(RequestError, match=why):
        score([said], [["O", "O"]])


def test_no_sentences():
    with pytest.raises(RequestError, match="no examples"):
        conlleval([], [])
    with pytest.raises(RequestError, match="as many references"):
        seqeval_strict([["O"]], [])
    assert conlleval([[]], [[]])["f1"].value == 0


def test_one_rule_for_scores_and_for_repairs():
    """`data.annotations.tag_schemes.lenient_spans` reads as conlleval does."""
    for scheme in ("iob1", "iob2", "iobes"):
        for tags in [*sides(scheme)[0], *short(scheme)]:
            told = conlleval([tags], [tags_of(lenient_spans(tags), len(tags), scheme)])["f1"].parts
            assert told["said"] == told["there"] == told["right"]
    with pytest.raises(RequestError, match="did you mean 'iobes'"):
        seqeval_strict([["O"]], [["O"]], "iobs")
