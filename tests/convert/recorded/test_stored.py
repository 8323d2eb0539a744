"""Every generator's graphs in NumPy: scores and states are the model's, at sizes never recorded."""

import json

import numpy as np
import pytest

from regard.convert.recorded.generators import generator_graphs
from regard.convert.recorded.stored import stored_graph
from regard.errors import RequestError
from regard.runtime.stored_program import graph_of
from tests.convert.recorded.test_generators import FIRST, build, cases, compare_steps, source


def graphs_of(model, case):
    """The two graphs as a folder has them, read back."""
    made = generator_graphs(
        model, [source(case, model, n) for n in (7, 11, 17)], positions=64, fold=False
    )
    weights = {name: x.numpy() for name, x in model.state_dict().items()}
    both = (stored_graph(one, model, weights.keys()) for one in (made.encoder, made.step))
    encoder, step = (graph_of(json.loads(json.dumps(one)), weights) for one in both)
    return made, encoder, step


@pytest.mark.parametrize("case", cases(stored=True))
def test_steps_are_the_model_s(case):
    model = build(case)
    graphs, encoder, step = graphs_of(model, case)
    compare_steps(case, model, graphs, encoder.run, step.run)


def test_weights_stay_in_the_folder_s_file():
    case = FIRST["gnmt"]  # its LSTMs have their gates in another order in the graph
    model = build(case)
    examples = [source(case, model, n) for n in (7, 11, 17)]
    graph = generator_graphs(model, examples, fold=False).encoder
    stored = stored_graph(graph, model, model.state_dict().keys())
    weights = {one["weight"] for one in stored["constants"].values() if "weight" in one}
    assert "encoder" in " ".join(weights)
    assert weights <= model.state_dict().keys()
    others = [one for one in stored["constants"].values() if "weight" not in one]
    assert max(len(one["base64"]) for one in others) < 200


def test_a_table_of_sinusoids_is_told_by_its_size():
    case = FIRST["transformer"]
    model = build(case)
    examples = [source(case, model, n) for n in (7, 11, 17)]
    graph = generator_graphs(model, examples, positions=3000, fold=False).encoder
    stored = stored_graph(graph, model, model.state_dict().keys())
    tables = [one["sinusoid"] for one in stored["constants"].values() if "sinusoid" in one]
    assert tables == [[3000, model.embed_source.weight.shape[1], "interleaved"]]


def test_a_large_constant_that_is_no_weight_is_refused():
    case = FIRST["rnnsearch"]
    model = build(case)
    examples = [source(case, model, n) for n in (7, 11, 17)]
    graph = generator_graphs(model, examples, fold=False).encoder
    graph.constants["stray"] = np.zeros((200, 200), np.float32)
    with pytest.raises(RequestError, match="a constant of 160000 bytes is not one of the model"):
        stored_graph(graph, model, model.state_dict().keys())
