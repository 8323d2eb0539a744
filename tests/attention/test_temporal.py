"""All steps at once are one step after the other, and the printed equation."""

import numpy as np
import pytest
import torch

from regard.attention import Attention, Dot, IntraTemporal, Lengths, TemporalSoftmax


def test_it_is_the_printed_equation():
    e = np.random.default_rng(1).normal(size=(5, 4))
    expected = np.exp(e)
    for t in range(1, 5):
        expected[t] /= np.exp(e[:t]).sum(0)
    expected /= expected.sum(1, keepdims=True)
    found = TemporalSoftmax()(torch.from_numpy(e))[0].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_all_steps_at_once_are_one_after_the_other(scale):
    torch.manual_seed(1)
    query, key = scale * torch.randn(2, 6, 3).double(), torch.randn(2, 5, 3).double()
    key.requires_grad_()
    stepwise = Attention(Dot(), carry=IntraTemporal())
    whole = Attention(Dot(), select=TemporalSoftmax())
    mask, state, weights = Lengths(torch.tensor([5, 3])), None, []
    memory = stepwise.remember(key, mask=mask)
    for t in range(6):
        found = stepwise(query[:, t : t + 1], memory, state=state, need_weights=True)
        state = found.state
        weights.append(found.weights)
    all_at_once = whole(query, key, key, mask=mask, need_weights=True).weights
    torch.testing.assert_close(all_at_once, torch.cat(weights, 1), rtol=0, atol=1e-10)
    some = torch.randn_like(all_at_once)
    one, two = (
        torch.autograd.grad((w * some).sum(), key)[0] for w in (all_at_once, torch.cat(weights, 1))
    )
    torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-10 * scale)
    assert one.isfinite().all()


def test_later_steps_change_no_earlier_one_and_half_precision_is_summed_in_float32():
    scores = torch.randn(3, 7, 4)
    changed = scores.clone()
    changed[:, 4:] += 5
    one, two = (TemporalSoftmax()(s)[0] for s in (scores, changed))
    assert torch.equal(one[:, :4], two[:, :4])
    low = TemporalSoftmax()(scores.bfloat16())[0]
    assert low.dtype == torch.bfloat16
    assert (low.float() - TemporalSoftmax()(scores.bfloat16().float())[0]).abs().max() < 4e-3
