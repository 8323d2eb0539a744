"""Talking heads: the equation in NumPy, where it begins, masks, and what is refused."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import (
    Attention,
    Causal,
    Hard,
    LocalMonotonic,
    MultiHead,
    Sparsemax,
    TalkingHeads,
)
from regard.errors import RequestError
from regard.models.transformer import Transformer

HEADS, N = 3, 5


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def mixing(select=None):
    part = TalkingHeads(HEADS, select).double()
    with torch.no_grad():
        for matrix in (part.before, part.after):
            matrix.copy_(torch.randn(HEADS, HEADS))
    return part


def test_the_equation():
    torch.manual_seed(1)
    part, scores = mixing(), torch.randn(2, HEADS, N, N, dtype=torch.float64)
    weights, chosen = part(scores)
    before, after = part.before.detach().numpy(), part.after.detach().numpy()
    e = scores.numpy()
    expected = np.zeros_like(e)
    for b in range(2):
        own = [softmax(sum(before[f, g] * e[b, f] for f in range(HEADS))) for g in range(HEADS)]
        for h in range(HEADS):
            expected[b, h] = sum(after[g, h] * own[g] for g in range(HEADS))
    np.testing.assert_allclose(weights.detach().numpy(), expected, atol=1e-12)
    assert chosen is None


def test_masked_keys_weigh_nothing_whatever_is_mixed():
    torch.manual_seed(2)
    layer = MultiHead(6, HEADS, Attention(select=mixing(Sparsemax()), mask=Causal())).double()
    x = torch.randn(2, N, 6, dtype=torch.float64)
    with watch(layer) as seen:
        layer(x, x)
    (weights,) = (record.weights for record in seen.values())
    assert not weights.triu(1).any()
    assert weights.sum(-1).sub(1).abs().max() > 0.1  # rows sum to anything


def test_a_layer_begins_as_one_without_it():
    torch.manual_seed(3)
    tiny = {"dim": 8, "heads": 2, "ffn_dim": 8, "layers": 1}
    model = Transformer(20, 20, **tiny, attention={"talking": True}).eval()
    plain = Transformer(20, 20, **tiny).eval()
    found = plain.load_state_dict(model.state_dict(), strict=False)
    assert len(found.unexpected_keys) == 6  # two matrices in each of three attentions
    source, target = torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 4))
    torch.testing.assert_close(model(source, target).logits, plain(source, target).logits)
    model(source, target).logits.square().sum().backward()
    for path in found.unexpected_keys:
        assert model.get_parameter(path).grad.abs().sum() > 0


@pytest.mark.parametrize("select", [Hard(), LocalMonotonic(1)])
def test_selects_that_choose_or_look_near_are_refused(select):
    with pytest.raises(RequestError, match="a selection that gives weights over all keys"):
        TalkingHeads(2, select)


def test_scores_without_the_axis_are_refused():
    with pytest.raises(RequestError, match=r"TalkingHeads\(3\) expected scores .* got \(2, 5\)"):
        TalkingHeads(3)(torch.randn(2, 5))
    with pytest.raises(RequestError, match="at least one head, got 0"):
        TalkingHeads(0)
