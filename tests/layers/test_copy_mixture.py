"""Mixtures of writing and copying against sums of probabilities in NumPy."""

import numpy as np
import pytest
import torch

from regard.layers.copy_mixture import DeferredMixture, mixed_log_prob, mixture, target_log_prob
from regard.layers.deferred_logits import deferring
from regard.losses.smoothed_cross_entropy import smoothed_cross_entropy

V, W = 7, 2
COPIES = torch.tensor([[5, 8, 5, 7, 2], [4, 7, 2, 0, 0]])  # ids 7 and 8 are the examples' own


def given(seed=1, dtype=torch.float64):
    torch.manual_seed(seed)
    weights = torch.randn(2, 3, 5, dtype=dtype).masked_fill(COPIES[:, None] == 0, -torch.inf)
    logits, switch = torch.randn(2, 3, V, dtype=dtype), torch.randn(2, 3, dtype=dtype)
    return logits.requires_grad_(), weights.softmax(-1).requires_grad_(), switch.requires_grad_()


def expected(logits, weights, switch):
    """Probabilities word by word."""
    out = np.zeros((2, 3, V + W))
    for b in range(2):
        for t in range(3):
            e = np.exp(logits[b, t])
            u = 1 / (1 + np.exp(-switch[b, t]))
            out[b, t, :V] = (1 - u) * e / e.sum()
            for i, word in enumerate(COPIES[b].tolist()):
                out[b, t, word] += u * weights[b, t, i]
    return out


def test_it_adds_what_is_written_and_what_is_copied():
    parts = given()
    found = mixed_log_prob(*parts, COPIES, V + W).exp()
    true = expected(*(p.detach().numpy() for p in parts))
    np.testing.assert_allclose(found.detach().numpy(), true, atol=1e-14)
    assert found[1, :, 8].tolist() == [0, 0, 0]  # a word of the other example
    np.testing.assert_allclose(found.sum(-1).detach().numpy(), 1, atol=1e-12)


@pytest.mark.parametrize("target", [[[5, 8, 2], [4, 7, 0]], [[1, 3, 7], [7, 2, 6]]])
def test_the_cheap_form_gives_the_same_and_the_same_gradients(target):
    target = torch.tensor(target)
    found = []
    for deferred in (True, False):
        parts = given()
        with deferring(deferred):
            scores = mixture(*parts, COPIES, V + W)
        assert isinstance(scores, DeferredMixture) == deferred
        loss = smoothed_cross_entropy(scores, target, normalized=True)
        found.append([loss, *torch.autograd.grad(loss, parts)])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)
        assert one.isfinite().all()


def test_smoothing_of_a_deferred_mixture_is_that_of_a_whole_one():
    target = torch.tensor([[5, 8, 2], [4, 7, 0]])
    with deferring():
        one = smoothed_cross_entropy(mixture(*given(), COPIES, V + W), target, 0.1, normalized=True)
    two = smoothed_cross_entropy(mixture(*given(), COPIES, V + W), target, 0.1, normalized=True)
    torch.testing.assert_close(one, two)


def test_extreme_scores_stay_finite():
    logits, weights, switch = given(dtype=torch.float32)
    sharp = torch.zeros_like(weights)
    sharp[..., 0] = 1  # nothing is left for other places
    for s in (-200.0, 200.0):
        own = (logits * 300).detach().requires_grad_(), sharp.clone().requires_grad_()
        odds = torch.full_like(switch, s, requires_grad=True)
        scores = target_log_prob(*own, odds, COPIES, torch.tensor([[5, 8, 7], [4, 7, 6]]))
        assert scores.isfinite().all()
        grads = torch.autograd.grad(scores.sum(), [*own, odds])
        assert all(g.isfinite().all() for g in grads)


def test_a_word_that_is_nowhere_has_no_probability_and_a_gradient_of_zero():
    parts = given()
    scores = target_log_prob(*parts, COPIES, torch.tensor([[5, 5, 5], [8, 8, 8]]))
    assert scores[1].tolist() == [-torch.inf] * 3
    grads = torch.autograd.grad(
        scores[0].sum() + scores[1].masked_fill(scores[1] < -99, 0).sum(), parts
    )
    assert all(g.isfinite().all() for g in grads)
    assert all(not g[1].any() for g in grads)
