"""Tiles that are computed again are those of the weights that a watcher would have kept."""

import pytest
import torch

import regard
from regard.attention import (
    Additive,
    Attention,
    Causal,
    Dense,
    Lengths,
    MultiHead,
    Window,
    attend,
)
from regard.errors import RequestError

DRAW = torch.Generator().manual_seed(0)
LONG = Lengths(torch.tensor([[40], [23]]))
EMPTY = Dense(torch.ones(40, 40, dtype=torch.bool).tril(-1))
MASKS = [None, Causal(), Window(3, 2), LONG, Causal() & LONG, EMPTY]


@pytest.mark.parametrize("mask", MASKS)
def test_a_tile_of_products(mask):
    q, k = torch.randn(2, 2, 3, 40, 8, generator=DRAW)
    with regard.watch() as whole, regard.watch(tiles=True) as seen:
        attend(q, k, k, mask=mask)
    expected, again = whole["attend"].weights, seen["attend"].kept[0]
    torch.testing.assert_close(again.dense(), expected)
    for b, h in ((0, 2), (1, 0)):
        for rows, columns in ((slice(7, 21), slice(3, 30)), (slice(0, 40), slice(39, 40))):
            found = again.tile((b, h), rows, columns)
            torch.testing.assert_close(found, expected[b, h, rows, columns])


def test_a_tile_of_other_mechanisms_and_layers():
    x = torch.randn(2, 30, 16, generator=DRAW)
    for layer in (MultiHead(16, 4), Attention(score=Additive(16, 16, hidden=16))):
        with regard.watch(layer) as whole, regard.watch(layer, tiles=True) as seen:
            layer(x, x)
        again, expected = seen[""].kept[0], whole[""].weights
        at = (1, 2) if isinstance(layer, MultiHead) else (1,)
        found = again.tile(at, slice(4, 9), slice(11, 30))
        torch.testing.assert_close(found, expected[at][4:9, 11:30])
        torch.testing.assert_close(seen[""].of(1), whole[""].of(1))


def test_weights_of_16384_tokens_are_never_stored():
    n = 16_384
    x = torch.randn(1, n, 16, generator=DRAW)
    with regard.watch(tiles=True) as seen:
        attend(x, x, x, mask=Causal())
    again = seen["attend"].kept[0]
    found = again.tile((0,), slice(9000, 9010), slice(8500, 9500))
    scores = (x[0, 9000:9010].double() @ x[0].double().T) / 4
    scores[torch.arange(n) > torch.arange(9000, 9010)[:, None]] = -torch.inf
    expected = scores.softmax(-1)[:, 8500:9500]
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-7)


def test_tiles_are_instead_of_weights():
    with pytest.raises(RequestError, match="without top_k"), regard.watch(tiles=True, top_k=3):
        pass
