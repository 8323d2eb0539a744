"""Models that answer at once as one ONNX graph: logits of texts and pairs of any length."""

import numpy as np
import pytest
import torch

from regard import catalog
from regard.convert.recorded.readers import reader_graph
from regard.errors import RequestError
from regard.protocols import Inputs
from tests.convert.recorded.test_generators import session

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
WORDS, CLASSES = 40, 5
TEXTS = {
    "att-blstm": {},
    "self-attentive": {},
    "bilstm": {},
    "disan": {},
    "dme": {},
    "dme, contextual": {"mix": "contextual"},
    "attention-via-attention": {},
    "distance-classifier": {},
    "swem": {},
}
PAIRS = {
    "decomposable": {},
    "decomposable, intra": {"distances": 4, "null": False},
    "bilstm-pair": {},
    "self-attentive-pair": {},
    "disan-pair": {},
    "distance": {},
    "dme-pair": {},
    "swem-pair": {},
}
LOOPS = ("lstmn",)
"""Those that step in Python, as often as there are words."""


def build(name, changes, classes=CLASSES):
    torch.manual_seed(2)
    own = name.split(",")[0]
    tiny = {**catalog.entry(own).tiny, **changes}
    model = catalog.load(own)(WORDS, classes, **tiny).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return model


def text(size):
    noise = torch.Generator().manual_seed(size)
    return Inputs(torch.randint(4, WORDS, (1, size), generator=noise), torch.tensor([size]))


def check(model, names, sizes):
    examples = [[text(n) for n in row[: len(names)]] for row in ((7, 6), (11, 13), (17, 9))]
    graph = session(reader_graph(model, examples, names).graph)
    for row in sizes:
        read = [text(n) for n in row[: len(names)]]
        with torch.inference_mode():
            expected = model(*read).logits.numpy()
        given = {name: one.values.numpy() for name, one in zip(names, read, strict=True)}
        np.testing.assert_allclose(graph.run(None, given)[0], expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    check(build(name, TEXTS[name]), ["text"], [(1,), (5,), (33,)])


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name):
    check(build(name, PAIRS[name]), ["a", "b"], [(1, 1), (5, 8), (21, 4), (33, 33)])


@pytest.mark.parametrize("name", LOOPS)
def test_loops_over_words_are_refused(name):
    with pytest.raises(RequestError, match="cannot be recorded: "):
        check(build(name, {}), ["text"], [])
