"""Pointer, gather and the options of the weighted sum."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import (
    Additive,
    Attention,
    Causal,
    Gather,
    Hard,
    Lengths,
    MultiHead,
    Pointer,
    Smooth,
    Softmax,
    TopK,
    Uniform,
    WeightedSum,
    attend,
    kernels,
)
from regard.errors import RequestError


@settings(max_examples=40)
@given(
    batch=st.sampled_from([(), (2,), (2, 3)]),
    queries=st.integers(1, 4),
    keys=st.integers(1, 6),
    shared=st.booleans(),
    masked=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_gather_reads_the_one_chosen_value(batch, queries, keys, shared, masked, seed):
    torch.manual_seed(seed)
    query, key = torch.randn(*batch, queries, 4), torch.randn(*batch, keys, 4)
    value = torch.randn(*(() if shared else batch), keys, 3, requires_grad=True)
    mask = torch.rand(*batch, queries, keys) > 0.5 if masked else None
    parts = {"select": Hard(), "mask": mask, "need_weights": True}
    got = attend(query, key, value, read=Gather(), **parts)
    torch.testing.assert_close(got.context, got.weights @ value)
    (grad,) = torch.autograd.grad(got.context.square().sum(), value, retain_graph=True)
    (expected,) = torch.autograd.grad((got.weights @ value).square().sum(), value)
    torch.testing.assert_close(grad, expected)


def test_gather_in_heads():
    layer = MultiHead(8, 2, Attention(select=Hard(), read=Gather()))
    x = torch.randn(3, 5, 8)
    got = layer(x, x, mask=Lengths(torch.tensor([5, 1, 0])), need_weights=True)
    assert got.context.shape == (3, 5, 8)
    assert got.log_prob.shape == (3, 2, 5)
    assert (got.context[2] == 0).all()


@pytest.mark.parametrize("select", [Softmax(0.5), Smooth(), TopK(2)], ids=repr)
@pytest.mark.parametrize("score", ["dot", "additive"])
def test_pointer_gives_the_weights_and_their_logarithms(select, score):
    made = None if score == "dot" else Additive(4, 4, 6)
    layer = Attention(made, select=select, read=Pointer())
    query, key = (torch.randn(2, n, 4, requires_grad=True) for n in (3, 5))
    got = layer(query, key, mask=Lengths(torch.tensor([4, 0])), need_weights=True)
    expected, _ = select(layer.scores(query, key), mask=torch.arange(5) < 4)
    torch.testing.assert_close(got.context[0], expected[0])
    torch.testing.assert_close(got.weights, got.context)
    torch.testing.assert_close(got.log_prob.exp(), got.context)
    assert (got.context[1] == 0).all()
    assert (got.log_prob[1] == -torch.inf).all()
    allowed = got.log_prob[0][got.context[0] > 0]
    allowed.sum().backward()
    assert query.grad.isfinite().all()
    assert key.grad.isfinite().all()
    assert (key.grad[1] == 0).all()


def test_pointing_where_the_weight_is_rounded_to_zero_still_trains():
    query = torch.tensor([[[60.0]]], requires_grad=True)
    key = torch.tensor([[[3.0], [-3.0]]])
    got = attend(query, key, read=Pointer())
    assert got.context[0, 0, 1] == 0
    torch.testing.assert_close(got.log_prob[0, 0, 1], torch.tensor(-360.0))
    loss = torch.nn.functional.nll_loss(got.log_prob.flatten(0, -2), torch.tensor([1]))
    loss.backward()
    torch.testing.assert_close(query.grad, torch.full((1, 1, 1), 6.0))


def test_pointer_gradcheck():
    query, key = (torch.randn(1, n, 3, dtype=torch.float64, requires_grad=True) for n in (2, 4))
    mask = torch.tensor([[True, True, False, True], [True] * 4])

    def pointed(query, key):
        return attend(query, key, read=Pointer(), mask=mask).log_prob.masked_fill(~mask, 0.0)

    assert torch.autograd.gradcheck(pointed, (query, key))


@pytest.mark.parametrize("kernel", ["sdpa", "reference"])
@pytest.mark.parametrize(("scale", "power"), [("root length", 0.5), ("length", 1.0), (None, 0.0)])
def test_length_scaling_multiplies_by_a_power_of_how_many_may_be_seen(kernel, scale, power):
    layer = Attention(Uniform(), read=WeightedSum(scale=scale))
    value = torch.randn(3, 6, 4)
    lengths = torch.tensor([6, 4, 0])
    with kernels(kernel):
        whole = layer(value, value)
        got = layer(value, value, mask=Lengths(lengths))
        causal = layer(value, value, mask=Causal())
    torch.testing.assert_close(whole.context[0, 2], 6**power * value[0].mean(0))
    for b, m in enumerate([6, 4]):
        torch.testing.assert_close(got.context[b, 0], m**power * value[b, :m].mean(0))
    assert (got.context[2] == 0).all()
    for i in range(6):
        expected = (i + 1) ** power * value[1, : i + 1].mean(0)
        torch.testing.assert_close(causal.context[1, i], expected)


def test_length_scaling_of_a_convs2s_step():
    """Gehring et al.: c = m sqrt(1/m) sum_j a_j (z_j + e_j)."""
    state, z, e = torch.randn(2, 1, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    lengths = torch.tensor([5, 3])
    layer = Attention(read=WeightedSum(scale="root length"))
    got = layer(state, z, z + e, mask=Lengths(lengths), need_weights=True)
    for b, m in enumerate(lengths.tolist()):
        c = sum(got.weights[b, 0, j] * (z + e)[b, j] for j in range(m))
        torch.testing.assert_close(got.context[b, 0], m * (1 / m) ** 0.5 * c)
        torch.testing.assert_close(got.weights[b].sum(), torch.ones(()))


def test_a_mask_of_one_column_counts_for_every_key():
    allowed = torch.tensor([[[True], [False]]])
    value = torch.randn(1, 3, 2)
    got = attend(
        torch.randn(1, 2, 2), value, mask=allowed, read=WeightedSum(scale="length"), score=Uniform()
    )
    torch.testing.assert_close(got.context[0, 0], value[0].sum(0))
    assert (got.context[0, 1] == 0).all()


@pytest.mark.nohook
def test_an_unknown_scale_is_refused():
    with pytest.raises(RequestError, match='"root length"'):
        WeightedSum(scale="sqrt")
    assert repr(WeightedSum(0.1, scale="length")) == "WeightedSum(dropout=0.1, scale='length')"
