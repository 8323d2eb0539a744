"""The marginals of a chain of binary choices against all choices, one by one, in float64."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import Attention, ChainMarginals, Lengths, attend
from regard.errors import RequestError
from regard.layers.crf import Chain, marginals

MOVES = ((0.7, -1.2), (-0.4, 1.5))


def by_hand(scores, moves):
    """The definition, over all 2 ** K choices."""
    total, chosen = 0.0, np.zeros(len(scores))
    for z in itertools.product((0, 1), repeat=len(scores)):
        score = sum(e * one for e, one in zip(scores, z, strict=True))
        score += sum(moves[a][b] for a, b in itertools.pairwise(z))
        total += np.exp(score)
        chosen += np.exp(score) * np.array(z)
    return chosen / total


@settings(max_examples=60, deadline=None)
@given(
    batch=st.sampled_from([(), (2,), (2, 3)]),
    queries=st.integers(1, 3),
    keys=st.integers(1, 7),
    spread=st.sampled_from([0.1, 1.0, 20.0]),
    masked=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_weights_are_the_marginals_of_all_choices(batch, queries, keys, spread, masked, seed):
    torch.manual_seed(seed)
    scores = spread * torch.randn(*batch, queries, keys, dtype=torch.float64)
    moves = (2 * torch.randn(2, 2)).tolist()
    mask = torch.rand(queries, keys) > 0.4 if masked else None
    weights, log_prob = ChainMarginals(moves)(scores, mask=mask)
    assert log_prob is None
    allowed = np.ones((*scores.shape,), dtype=bool)
    if mask is not None:
        allowed &= mask.numpy()
    rows = zip(
        scores.reshape(-1, keys).numpy(),
        allowed.reshape(-1, keys),
        weights.detach().reshape(-1, keys).numpy(),
        strict=True,
    )
    for row, may, found in rows:
        expected = np.zeros(keys)
        if may.any():
            expected[may] = by_hand(row[may], moves)  # without the masked keys
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_gradients_reach_scores_and_transitions_and_can_be_differentiated_again():
    torch.manual_seed(3)
    select = ChainMarginals(MOVES).double()
    scores = (2 * torch.randn(2, 3, 5, dtype=torch.float64)).requires_grad_()
    moves = select.transitions.detach().clone().requires_grad_()
    mask = torch.rand(2, 3, 5) > 0.3
    mask[0, 1] = False

    def weights(scores, moves):
        given = {"transitions": moves}
        return torch.func.functional_call(select, given, (scores,), {"mask": mask})[0]

    assert torch.autograd.gradcheck(weights, (scores, moves))
    assert torch.autograd.gradgradcheck(weights, (scores, moves))


def test_without_transitions_keys_are_independent():
    scores = torch.randn(2, 3, 40)
    torch.testing.assert_close(ChainMarginals()(scores)[0], torch.sigmoid(scores))


def test_it_is_the_linear_chain_with_two_tags():
    torch.manual_seed(5)
    for keys in (1, 8, 300):
        scores = 3 * torch.randn(4, keys)
        chain = Chain(torch.tensor(MOVES).double(), torch.zeros(2), torch.zeros(2))
        both = torch.stack([torch.zeros_like(scores), scores], -1).double()
        right = marginals(both, chain, torch.full((4,), keys))[..., 1]
        found, _ = ChainMarginals(MOVES)(scores)
        torch.testing.assert_close(found, right.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_extreme_scores_empty_rows_and_low_precision(dtype):
    layer = Attention(select=ChainMarginals(MOVES)).to(dtype)
    x = [(40 * torch.randn(3, n, 4)).to(dtype).requires_grad_() for n in (2, 5, 5)]
    got = layer(*x, mask=Lengths(torch.tensor([0, 5, 2])), need_weights=True)
    assert got.context.dtype == dtype
    assert (got.context[0] == 0).all()
    assert (got.weights[0] == 0).all()
    assert (got.weights[2, :, 2:] == 0).all()
    assert ((got.weights >= 0) & (got.weights <= 1)).all()
    got.context.float().sum().backward()
    assert all(t.grad.isfinite().all() for t in x)
    far = torch.tensor([[1e4, -torch.inf, 3e38, 0.0, torch.inf]], requires_grad=True)
    weights, _ = ChainMarginals(MOVES)(far)
    right = torch.tensor(by_hand(np.array([50.0, -50.0, 50.0, 0.0, 50.0]), MOVES))
    torch.testing.assert_close(weights[0].double(), right, rtol=1e-5, atol=1e-6)
    weights[0, 3].backward()
    assert far.grad.isfinite().all()


def test_attracting_neighbors_make_segments():
    scores = torch.tensor([[3.0, -1.0, 3.0, -9.0, -9.0, -1.0]])
    alone, _ = ChainMarginals()(scores)
    together, _ = ChainMarginals(((1.5, -1.5), (-1.5, 1.5)), learned=False)(scores)
    assert alone[0, 1] < 0.5 < together[0, 1]  # between two that are chosen
    assert together[0, 5] < alone[0, 5]  # beside one that is not
    select = ChainMarginals(MOVES, learned=False)
    assert not list(select.parameters())
    assert list(select.state_dict()) == ["transitions"]
    assert repr(select) == "ChainMarginals(learned=False)"
    values = torch.randn(1, 6, 4)
    context = attend(torch.randn(1, 1, 4), values, select=select).context
    assert context.shape == (1, 1, 4)


def test_other_transitions_are_refused():
    for wrong in ((), ((0.0, 1.0),), ((0.0, 1.0), (1.0, 0.0, 1.0))):
        with pytest.raises(RequestError, match=r"transitions \(\(A_00, A_01\), \(A_10, A_11\)\)"):
            ChainMarginals(wrong)
