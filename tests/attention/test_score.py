"""Every score against its equation, written out in NumPy."""

import numpy as np
import pytest
import torch

from regard.attention import (
    Additive,
    Attention,
    Cosine,
    Dot,
    General,
    Location,
    ScaledDot,
    kernels,
)
from tests.attention.reference import slow_attend

B, Q, K, D = 2, 3, 5, 4


def equation(score):
    """The score as a function of one query and one key."""
    if isinstance(score, ScaledDot):
        return lambda q, k, j: q @ k / np.sqrt(len(q))
    if isinstance(score, Dot):
        return lambda q, k, j: score.scale * (q @ k)
    if isinstance(score, General):
        w = score.project.weight.detach().numpy()
        return lambda q, k, j: (w @ q) @ k
    if isinstance(score, Cosine):
        return lambda q, k, j: score.scale * (q @ k) / np.linalg.norm(q) / np.linalg.norm(k)
    if isinstance(score, Location):
        w = score.table.weight.detach().numpy()
        return lambda q, k, j: w[j] @ q if j < len(w) else -np.inf
    w, u = score.query.weight.detach().numpy(), score.key.weight.detach().numpy()
    b = 0 if score.key.bias is None else score.key.bias.detach().numpy()
    v = score.v.detach().numpy()
    return lambda q, k, j: v @ np.tanh(w @ q + u @ k + b)


SCORES = {
    "dot": lambda: Dot(),
    "dot scaled by 3": lambda: Dot(3.0),
    "scaled dot": lambda: ScaledDot(),
    "general": lambda: General(D, D),
    "cosine": lambda: Cosine(scale=5.0),
    "additive": lambda: Additive(D, D, 6),
    "additive with bias": lambda: Additive(D, D, 6, bias=True),
    "location": lambda: Location(D, 9),
    "location, short table": lambda: Location(D, 3),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("kernel", [None, "reference"])
def test_score_is_its_equation(name, kernel):
    torch.manual_seed(0)
    layer = Attention(SCORES[name]()).double()
    query, key, value = (torch.randn(B, n, D, dtype=torch.float64) for n in (Q, K, K))
    mask = torch.rand(B, Q, K) > 0.3
    mask[0, 1] = False
    with np.errstate(all="ignore"):
        context, weights = slow_attend(
            query.numpy(), key.numpy(), value.numpy(), equation(layer.score), mask.numpy()
        )
    if kernel:
        with kernels(kernel):
            got = layer(query, key, value, mask=mask)
    else:
        got = layer(query, key, value, mask=mask)
    # A location table that ends before any allowed key leaves -inf everywhere: zeros there.
    np.testing.assert_allclose(got.context.detach().numpy(), np.nan_to_num(context), atol=1e-12)
    seen = layer(query, key, value, mask=mask, need_weights=True).weights
    np.testing.assert_allclose(seen.detach().numpy(), np.nan_to_num(weights), atol=1e-12)


def test_zero_vector_has_cosine_zero_and_finite_gradients():
    query = torch.zeros(1, 1, 4, requires_grad=True)
    key = torch.randn(1, 3, 4)
    score = Cosine()
    scores = score(query, score.prepare(key))
    scores.sum().backward()
    assert (scores == 0).all()
    assert query.grad.isfinite().all()


def test_additive_is_luongs_concat():
    """v^T tanh(W_a [h; s]) with W_a = [W U]."""
    torch.manual_seed(0)
    score = Additive(3, 5, 7).double()
    query, key = torch.randn(2, 4, 3).double(), torch.randn(2, 6, 5).double()
    both = torch.cat([score.query.weight, score.key.weight], 1)
    pairs = torch.cat(
        [query[:, :, None].expand(-1, -1, 6, -1), key[:, None].expand(-1, 4, -1, -1)], -1
    )
    expected = torch.tanh(pairs @ both.T) @ score.v
    torch.testing.assert_close(score(query, score.prepare(key)), expected)


def test_features_of_a_carry_reach_the_score():
    """Coverage: what was looked at before changes what is looked at next."""
    from regard.attention import Coverage

    torch.manual_seed(0)
    score = Additive(D, D, 6, features=1).double()
    layer = Attention(score, carry=Coverage())
    query, key = torch.randn(B, 1, D).double(), torch.randn(B, K, D).double()
    state, covered = None, torch.zeros(B, 1, K).double()
    for _ in range(3):
        hidden = score.query(query)[:, :, None] + score.key(key)[:, None]
        hidden = hidden + covered[..., None] * score.features.weight[:, 0]
        expected = torch.softmax(torch.tanh(hidden) @ score.v, -1)
        got = layer(query, key, state=state, need_weights=True)
        state = got.state
        torch.testing.assert_close(got.weights, expected)
        covered = covered + expected
        torch.testing.assert_close(state.value, covered)
