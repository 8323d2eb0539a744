"""Words of two texts stand where the model looked at them, whatever their lengths are."""

import pytest
import torch
from torch import nn

import regard
from regard import catalog
from regard.attention import Attention, Dot
from regard.tasks.ensembles import Vote
from regard.tasks.labels.query_key_texts import query_key_texts
from regard.watching.watcher import watch
from tests.tasks.labeled import fitted, pairs, write

PAIRS = [e.name for e in catalog.ENTRIES if set(e.tasks) & {"entailment", "similarity"}]
SETTINGS = {
    "abcnn": [{"attention": "input"}, {"width": 2}],  # two columns more, or one
    "co-attention": [{"attention": "alternating"}],
    "decomposable": [{"distances": 3}, {"null": False}],
    "lstmn-pair": [{"fusion": "shallow"}],
    "word-by-word": [{"attention": "final"}],
}
CASES = [(name, more) for name in PAIRS for more in [{}, *SETTINGS.get(name, [])]]
COLUMNS = {"premise": "a", "hypothesis": "b", "label": "label"}


def sides(made, first, second):
    """Of each map the letters that its rows and columns begin with: a, b, or a dash."""

    def of(axis):
        words = [w for w in made.axes[axis].pieces if w != "∅"]
        if words in (first, second):
            return words[0][0]
        assert not set(words) & {*first, *second}
        return "-"

    return [(m.name, m.scope, of(m.rows), of(m.columns)) for m in made.maps]


def words(letter, count):
    return [f"{letter}{i}" for i in range(count)]


@pytest.mark.parametrize(("name", "more"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_texts_of_one_length_are_labeled_as_those_of_several(name, more, tmp_path):
    data = write(tmp_path / "data", (24, 8, 8), pairs)
    model = {"name": name, **catalog.entry(name).tiny, **more}
    fitted(tmp_path, data, model, {"name": "entailment"}, 1, columns=COLUMNS)
    loaded = regard.load(tmp_path / "run")

    def seen(here, there):
        first, second = words("a", here), words("b", there)
        made = loaded.task.view(loaded, [" ".join(first) + "\t" + " ".join(second)])
        return sides(made, first, second)

    expected = seen(9, 13)  # whoever is longer than the other, an axis fits one text alone
    for record, _, rows, columns in expected:
        if "pooling" in record:
            assert (rows, columns) == ("-", "-")  # columns of a convolution
        elif "sets" in record:
            assert rows != "-"
        else:
            assert columns != "-", record
    assert expected == seen(13, 9)
    for size in (3, 4, 5):  # one of them as many as there are hops
        assert expected == seen(size, size)
    for here, there in ((9, 10), (10, 9), (9, 11), (1, 9)):  # a token more, or w - 1 columns
        assert expected == seen(here, there)


def test_what_looks_across_texts_and_is_not_declared_has_no_words():
    class Own(nn.Module):
        def __init__(self, declared):
            super().__init__()
            self.first = Attention(Dot(), role="cross")
            if declared:
                self.query_key_texts = {"first": (1, 0)}

        def forward(self, x, y):
            return self.first(y, x)

    for declared, expected in ((False, (None, None)), (True, (1, 0))):
        model = Own(declared)
        with watch(model) as seen:
            model(torch.randn(1, 3, 4), torch.randn(1, 3, 4))
        assert query_key_texts(model, seen["first"], 2) == (expected,)


def test_a_model_among_several_declares_for_itself():
    """The nearest module that knows the path is asked."""
    model = catalog.load("decomposable")(20, 3, **catalog.entry("decomposable").tiny)
    both = Vote([model, model], [1.0, 1.0], torch.softmax, torch.log).eval()
    with watch(both) as seen:
        both.models[0](torch.ones(1, 4, dtype=torch.long), torch.ones(1, 4, dtype=torch.long))
    found = {name: query_key_texts(both, record, 2) for name, record in seen.items()}
    assert found == {"models.0.premise": ((0, 1),), "models.0.hypothesis": ((1, 0),)}


def test_the_two_directions_of_equal_texts_mirror_each_other(tmp_path):
    """Scores of a dot product: what the first text sees of the second is seen the other way."""
    data = write(tmp_path / "data", (24, 8, 8), pairs)
    model = {"name": "abcnn", **catalog.entry("abcnn").tiny, "attention": "input"}
    fitted(tmp_path, data, model, {"name": "entailment"}, 1, columns=COLUMNS)
    loaded = regard.load(tmp_path / "run")
    found = {}
    for first, second in (("w1 w2 w3", "w4 w2 w5"), ("w4 w2 w5", "w1 w2 w3")):
        for one in (made := loaded.task.view(loaded, [f"{first}\t{second}"])).maps:
            rows, columns = (made.axes[a].pieces for a in (one.rows, one.columns))
            assert (rows, columns) == (first.split(), second.split())
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    pair = (one.name, frozenset([(first, row), (second, column)]))
                    found.setdefault(pair, []).append(float(one.weights[0, i, j]))
    assert len(found) == 2 * 9
    for here, there in found.values():
        assert here == pytest.approx(there, abs=1e-5)
