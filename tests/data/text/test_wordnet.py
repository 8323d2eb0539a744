"""WordNet's relations: on a small database written by hand, and on the real one where it is."""

import json

import numpy as np
import pytest

from regard.data.pairs.sentence_features import PairFeatures
from regard.data.text.wordnet import RELATIONS, WordNet, database
from regard.errors import RequestError
from tests.data.wordnet_files import small


@pytest.fixture
def folder(tmp_path):
    return small(tmp_path)


@pytest.mark.parametrize(
    ("u", "v", "relation"),
    [
        ("dog", "dog", "same"), ("dogs", "dog", "same"), ("mice", "mouse", "same"),
        ("running", "runs", "same"), ("sofas", "couch", "synonym"), ("dog", "animal", "hypernym"),
        ("animals", "dogs", "hyponym"), ("dog", "cats", "coordinate"), ("dog", "mouse", "related"),
        ("man", "woman", "antonym"), ("wet", "dry", "antonym"), ("damp", "arid", "antonym"),
        ("damp", "wet", "none"), ("dog", "sofa", "none"), ("qwert", "dog", "none"),
        ("qwert", "qwert", "same"), ("run", "move", "hypernym"),
    ],
)  # fmt: skip
def test_relations(folder, u, v, relation):
    assert relation in RELATIONS
    assert WordNet.read(folder).relation(u, v) == relation


def test_rare_words_are_kept_where_training_has_them(folder):
    assert WordNet.read(folder).relation("puppy", "animal") == "none"
    assert WordNet.read(folder, ["Puppies"]).relation("puppy", "animal") == "hypernym"


def test_what_is_saved_says_the_same(folder):
    net = WordNet.read(folder)
    again = WordNet.restored(json.loads(json.dumps(net.state())))
    words = ["dog", "cat", "animal", "mice", "man", "woman", "damp", "arid", "runs", "sofa"]
    for u in words:
        assert [again.relation(u, v) for v in words] == [net.relation(u, v) for v in words]


@pytest.mark.parametrize(
    "change",
    [{"above": [[10**6]]}, {"senses": {"n dog": ["0"]}}, {"against": None}, {"senses": [1]}],
)
def test_a_damaged_state_is_refused(folder, change):
    with pytest.raises(RequestError, match="expected a part of WordNet"):
        WordNet.restored(WordNet.read(folder).state() | change)


def test_files_that_are_none_of_wordnets(folder):
    (folder / "data.verb").write_text("hello\n")
    with pytest.raises(RequestError, match=r"data\.verb:1: expected a line of WordNet's database"):
        WordNet.read(folder)
    (folder / "data.verb").unlink()
    with pytest.raises(RequestError, match=r"data\.verb: WordNet's database needs this file"):
        WordNet.read(folder)


def test_where_the_database_is(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("WNSEARCHDIR", str(folder))
    assert database() == folder
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path / "nowhere"))
    with pytest.raises(RequestError, match=r"nowhere; set WNSEARCHDIR.*wordnet-base"):
        database()


PAIRS = [
    (["A", "dog", "is", "running"], ["An", "animal", "is", "running"]),
    (["The", "man", "is", "wet"], ["The", "woman", "is", "dry"]),
    (["A", "dog", "is", "running"], ["No", "dog", "is", "running"]),
    ([], ["a", "sofa"]),
]


def test_features_of_pairs(folder, monkeypatch):
    monkeypatch.setenv("WNSEARCHDIR", str(folder))
    features = PairFeatures(["wordnet"]).learn(PAIRS)
    found, size = features.of(PAIRS), len(RELATIONS)
    assert found.shape == (4, features.width) == (4, 7 * size - 2)
    at = {name: i for i, name in enumerate(RELATIONS)}
    first = found[0, :size]
    assert [first[at["same"]], first[at["hypernym"]], first.sum()] == [1, 1, 2]
    across = found[:, 2 * size : 3 * size - 2]
    assert across[0].nonzero()[0].tolist() == [at["hypernym"] - 1]
    assert across[1].nonzero()[0].tolist() == [at["antonym"] - 1]
    worst, denied = found[:, 3 * size - 2 : 5 * size - 2], found[:, 5 * size - 2 :]
    assert np.array_equal(worst.sum(1), [2, 2, 2, 2])
    assert np.array_equal(denied.sum(1), [0, 0, 2, 0])  # the third pair alone has a "no"
    again = PairFeatures.restored(json.loads(json.dumps(features.state())))
    monkeypatch.setenv("WNSEARCHDIR", "nowhere")  # a saved model needs no database
    assert np.array_equal(again.of(PAIRS), found)


def test_the_real_one():
    try:
        folder = database()
    except RequestError as error:
        pytest.skip(str(error))
    net = WordNet.read(folder)
    known = {
        ("dog", "animal"): "hypernym", ("sofa", "couch"): "synonym", ("hot", "cold"): "antonym",
        ("guitar", "piano"): "coordinate", ("children", "child"): "same",
        ("animal", "dog"): "hyponym", ("asleep", "awake"): "antonym",
    }  # fmt: skip
    assert {pair: net.relation(*pair) for pair in known} == known
