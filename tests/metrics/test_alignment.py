"""AER against lilt's script and NLTK's published example; links and hard alignments by hand."""

import json
from pathlib import Path

import pytest
import torch

from regard.errors import RequestError
from regard.metrics import Links, aer, hard_alignment, read_links

FROZEN = json.loads((Path(__file__).parents[1] / "golden" / "aer.json").read_text())


def test_aer_is_what_the_script_of_lilt_says():
    gold, found = read_links(FROZEN["gold"]), read_links(FROZEN["found"])
    score = aer([f.sure for f in found], [g.sure for g in gold], [g.possible for g in gold])
    assert score.value == pytest.approx(100 * FROZEN["aer"])
    assert score.parts["precision"] == pytest.approx(100 * FROZEN["precision"])
    assert score.parts["recall"] == pytest.approx(100 * FROZEN["recall"])
    parts = score.parts
    line = f"{score.value:.1f}% ({parts['precision']:.1f}%/{parts['recall']:.1f}%/{parts['links']})"
    assert FROZEN["printed"] == f"links: {line}"


def test_the_example_in_the_documentation_of_nltk():
    """nltk.translate.metrics.alignment_error_rate: 0.6666666666666667."""
    score = aer([{(0, 0), (1, 2), (2, 1)}], [{(0, 0), (1, 1), (2, 2)}])
    assert score.value == pytest.approx(66.66666666666667)


def test_a_possible_link_costs_nothing_whether_found_or_not():
    sure, possible = [{(0, 0)}], [{(0, 0), (1, 1)}]
    assert aer([{(0, 0)}], sure, possible).value == 0
    assert aer([{(0, 0), (1, 1)}], sure, possible).value == 0
    assert aer([{(0, 0), (2, 2)}], sure, possible).value == pytest.approx(100 * (1 - 2 / 3))


def test_sure_links_are_possible_even_where_the_file_leaves_them_out():
    assert aer([{(0, 0), (1, 1)}], [{(0, 0)}], [{(1, 1)}]).value == 0


def test_counts_are_summed_over_sentences_before_dividing():
    a = [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}]
    s = [{(0, 1)}, {(0, 0), (1, 1), (2, 2)}]
    assert aer(a, s).value == pytest.approx(100 * (1 - 6 / 8))


def test_links_are_read_as_written():
    lines = ["0-0 1?2 3p1", "", "4-5"]
    sure, possible = frozenset({(0, 0)}), frozenset({(0, 0), (1, 2), (3, 1)})
    last = frozenset({(4, 5)})
    nothing = Links(frozenset(), frozenset())
    assert read_links(lines) == [Links(sure, possible), nothing, Links(last, last)]
    assert read_links(["1-2"], first=1) == read_links(["0-1"]) == read_links(["1-0"], reverse=True)


@pytest.mark.parametrize(
    ("line", "first", "message"),
    [("0-1 2:3", 0, "gold.txt:2: expected links like"), ("0-1", 1, "gold.txt:2: '0-1' counts")],
)
def test_what_is_no_link_is_named_with_its_line(line, first, message):
    with pytest.raises(RequestError, match=message):
        read_links(["", line], first=first, name="gold.txt")


def test_each_target_word_links_to_where_it_looks_most():
    weights = torch.tensor([[0.1, 0.9, 0.0], [0.4, 0.4, 0.2], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert hard_alignment(weights) == {(1, 0), (0, 1), (2, 3)}
    assert hard_alignment(weights, row="input") == {(0, 0), (2, 2)}
    assert hard_alignment(torch.zeros(0, 4)) == hard_alignment(torch.zeros(2, 0)) == frozenset()


def test_wrong_requests_are_refused():
    with pytest.raises(RequestError, match="row: expected"):
        hard_alignment(torch.ones(1, 1), row="out")
    with pytest.raises(RequestError, match="2, 1 and 1"):
        aer([set(), set()], [set()])
    with pytest.raises(RequestError, match="no links"):
        aer([set()], [set()])


def test_no_links_found_is_all_wrong():
    assert aer([set()], [{(0, 0)}]).value == 100
    assert aer([set()], [{(0, 0)}]).parts["precision"] == 0


def test_the_interval_holds_the_score():
    gold, found = read_links(FROZEN["gold"]), read_links(FROZEN["found"])
    score = aer([f.sure for f in found], [g.sure for g in gold], samples=200)
    low, high, *_ = score.parts["interval"]
    assert low < score.value < high
    assert high - low < 20
