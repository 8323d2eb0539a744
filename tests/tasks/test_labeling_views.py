"""What is drawn of models that look word by word, and of words that look at what is their own."""

import numpy as np
import pytest

import regard
from tests.tasks.labeled import fitted, pairs, write

TAPE = {"embed": 8, "hidden": 6, "ffn_dim": 8, "dropout": 0.0}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    return write(tmp_path_factory.mktemp("reviews"))


def drawn(folder, data, model, task, text):
    fitted(folder, data, model, task, epochs=1)
    loaded = regard.load(folder / "run")
    made = loaded.task.view(loaded, [text])
    (run,) = made.runs
    return made, [made.maps[m] for m in run.maps], run


def pieces(made, axis):
    return made.axes[axis].pieces


def test_a_tape_is_one_map_with_the_slot_before_the_text(reviews, tmp_path):
    model = {"name": "lstmn", **TAPE}
    text = "the plot is awful"
    made, maps, run = drawn(tmp_path, reviews, model, {"name": "classification"}, text)
    (own,) = maps
    assert pieces(made, own.rows) == text.split()
    assert pieces(made, own.columns) == ["∅", *text.split()]
    weights = own.weights[0]
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert not np.triu(weights, 1).any()  # a word's own slot is one column further
    assert weights[0, 0] == 1
    assert [panel.kind for panel in run.panels] == ["matrix", "bars"]


def test_a_pair_read_word_by_word_is_one_map(tmp_path):
    data = write(tmp_path / "data", (60, 20, 20), pairs)
    task = {"name": "entailment"}
    columns = {"columns": {"premise": "a", "hypothesis": "b", "label": "label"}}
    fitted(tmp_path, data, {"name": "lstmn-pair", **TAPE}, task, 1, **columns)
    loaded = regard.load(tmp_path / "run")
    second = ["w1", "w7", "w9"]
    made = loaded.task.view(loaded, ["w1 w2 w3\t" + " ".join(second)])  # equally long
    (cross,) = [own for own in made.maps if own.name == "fusion.cross"]
    assert pieces(made, cross.rows) == second
    assert pieces(made, cross.columns) == ["w1", "w2", "w3"]
    made = loaded.task.view(loaded, ["w1 w2 w3 w4\tw1 w7 w9"])
    maps = {own.name: own for own in made.maps}
    assert set(maps) == {"encoder.tape", "fusion.decoder.tape", "fusion.cross"}
    first = ["w1", "w2", "w3", "w4"]
    for name, rows, columns in (
        ("encoder.tape", first, ["∅", *first]),
        ("fusion.decoder.tape", second, ["∅", *second]),
        ("fusion.cross", second, first),
    ):
        assert pieces(made, maps[name].rows) == rows
        assert pieces(made, maps[name].columns) == columns
        np.testing.assert_allclose(maps[name].weights.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "name", "width"),
    [
        ({"name": "dme", "embed": 8, "more": [6], "characters": 4, "filters": 6, "dim": 8,
          "hidden": 6, "ffn_dim": 8}, "encoder.mix.sets", 3),
        ({"name": "attention-via-attention", "embed": 8, "hidden": 6, "attention": 6,
          "characters": 4, "filters": 6, "ffn_dim": 8}, "encoder.characters", 5),
    ],
    ids=["dme", "attention via attention"],
)  # fmt: skip
def test_words_and_what_is_their_own(model, name, width, reviews, tmp_path):
    text, task = "the plot is awful", {"name": "classification", "characters": True}
    made, maps, _ = drawn(tmp_path, reviews, model, task, text)
    (own,) = [one for one in maps if one.name == name]
    assert pieces(made, own.rows) == text.split()
    assert own.weights.shape == (1, 4, width)
    np.testing.assert_allclose(own.weights.sum(-1), 1, atol=1e-5)
    if width == 5:  # characters: padding is behind short words
        assert not own.weights[0, 2, 2:].any()
