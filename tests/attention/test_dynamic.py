"""Exported graphs take other batches and lengths than those they were made of."""

import pytest
import torch

from regard.attention import (
    Additive,
    Attention,
    Causal,
    Documents,
    Edges,
    Lengths,
    LocalMonotonic,
    LocalPredictive,
    LocationAware,
    MultiHead,
    NegativeSquaredEuclidean,
    PreviousWeights,
    RelativeKeys,
    Rotary,
    Window,
)

D, N = 8, 12
LAYERS = {
    "dot": lambda: Attention(),
    "squared distance": lambda: Attention(NegativeSquaredEuclidean()),
    "window": lambda: Attention(mask=Window(2, 2)),
    "rotary": lambda: Attention(position=Rotary()),
    "local-m": lambda: Attention(select=LocalMonotonic(2)),
    "local-p": lambda: Attention(select=LocalPredictive(D, 4, 2)),
    "additive": lambda: Attention(Additive(D, D, 5)),
    "relative": lambda: Attention(RelativeKeys(D, 2)),
    "heads": lambda: MultiHead(D, 2),
    "location-aware": lambda: Attention(
        LocationAware(D, D, 5, filters=2, width=15), carry=PreviousWeights(0)
    ),
}
ALIKE = {"squared distance", "rotary", "local-m"}
"""The tracer, which takes most of the time, reads of these what it reads of the others."""
BY_DYNAMO = {"window", "additive", "location-aware"}
"""What is exported by Dynamo in the fast suite; others are there without it."""
GRAPH = Edges.of(torch.randint(N, (2, 30), generator=torch.Generator().manual_seed(1)), N)
FIXED = {
    "documents": lambda: Attention(mask=Documents(torch.tensor([0] * 5 + [1] * 7)) & Causal()),
    "edges, dot": lambda: Attention(mask=GRAPH),
    "edges, additive": lambda: Attention(Additive(D, D, 5), mask=GRAPH),
}


class Padded(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, query, key, lengths):
        return self.attention(query, key, mask=Lengths(lengths)).context


@pytest.mark.nohook
@pytest.mark.parametrize(
    ("name", "strict"),
    [
        pytest.param(
            name,
            strict,
            marks=[pytest.mark.slow] if name in ALIKE or (name in BY_DYNAMO) != strict else [],
        )
        for name in LAYERS
        for strict in (True, False)
    ],
)
@torch.no_grad()
def test_any_batch_and_any_lengths(name, strict):
    if name == "heads" and strict:
        pytest.skip("Dynamo sees a plain tensor, and fixes whether a product is a large one")
    if name == "location-aware" and strict and torch.__version__.startswith("2.11."):
        pytest.xfail("Dynamo of PyTorch 2.11 cannot look at the settings of a carry")
    model = Padded(LAYERS[name]()).eval()
    batch, queries, keys = (torch.export.Dim(n, min=2, max=64) for n in ("b", "q", "k"))
    shapes = {0: batch, 1: queries}, {0: batch, 1: keys}, {0: batch}
    given = torch.randn(2, 9, D), torch.randn(2, N, D), torch.tensor([N, 7])
    program = torch.export.export(model, given, dynamic_shapes=shapes, strict=strict).module()
    torch.testing.assert_close(program(*given), model(*given))
    for b, q, k in ((3, 4, 20), (5, 20, 3)):
        given = torch.randn(b, q, D), torch.randn(b, k, D), torch.tensor([k, 2, 0, 1, k])[:b]
        torch.testing.assert_close(program(*given), model(*given))


@pytest.mark.nohook
@pytest.mark.parametrize("name", FIXED)
@torch.no_grad()
def test_any_batch_of_one_structure(name):
    attention = FIXED[name]().eval()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x):
            return self.attention(x, x).context

    attention(torch.randn(2, N, D), torch.randn(2, N, D))  # what is known of a graph is kept
    batch = torch.export.Dim("b", min=2, max=64)
    program = torch.export.export(Model(), (torch.randn(2, N, D),), dynamic_shapes=({0: batch},))
    for b in (2, 3, 7):
        x = torch.randn(b, N, D)
        torch.testing.assert_close(program.module()(x), attention(x, x).context)
