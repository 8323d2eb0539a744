"""What passes between steps, against the papers' equations, and its way through a beam."""

import numpy as np
import pytest
import torch

from regard.attention import (
    Additive,
    Attention,
    CarryState,
    Coverage,
    IntraTemporal,
    Lengths,
    Location,
    MultiHead,
    PreviousWeights,
    Sparsemax,
)
from regard.errors import RequestError


class Given(torch.nn.Module):
    """Scores that are the queries."""

    def prepare(self, key):
        return key

    def forward(self, query, key, *, at=0, features=None):
        return query


def test_intra_temporal_is_the_papers_fraction():
    scores = np.random.default_rng(1).normal(size=(4, 2, 3, 5))  # steps of (batch, beam, keys)
    layer = Attention(Given(), carry=IntraTemporal())
    key, state = torch.zeros(2, 5, 1, dtype=torch.float64), None
    for t in range(4):
        e = np.exp(scores[t])
        if t > 0:
            e = e / np.exp(scores[:t]).sum(0)
        expected = e / e.sum(-1, keepdims=True)
        got = layer(torch.from_numpy(scores[t]), key, state=state, need_weights=True)
        state = got.state
        np.testing.assert_allclose(got.weights.numpy(), expected, atol=1e-12)


def test_intra_temporal_numbers_of_the_fact_sheet():
    layer = Attention(Given(), carry=IntraTemporal())
    scores, key = torch.tensor([[[3.0, 0.0, 0.0]]]), torch.zeros(1, 3, 1)
    first = layer(scores, key, need_weights=True)
    second = layer(scores, key, state=first.state, need_weights=True)
    expected = torch.tensor([0.909, 0.045, 0.045])
    torch.testing.assert_close(first.weights[0, 0], expected, atol=6e-4, rtol=0)
    torch.testing.assert_close(second.weights[0, 0], torch.full((3,), 1 / 3))


def test_intra_temporal_is_stable_and_has_gradients_through_time():
    layer = Attention(Given(), carry=IntraTemporal())
    key = torch.zeros(2, 4, 1)
    steps = (torch.randn(6, 2, 1, 4) * 500).requires_grad_()
    mask, state, total = Lengths(torch.tensor([4, 0])), None, 0
    for scores in steps:
        got = layer(scores, key, torch.randn(2, 4, 3), state=state, mask=mask)
        state, total = got.state, total + got.context.sum()
        assert (got.context[1] == 0).all()
    total.backward()
    assert total.isfinite()
    assert steps.grad.isfinite().all()


def test_intra_temporal_gradcheck():
    layer = Attention(Given(), carry=IntraTemporal())
    key, value = torch.zeros(1, 3, 1).double(), torch.randn(1, 3, 2).double()

    def run(steps):
        state, seen = None, []
        for scores in steps:
            got = layer(scores, key, value, state=state)
            state = got.state
            seen.append(got.context)
        return torch.stack(seen)

    assert torch.autograd.gradcheck(run, torch.randn(3, 1, 2, 3).double().requires_grad_())


def test_intra_temporal_with_keys_that_a_location_table_does_not_reach():
    layer = Attention(Location(3, 2), carry=IntraTemporal())
    query = torch.randn(1, 1, 3, requires_grad=True)
    key, state = torch.randn(1, 4, 3), None
    for _ in range(3):
        got = layer(query, key, state=state, need_weights=True)
        state = got.state
        assert (got.weights[..., 2:] == 0).all()
    got.context.sum().backward()
    assert query.grad.isfinite().all()


def test_coverage_is_the_sum_of_all_weights_and_reaches_the_score():
    """See et al. 2017, equations 10 and 11."""
    layer = Attention(Additive(3, 4, 5, bias=True, features=1), carry=Coverage()).double()
    score, key = layer.score, torch.randn(2, 6, 4).double()
    state, c = None, np.zeros((2, 1, 6))
    for _ in range(3):
        query = torch.randn(2, 1, 3).double()
        hidden = score.query(query)[:, :, None] + score.key(key)[:, None]
        hidden = hidden.detach().numpy() + c[..., None] * score.features.weight[:, 0].tolist()
        e = np.tanh(hidden) @ score.v.detach().numpy()
        a = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
        got = layer(query, key, state=state, need_weights=True)
        state, c = got.state, c + a
        np.testing.assert_allclose(got.weights.detach().numpy(), a, atol=1e-12)
        np.testing.assert_allclose(state.value.detach().numpy(), c, atol=1e-12)


@pytest.mark.parametrize("first", [None, 0, 3])
def test_previous_weights_begin_nowhere_or_on_one_key(first):
    carry = PreviousWeights(first)
    state = carry.start(torch.randn(2, 3, 4), torch.randn(1, 5, 4))
    expected = torch.zeros(2, 3, 5)
    if first is not None:
        expected[..., first] = 1
    assert torch.equal(state.value, expected)
    assert torch.equal(carry.features(state), expected[..., None])
    layer = Attention(select=Sparsemax(), carry=carry)
    got = layer(torch.randn(2, 3, 4), torch.randn(2, 5, 4), need_weights=True)
    assert torch.equal(got.state.value, got.weights)


@pytest.mark.parametrize("carry", [Coverage(), PreviousWeights(), IntraTemporal()], ids=repr)
def test_queries_in_one_call_are_independent_rows(carry):
    """A beam of three in one call is three calls of one, whatever was re-ordered between."""
    layer = Attention(carry=carry)
    key, state = torch.randn(2, 5, 4), None
    alone = [[None] * 3 for _ in range(2)]
    order = torch.tensor([[2, 0, 0], [1, 1, 2]])
    for _ in range(3):
        query = torch.randn(2, 3, 4)
        got = layer(query, key, state=state)
        for b in range(2):
            for i in range(3):
                one = layer(query[b : b + 1, i : i + 1], key[b : b + 1], state=alone[b][i])
                alone[b][i] = one.state
                torch.testing.assert_close(got.context[b, i], one.context[0, 0])
        state = got.state.select(order)
        alone = [[alone[b][j] for j in order[b].tolist()] for b in range(2)]


def test_states_of_heads_are_reordered_along_the_beam_and_not_along_the_heads():
    layer = MultiHead(8, 4, Attention(carry=Coverage()))
    key, query = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    state = layer(query, key).state
    assert state.value.shape == (2, 4, 3, 5)
    order = torch.tensor([[2, 0], [1, 1]])
    moved = state.select(order)
    assert moved.value.shape == (2, 4, 2, 5)
    for b in range(2):
        for i, j in enumerate(order[b].tolist()):
            assert torch.equal(moved.value[b, :, i], state.value[b, :, j])
    again = layer(query[:, :2], key, state=moved)
    torch.testing.assert_close(again.state.value.sum(-1), torch.full((2, 4, 2), 2.0))
    kept = moved.rows(torch.tensor([1]))
    assert torch.equal(kept.value, moved.value[1:])
    assert kept.heads


def test_hypotheses_may_be_a_batch_axis_too():
    value = torch.randn(2, 3, 1, 5)
    index = torch.tensor([[2, 0], [1, 1]])
    moved = CarryState(value).select(index)
    heads = CarryState(value[:, :, None].expand(2, 3, 4, 1, 5), heads=True).select(index)
    for b in range(2):
        for i, j in enumerate(index[b].tolist()):
            assert torch.equal(moved.value[b, i], value[b, j])
            assert torch.equal(heads.value[b, i], value[b, j].expand(4, 1, 5))
    with pytest.raises(RequestError, match="an index with 3 axes"):
        CarryState(value).select(torch.tensor([0]))
