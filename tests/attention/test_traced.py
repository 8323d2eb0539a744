"""The operators of local and graph attention: their promises, exported graphs, autocast."""

import pytest
import torch

from regard import native
from regard.attention import (
    Attention,
    Dot,
    Edges,
    General,
    Lengths,
    LocalMonotonic,
    LocalPredictive,
    SplitLinear,
    explain,
    kernels,
)
from regard.attention._kernels import edges, local

needs_c = pytest.mark.skipif(native.library() is None, reason="no compiled library")


def a_graph(nodes=9, count=30):
    generator = torch.Generator().manual_seed(1)
    return Edges.of(torch.randint(nodes, (2, count), generator=generator), nodes, loops=True)


class Local(torch.nn.Module):
    """Luong's local-p, or local-m over sentences of some length."""

    def __init__(self, predicted):
        super().__init__()
        if predicted:
            self.attention = Attention(General(6, 6), select=LocalPredictive(6, 4, 2))
        else:
            self.attention = Attention(Dot(), select=LocalMonotonic(2))

    def forward(self, x, lengths):
        return self.attention(x, x, mask=Lengths(lengths)).context


class Graph(torch.nn.Module):
    """Graph attention over the edges that it was made with."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph
        self.attention = Attention(SplitLinear(4, 4, heads=2))

    def forward(self, x):
        return self.attention(x, x, mask=self.graph).context


def dense(*shape):
    return torch.randn(*shape, requires_grad=True)


def strided(*shape):
    """What a transposed projection gives: not contiguous."""
    *batch, n, d = shape
    return torch.randn(*batch, d, n).transpose(-1, -2).requires_grad_()


@needs_c
@pytest.mark.parametrize(
    ("make", "masked", "sigma"),
    [
        pytest.param(make, masked, sigma, marks=() if near == masked else pytest.mark.slow)
        for near, make in ((False, strided), (True, dense))
        for masked in (False, True)
        for sigma in (0.0, 1.5)
    ],
)
def test_the_operators_of_local_attention_keep_their_promises(make, masked, sigma):
    """Fake tensors, autograd and schema as `torch.library` checks them."""
    query, key, value = make(2, 5, 6), make(2, 9, 6), make(2, 9, 3)
    center = (9 * torch.rand(2, 5)).requires_grad_(sigma > 0)
    kept = torch.rand(2, 9) > 0.3 if masked else None
    arguments = (query, key, value, center, kept, 2, 0.5, sigma)
    torch.library.opcheck(local._forward, arguments)
    given = [x.detach() if isinstance(x, torch.Tensor) else x for x in arguments]
    torch.library.opcheck(local._backward, (strided(2, 5, 3).detach(), *given))


@needs_c
@pytest.mark.parametrize(
    ("count", "rate"),
    [
        (30, 0.4),
        (200, 0.0),
        pytest.param(30, 0.0, marks=pytest.mark.slow),
        pytest.param(200, 0.4, marks=pytest.mark.slow),
    ],
)
def test_the_operators_of_graph_attention_keep_their_promises(count, rate):
    """With many edges values are filled up to whole vectors on the way."""
    graph = a_graph(count=count)
    left, right, value = strided(2, 9, 3), strided(2, 9, 3), strided(2, 9, 3, 5)
    seed = torch.tensor([7])
    reversed_ = (graph.back(9), *graph.reversed)
    arguments = (left, right, value, seed, graph.offsets, graph.narrow, *reversed_, 0.2, rate)
    torch.library.opcheck(edges._forward, arguments)
    given = [x.detach() if isinstance(x, torch.Tensor) else x for x in arguments]
    context, stats = edges._forward(*given)
    grad = strided(2, 9, 3, 5).detach()
    tensors = (grad, context, stats, *given[:4], *reversed_, 0.2, rate)
    torch.library.opcheck(edges._backward, tensors)


@needs_c
@pytest.mark.nohook
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("predicted", [True, False])
def test_local_attention_exports(predicted, strict):
    model, lengths = Local(predicted).eval(), torch.tensor([20, 7])
    x = torch.randn(2, 20, 6)
    program = torch.export.export(model, (x, lengths), strict=strict)
    assert any("regard.local" in str(node.target) for node in program.graph.nodes)
    for other in (lengths, torch.tensor([3, 0])):
        torch.testing.assert_close(program.module()(x, other), model(x, other))


@needs_c
@pytest.mark.nohook
@pytest.mark.parametrize("strict", [True, False])
def test_graph_attention_exports(strict):
    graph, x = a_graph(), torch.randn(2, 9, 4)
    model = Graph(graph).eval()
    expected = model(x)
    program = torch.export.export(model, (x,), strict=strict)
    assert any("regard.edges" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(x), expected)
    y = torch.randn(2, 9, 4)
    torch.testing.assert_close(program.module()(y), model(y))


@pytest.mark.parametrize("backend", ["C", "PyTorch"])
@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["local", "edges"])
def test_under_autocast_it_is_what_the_reference_is(kind, low, backend, monkeypatch):
    if backend == "C" and native.library() is None:
        pytest.skip("no compiled library")
    if backend == "PyTorch":
        monkeypatch.setattr({"local": local, "edges": edges}[kind], "_available", lambda: False)
    if kind == "local":
        model, given = Local(True), (torch.tensor([20, 7]),)
        x = torch.randn(2, 20, 6, requires_grad=True)
    else:
        model, given = Graph(a_graph()), ()
        x = torch.randn(2, 9, 4, requires_grad=True)
    with torch.autocast("cpu", low):
        found = model(x, *given)
        if kind == "local":
            assert explain(model)["attention"].kernel == "local"
        with kernels("reference"):
            expected = model(x, *given)
    assert found.dtype == torch.float32  # of the values
    torch.testing.assert_close(found, expected.float(), atol=3e-2, rtol=3e-2)
    found.square().sum().backward()
    assert x.grad.isfinite().all()
    assert x.grad.abs().sum() > 0
