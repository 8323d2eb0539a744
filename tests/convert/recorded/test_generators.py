"""Every generator as ONNX graphs: scores and states are the model's, at sizes never recorded."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from regard.convert.recorded.generators import generator_graphs, joined_frames
from regard.errors import RequestError
from regard.protocols import BOS, UNK, Inputs
from tests.decode.program import zoo

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

WIDE = zoo.Case("arsg", {"width": 41})
"""Its window of locations is wider than any source here."""
READING = [*(case for case in zoo.CASES if case.name not in zoo.LANGUAGE_MODELS), WIDE]
FIRST = {case.name: case for case in reversed(READING)}
"""One form of each model; more are in the slow suite."""
OTHERS = (
    "local-p",
    "location",
    "shaw",
    "lengths",
    "convolution",
    "content",
    "no copies",
    "reversed",
)
QUICK = [
    case for case in READING if case in FIRST.values() or any(word in str(case) for word in OTHERS)
]


def cases(stored):
    """Every second quick form is run by ONNX Runtime, the others by NumPy (`stored`).

    The rest is in the slow suite: both run what was recorded in the same way.
    """
    return [
        pytest.param(
            case,
            id=str(case),
            marks=() if case in QUICK and QUICK.index(case) % 2 == stored else pytest.mark.slow,
        )
        for case in READING
    ]


def session(graph):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(graph.model("test").SerializeToString(), options)


def source(case, model, size):
    """One source without padding."""
    made = case.source(1, size * joined_frames(model), 5 + size)
    if case.name == "show-attend-tell":
        return made
    return Inputs(made.values, torch.tensor([made.values.shape[1]]), made.extras)


def build(case):
    model = case.build()
    torch.manual_seed(3)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))  # nothing is near zero
    return model


def graphs_of(case, model):
    return generator_graphs(model, [source(case, model, n) for n in (7, 11, 17)], positions=64)


def run(one, given):
    names = [output.name for output in one.get_outputs()]
    return dict(zip(names, one.run(None, given), strict=True))


def same(found, expected):
    expected = expected.numpy()
    real = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), real)
    largest = max(1.0, np.abs(expected[real]).max())
    np.testing.assert_allclose(found[real], expected[real], atol=2e-5 * largest, rtol=0)


@torch.inference_mode()
def compare_steps(case, model, graphs, encode, step):
    """Compare the scores of graphs with the model's, step by step, beams re-ordered."""
    for size in (6, 13):
        one = source(case, model, size)
        given = {"source": one.values.numpy(), **{k: x.numpy() for k, x in one.extras.items()}}
        found = encode(given)
        logits, decoding = model.step(torch.full((1, 1), BOS), model.start(model.encode(one)))
        same(found["logits"], logits)
        memories = {name: found[name] for name in graphs.memories}
        states = {name: found[name] for name in graphs.states}
        width = 1
        for t in range(1, 6):  # bytenet has that many columns of the shorter source
            order = torch.arange(3 + t % 2).flip(0) % width
            tokens = (UNK + 1 + 5 * t + torch.arange(len(order)))[None] % zoo.WORDS
            logits, decoding = model.step(tokens, decoding.select(order[None]))
            states = {name: x[:, order.numpy()] for name, x in states.items()}
            found = step({"tokens": tokens.numpy(), "step": np.array(t), **memories, **states})
            same(found["logits"], logits)
            states = {name: found[f"next_{name}"] for name in states}
            width = len(order)


@pytest.mark.parametrize("case", cases(stored=False))
def test_steps_are_the_model_s(case):
    model = build(case)
    graphs = graphs_of(case, model)
    encoder, step = session(graphs.encoder), session(graphs.step)
    compare_steps(case, model, graphs, partial(run, encoder), partial(run, step))


def test_limits_are_those_of_tables():
    learned = zoo.Case("transformer", {"position": {"kind": "learned", "max_length": 30}})
    graphs = graphs_of(learned, build(learned))
    assert graphs.source == (1, 30)
    assert graphs.steps == 29
    sinusoid = graphs_of(FIRST["transformer"], build(FIRST["transformer"]))
    assert sinusoid.source[1] >= 64  # the table grew to what was asked for


def test_a_step_that_ends_with_its_source_says_so():
    case = FIRST["bytenet"]
    (condition,) = graphs_of(case, build(case)).conditions
    assert condition == "The step is for `step` < `memory.0.shape[1]`."


class Stubborn(torch.nn.Module):
    """A model whose way depends on what it read."""

    def __init__(self, own):
        super().__init__()
        self.own = own

    def encode(self, source):
        encoded = self.own.encode(source)
        if source.values.shape[1] > 10:
            encoded = encoded._replace(states=encoded.states.tanh())
        return encoded

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("own"), name)


def test_a_way_that_depends_on_the_size_is_refused():
    case = FIRST["rnnsearch"]
    model = Stubborn(build(case)).eval()
    with pytest.raises(RequestError, match="Stubborn cannot be recorded: the way through the code"):
        graphs_of(case, model)


def test_an_operation_without_a_form_is_named(monkeypatch):
    from regard.convert.recorded import generators

    forms = {name: form for name, form in generators.FORMS.items() if name != "softmax"}
    monkeypatch.setattr(generators, "FORMS", forms)
    case = replace(FIRST["rnnsearch"])
    with pytest.raises(RequestError, match=r"onnx: the operation aten\.softmax\.int has no form"):
        graphs_of(case, build(case))
