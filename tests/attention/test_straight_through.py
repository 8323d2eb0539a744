"""Straight-through attention: one key forward, the softmax backward."""

import pytest
import torch

from regard.attention import Attention, Hard, Lengths, StraightThrough, attend
from regard.errors import RequestError


def test_the_choice_is_that_of_hard_attention():
    scores = torch.randn(40, 3, 6, dtype=torch.float64)
    select = StraightThrough()
    for mode in (True, False):
        torch.manual_seed(4)
        weights, log_prob = select.train(mode)(scores)
        torch.manual_seed(4)
        assert torch.equal(weights, Hard().train(mode)(scores)[0])
        assert log_prob is None
    assert ((weights == 0) | (weights == 1)).all()


def test_it_samples_in_training_with_the_softmax_as_its_distribution():
    scores = torch.tensor([0.0, 1.0, 2.0, -1.0]).expand(20000, 1, 4)
    mask = torch.tensor([True, True, True, False])
    share = StraightThrough()(scores, mask=mask)[0].mean((0, 1))
    chances = torch.tensor([1.0, torch.e, torch.e**2, 0.0]) / (1 + torch.e + torch.e**2)
    assert (share - chances).abs().max() < 4 * 0.5 / 20000**0.5


@pytest.mark.parametrize("training", [True, False])
def test_the_gradient_is_that_of_the_softmax(training):
    """Whatever key was chosen: dL/de_i = p_i (r_i - Σ_j p_j r_j) for dL/dw = r."""
    scores = torch.tensor([[0.3, -0.2, 0.5]], dtype=torch.float64, requires_grad=True)
    reward = torch.tensor([1.0, 3.0, -2.0], dtype=torch.float64)
    weights, _ = StraightThrough().train(training)(scores)
    (weights * reward).sum().backward()
    p = scores.detach().exp() / scores.detach().exp().sum()
    torch.testing.assert_close(scores.grad, p * (reward - (p * reward).sum()))


def test_an_empty_row_reads_nothing():
    x = torch.randn(2, 4, 8, requires_grad=True)
    lengths = Lengths(torch.tensor([4, 0]))
    found = attend(x, x, select=StraightThrough(), mask=lengths, need_weights=True)
    assert (found.weights[1] == 0).all()
    torch.testing.assert_close(found.weights[0].sum(-1), torch.ones(4))
    found.context.sum().backward()
    assert x.grad.isfinite().all()


def test_it_learns_to_choose_where_hard_attention_has_no_gradient():
    """The key with the largest value, after some steps of ascent."""
    keys, values = torch.eye(4), torch.tensor([[0.0], [1.0], [4.0], [3.0]])
    for select, learned in ((StraightThrough(), True), (Hard(), False)):
        torch.manual_seed(2)
        query = torch.zeros(1, 4, requires_grad=True)
        layer = Attention(select=select)
        for _ in range(60):
            context = layer(query, keys, values).context
            if not context.requires_grad:
                break
            (slope,) = torch.autograd.grad(context.sum(), query)
            query = (query + slope).detach().requires_grad_()
        assert (layer.eval()(query, keys, values).context.item() == 4.0) is learned


@pytest.mark.nohook
def test_another_choice_is_refused():
    with pytest.raises(RequestError, match='training="sample" or "argmax"'):
        StraightThrough("best")
