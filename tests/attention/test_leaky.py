"""The score of GATv2 over edges: blocks, gradients and second derivatives are the plain form's."""

import pytest
import torch

from regard.attention import Edges, LeakyAdditive, attend, kernels
from regard.attention._kernels import edge_blocks, leaky_edges
from regard.errors import RequestError

NODES, DIM = 9, 4


def graph():
    pairs = torch.unique(
        torch.randint(NODES, (2, 30), generator=torch.Generator().manual_seed(1)), dim=1
    )
    return Edges.of(pairs, NODES, loops=True)


@pytest.mark.parametrize("heads", [None, 3])
def test_edges_are_the_dense_form(heads, monkeypatch):
    monkeypatch.setattr(edge_blocks, "BLOCK", 40)  # a few edges at once
    torch.manual_seed(2)
    lead = () if heads is None else (heads,)
    query, key, value = (torch.randn(*lead, NODES, DIM, dtype=torch.float64) for _ in range(3))
    score = LeakyAdditive(DIM, heads=heads).double()
    found = []
    for kernel in ("segment", "reference"):
        given = [x.clone().requires_grad_() for x in (query, key, value)]
        score.zero_grad()
        with kernels(kernel):
            context = attend(*given, score=score, mask=graph()).context
        context.square().sum().backward()
        found.append([context, *(x.grad for x in given), score.v.grad.clone()])
    for ours, dense in zip(*found, strict=True):
        torch.testing.assert_close(ours, dense)


def test_second_derivatives():
    torch.manual_seed(3)
    query, key = (torch.randn(NODES, DIM, dtype=torch.float64, requires_grad=True) for _ in "qk")
    v = torch.randn(DIM, dtype=torch.float64, requires_grad=True)
    edges = graph()
    assert torch.autograd.gradgradcheck(
        lambda q, k, w: leaky_edges.edge_leaky(q, k, w, 0.2, edges).square(), (query, key, v)
    )


@pytest.mark.parametrize(
    ("heads", "shape", "why"),
    [
        (None, (5, 3), r"queries \(\*batch, nodes, 4\), got \(5, 3\)"),
        (2, (5, 4), r"queries \(\*batch, 2, nodes, 4\), got \(5, 4\)"),
    ],
)
def test_rows_of_another_size_are_refused(heads, shape, why):
    with pytest.raises(RequestError, match=why):
        LeakyAdditive(4, heads=heads)(torch.randn(shape), torch.randn(shape))
    with pytest.raises(RequestError, match="a slope of 0 or more, got -1"):
        LeakyAdditive(4, slope=-1)
