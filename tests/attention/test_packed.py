"""Ragged batches against a loop over their sequences and against padding."""

import pytest
import torch

from regard.attention import (
    Additive,
    Causal,
    Packed,
    PreviousWeights,
    RelativeKeys,
    Window,
    attend,
    attend_packed,
)
from regard.attention.packed import _padded
from regard.errors import RequestError


def ragged(lengths, *shape):
    return Packed.of([torch.randn(n, *shape).double() for n in lengths])


def test_packing_and_the_way_back():
    x = ragged([3, 0, 5], 2, 4)
    assert x.lengths == (3, 0, 5)
    assert len(x) == 3
    padded = x.padded()
    assert padded.shape == (3, 5, 2, 4)
    assert (padded[0, 3:] == 0).all()
    again = Packed.from_padded(padded, torch.tensor([3, 0, 5]))
    assert torch.equal(again.tensor, x.tensor)
    assert torch.equal(again.offsets, x.offsets)
    assert torch.equal(x.with_tensor(x.tensor * 2).sequences()[2], x.sequences()[2] * 2)


@pytest.mark.parametrize("road", ["slices", "padded"])
@pytest.mark.parametrize("heads", [(), (2,)])
@pytest.mark.parametrize("which", ["plain", "causal", "window", "relative", "additive"])
def test_each_sequence_looks_at_its_own_keys(road, heads, which):
    parts = {
        "plain": {},
        "causal": {"mask": Causal()},
        "window": {"mask": Window(1, 0)},
        "relative": {"score": RelativeKeys(4, 2).double()},
        "additive": {"score": Additive(4, 4, 3).double()},
    }[which]
    query, key, value = (
        ragged([3, 1, 5], *heads, 4),
        ragged([3, 6, 2], *heads, 4),
        ragged([3, 6, 2], *heads, 3),
    )
    if which == "relative":  # a position for each row
        query = ragged([3, 6, 2], *heads, 4)
    for packed in (query, key, value):
        packed.tensor.requires_grad_()
    got = (
        attend_packed(query, key, value, **parts)
        if road == "slices"
        else _padded(query, key, value, parts)
    )
    got.tensor.sum().backward()
    grads = [packed.tensor.grad.clone() for packed in (query, key, value)]
    for packed in (query, key, value):
        packed.tensor.grad = None
    total = 0.0
    for n, (q, k, v) in enumerate(
        zip(query.sequences(), key.sequences(), value.sequences(), strict=True)
    ):
        q, k, v = ((x.transpose(0, 1) if heads else x)[None] for x in (q, k, v))
        context = attend(q, k, v, **parts).context[0]
        context = context.transpose(0, 1) if heads else context
        torch.testing.assert_close(got.sequences()[n], context)
        total = total + context.sum()
    total.backward()
    for packed, grad in zip((query, key, value), grads, strict=True):
        torch.testing.assert_close(grad, packed.tensor.grad)


def test_empty_sequences_are_nothing_or_zeros():
    x = ragged([0, 4, 0], 4)
    assert attend_packed(x, x).tensor.shape == (4, 4)
    y = ragged([2, 4, 0], 4)
    context = attend_packed(y, x).tensor
    assert (context[:2] == 0).all()
    none = ragged([0], 4)
    assert attend_packed(none, none).tensor.shape == (0, 4)


def test_what_is_refused():
    x, y = ragged([3, 2], 4), ragged([5], 4)
    with pytest.raises(RequestError, match="as many sequences"):
        attend_packed(x, y)
    with pytest.raises(RequestError, match="rise from 0 to 5"):
        Packed(torch.zeros(5, 2), torch.tensor([0, 4]))
    with pytest.raises(RequestError, match="at least one sequence"):
        Packed.of([])
    with pytest.raises(RequestError, match="takes no carry"):
        attend_packed(x, x, carry=PreviousWeights())
