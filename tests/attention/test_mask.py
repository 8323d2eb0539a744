"""Masks against their meaning, and their algebra against NumPy's."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import Attention, Block, Causal, Dense, MultiHead, Window

CPU = torch.device("cpu")


@given(st.integers(1, 7), st.integers(1, 9), st.integers(-2, 9), st.data())
def test_window_and_causal_by_their_inequalities(queries, keys, at, data):
    left = data.draw(st.one_of(st.none(), st.integers(0, 5)))
    right = data.draw(st.one_of(st.none(), st.integers(0, 5)))
    window = Window(left, right).dense(queries, keys, at=at, device=CPU).numpy()
    causal = Causal().dense(queries, keys, at=at, device=CPU).numpy()
    for i in range(queries):
        for j in range(keys):
            p = at + i
            inside = (left is None or j >= p - left) and (right is None or j <= p + right)
            assert window[i, j] == inside
            assert causal[i, j] == (j <= p)


def test_a_position_for_each_row():
    at = torch.tensor([0, 3])
    mask = Causal().dense(2, 6, at=at, device=CPU)
    for b in range(2):
        assert torch.equal(mask[b], Causal().dense(2, 6, at=int(at[b]), device=CPU))


def test_algebra():
    torch.manual_seed(0)
    a, b = torch.rand(2, 3, 4) > 0.5, torch.rand(2, 3, 4) > 0.5
    dense = {"queries": 3, "keys": 4, "at": 0, "device": CPU}
    x, y = a.numpy(), b.numpy()
    np.testing.assert_array_equal((Dense(a) & b).dense(**dense), x & y)
    np.testing.assert_array_equal((Dense(a) | Dense(b)).dense(**dense), x | y)
    np.testing.assert_array_equal((~Dense(a) & Dense(b)).dense(**dense), ~x & y)
    index = torch.tensor([1, 1, 0])
    np.testing.assert_array_equal((Dense(a) | b).rows(index).dense(**dense), (x | y)[index])


def test_masks_of_a_batch_reach_every_head():
    torch.manual_seed(0)
    layer = MultiHead(8, 2).double()
    x = torch.randn(3, 5, 8).double()
    dense = torch.rand(3, 5, 5) > 0.4
    per_head = torch.stack([dense, dense], 1)
    one = layer(x, x, mask=dense, need_weights=True)
    two = layer(x, x, mask=per_head, need_weights=True)
    torch.testing.assert_close(one.context, two.context)
    assert ((one.weights == 0) | dense[:, None]).all()
    per_head[:, 1] = True
    assert (layer(x, x, mask=per_head, need_weights=True).weights[:, 1] > 0).all()


def test_masks_of_layer_memory_and_call_combine():
    torch.manual_seed(0)
    layer = Attention(mask=Causal())
    x = torch.randn(2, 5, 4)
    lengths, dense = torch.tensor([5, 2]), torch.rand(2, 5, 5) > 0.3
    got = layer(x, layer.remember(x, mask=lengths), mask=dense, need_weights=True).weights
    allowed = dense & torch.ones(5, 5).tril().bool() & (torch.arange(5) < lengths[:, None])[:, None]
    assert ((got > 0) == allowed).all()


@pytest.mark.parametrize("kind", [Window, Causal, partial(Block, 2)])
def test_a_side_that_int64_cannot_hold_has_no_end(kind):
    endless, plain = kind(left=2**70), kind(left=None)
    for at in (0, torch.tensor([3, 1])):
        found = endless.dense(3, 5, at=at, device=CPU)
        assert torch.equal(found, plain.dense(3, 5, at=at, device=CPU))
