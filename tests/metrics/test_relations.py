"""Scores of relations, by hand and as an official scorer prints them; hypernyms of a tree."""

import json
from pathlib import Path

import pytest

from regard.errors import RequestError
from regard.metrics import directed_f1
from regard.metrics.relations import hypernyms, read_tree, relation_scores, without_hypernyms

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "relations.json").read_text("utf-8"))
TREE = """\
# a tree
D0\tC14
D1\tC14.280
D1\tC23.888
D2\tC14.280.067
D3\tC14.28
D4\tF01
"""


def cid(*pairs):
    return {("CID", *pair.split("-")) for pair in pairs}


SAID = [cid("a-D1", "a-D2", "b-D4"), cid(), cid("a-D1"), {("OTHER", "a", "D1")}]
TRUE = [cid("a-D2", "b-D4", "b-D1"), cid(), cid(), cid("a-D1")]


def test_counts_by_hand():
    found = relation_scores(SAID, TRUE)
    assert found["f1"].parts == {"right": 2, "false": 3, "missed": 2}
    values = {name: score.value for name, score in found.items()}
    assert values == pytest.approx({"f1": 400 / 9, "precision": 40.0, "recall": 50.0})
    assert "document" in found["f1"].signature


def test_nothing_said_and_nothing_true():
    assert relation_scores([cid()], [cid("a-b")])["precision"].value == 0.0
    assert relation_scores([cid("a-b")], [cid()])["recall"].value == 0.0
    assert {score.value for score in relation_scores([cid()], [cid()]).values()} == {0.0}
    with pytest.raises(RequestError, match="no examples"):
        relation_scores([], [])
    with pytest.raises(RequestError, match="got 1 and 2"):
        relation_scores([cid(), cid()], [cid()])


def test_hypernyms_stand_above_on_whole_steps(tmp_path):
    (tmp_path / "tree.tsv").write_text(TREE)
    tree = read_tree(tmp_path / "tree.tsv")
    assert tree["D1"] == ("C14.280", "C23.888")
    true = cid("a-D2")
    every = cid("a-D0", "a-D1", "a-D2", "a-D3", "a-D4", "a-unknown", "b-D0")
    assert hypernyms(every, true, tree) == cid(
        "a-D0", "a-D1"
    )  # D3's place begins D2's, with no dot
    both = cid("a-D1", "a-D2")
    assert hypernyms(both, both, tree) == set()  # what is true stays
    left = without_hypernyms(SAID, TRUE, tree)
    assert left == [cid("a-D2", "b-D4"), *SAID[1:]]
    found = relation_scores(left, TRUE, prefix="filtered_")
    assert found["filtered_f1"].parts == {"right": 2, "false": 2, "missed": 2}


@pytest.mark.parametrize("text", ["D1 C14", "D1\t", "D1\tC14\tx"])
def test_a_broken_tree_is_told_with_its_line(tmp_path, text):
    (tmp_path / "tree.tsv").write_text(TREE + text + "\n")
    with pytest.raises(RequestError, match=r"tree.tsv:8: expected a concept, a tab"):
        read_tree(tmp_path / "tree.tsv")
    with pytest.raises(RequestError, match="cannot be read"):
        read_tree(tmp_path / "no.tsv")


@pytest.mark.parametrize("name", [*GOLDEN])
def test_directed_f1_is_what_the_official_scorer_prints(name):
    golden = GOLDEN[name]
    found = directed_f1(golden["outputs"], golden["references"])
    assert found.value == pytest.approx(golden["f1"], abs=0.0051)
    assert found.parts["f1"] == pytest.approx(golden["each"], abs=0.0051)
    assert float(found.sums.of(found.sums.counts.sum(0))) == pytest.approx(found.value)


def test_directed_f1_of_others_alone_is_zero_and_says_so():
    found = directed_f1(["A(e1,e2)", "Other"], ["Other", "Other"])
    assert (found.value, found.sums) == (0.0, None)
    assert found.parts["note"] == "every reference is 'Other'"
