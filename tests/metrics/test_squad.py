"""Exact match and F1 against what a kept scorer gives for the same answers."""

import json
from pathlib import Path

import pytest

from regard.errors import RequestError
from regard.metrics.squad import exact_match, span_f1

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "squad.json").read_text("utf-8"))


@pytest.mark.parametrize("row", GOLDEN["rows"], ids=lambda row: row["output"])
def test_each_answer(row):
    assert exact_match([row["output"]], [row["answers"]]).value == row["em"]
    assert span_f1([row["output"]], [row["answers"]]).value == pytest.approx(row["f1"], abs=1e-4)


def test_all_answers():
    outputs = [row["output"] for row in GOLDEN["rows"]]
    answers = [row["answers"] for row in GOLDEN["rows"]]
    for score in (exact_match(outputs, answers), span_f1(outputs, answers)):
        assert score.value == pytest.approx(GOLDEN["all"][score.name], abs=1e-4)
        assert f"metric:{score.name}|norm:squad|" in score.signature
        assert len(score.parts["each"]) == len(outputs)


def test_nothing_to_score():
    with pytest.raises(RequestError, match="nothing to score"):
        exact_match([], [])
    with pytest.raises(RequestError, match="has no reference"):
        span_f1(["a"], [[]])
