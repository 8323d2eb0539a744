"""The page of the comparison is that of its numbers, and its numbers are those of the runs."""

import copy
import json
import sys

import pytest

from tests.docs import comparison
from tests.repo.tree import TOP

RUNS = TOP / "benchmarks" / "results" / "comparison-2026-11-28.jsonl"


@pytest.fixture(scope="module")
def numbers():
    return comparison.read()


@pytest.fixture(scope="module")
def compared():
    sys.path.insert(0, str(TOP / "benchmarks"))
    import compared

    sys.path.pop(0)
    return compared


def test_the_page_is_written_from_its_numbers(numbers):
    told = "python -m tests.docs.comparison"
    assert comparison.PAGE.read_text(encoding="utf-8") == comparison.text(numbers), told


def test_the_numbers_are_those_of_the_runs(numbers, compared):
    """Means, deviations and differences; p-values in the slow test."""
    own = compared.summary(compared.kept(RUNS), samples=1)
    for task, told in numbers.data["tasks"].items():
        for lengths in comparison.RANGES:
            assert told[lengths]["mean"] == own["tasks"][task][lengths]["mean"]
            each = zip(told[lengths]["cells"], own["tasks"][task][lengths]["cells"], strict=True)
            for one, other in each:
                for name in ("score", "select", "right", "sd", "difference"):
                    assert one.get(name) == other.get(name)
        assert told["by_length"] == own["tasks"][task]["by_length"]
    for name in ("runs", "seeds", "updates", "cpu", "median_cpu", "beside"):
        assert numbers.data[name] == own[name]


@pytest.mark.slow
def test_the_p_values_are_those_of_the_runs(numbers, compared):
    assert compared.summary(compared.kept(RUNS)) == numbers.data


def test_every_finding_is_said_in_both_languages():
    lines = comparison.PROSE.read_text(encoding="utf-8").splitlines()
    named = [line.split()[0].removeprefix("@") for line in lines if line.startswith("@")]
    assert named == [*comparison.FINDINGS] * 2
    for name in comparison.FINDINGS:
        english, chinese = (line for line in lines if line.startswith(f"@{name} "))
        assert english.count("{}") == chinese.count("{}") > 0


@pytest.mark.parametrize("name", comparison.FINDINGS)
def test_a_finding_that_the_numbers_do_not_bear_out_is_not_written(name, numbers):
    """Each holds on the numbers, and fails where all systems are level."""
    holds, values = comparison.FINDINGS[name](numbers)
    assert holds
    (line, _) = (
        line
        for line in comparison.PROSE.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"@{name} ")
    )
    assert line.count("{}") == len(values)
    level = copy.deepcopy(numbers.data)
    for task in level["tasks"].values():
        for lengths in comparison.RANGES:
            told = task[lengths]
            told["mean"] = dict.fromkeys(told["mean"], 90.0)
            for one in told["cells"]:
                one["right"] = 90.0
            for pair in (*told["scores"], *told["selects"]):
                pair["p_holm"] = 1.0
    words = copy.deepcopy(numbers.words)
    for row in (*words["scores"]["systems"], *words["selects"]["systems"]):
        row["metrics"]["per"] |= {"value": 20.0, "p_holm": 1.0}
    with pytest.raises(SystemExit, match=f"do not bear out {name}"):
        comparison.said(comparison.Numbers(level, words), line)


def test_marks_follow_from_the_corrected_p():
    told = {"difference": 1.0, "p_holm": 0.04}
    assert comparison.mark(told, "9") == "**9**"
    assert comparison.mark({**told, "difference": -1.0}, "9") == "*9*"
    assert comparison.mark({**told, "p_holm": 0.05}, "9") == "9"
    assert comparison.mark({}, "9") == "9"


def test_the_picture_has_every_cell(numbers):
    maps = [chart for chart in comparison.charts(numbers) if hasattr(chart, "weights")]
    assert len(maps) == 4
    cells = [
        one["right"]
        for task in comparison.TASKS
        for lengths in comparison.RANGES
        for one in numbers.data["tasks"][task][lengths]["cells"]
    ]
    assert [weight for one in maps for row in one.weights for weight in row] == cells
    assert comparison.PICTURE.stat().st_size < 250_000


def test_pronunciation_is_from_the_output_of_compare():
    told = json.loads(comparison.WORDS.read_text(encoding="utf-8"))
    for kind, count in (("scores", 7), ("selects", 6)):
        rows = told[kind]["systems"]
        assert len(rows) == count
        assert [("p_holm" in row["metrics"]["per"]) for row in rows] == [False] + [True] * (
            count - 1
        )
    asked = [row["system"].split("=")[-1] for row in told["scores"]["systems"]]
    assert asked == list(comparison.VARIED)
