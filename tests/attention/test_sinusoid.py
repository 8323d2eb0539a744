"""Transformer-XL's score against its four terms, one pair at a time, in float64."""

import numpy as np
import pytest
import torch

from regard.attention import Attention, Causal, Lengths, MultiHead, RelativeSinusoid, explain
from regard.attention.score.sinusoid import relative_shift
from regard.errors import RequestError

D = 4


def sinusoid(distance, size):
    """R of the authors' code: all sines, then all cosines."""
    half = np.array([distance / 10000 ** (k / size) for k in range(0, size, 2)])
    return np.concatenate([np.sin(half), np.cos(half)])[:size]


def by_hand(query, key, u, v, weight, at):
    """Dai et al. (2019), section 3.3: the terms (a) to (d)."""
    scores = np.zeros((len(query), len(key)))
    for i, q in enumerate(query):
        for j, k in enumerate(key):
            place = weight @ sinusoid(at + i - j, weight.shape[1])
            scores[i, j] = q @ k + q @ place + u @ k + v @ place
    return scores / np.sqrt(query.shape[1])


def made(**settings):
    torch.manual_seed(1)
    score = RelativeSinusoid(D, **settings).double()
    with torch.no_grad():
        score.u.normal_()
        score.v.normal_()
    return score


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (1, 6), (3, 8), (8, 3), (1, 1), (4, 1)])
@pytest.mark.parametrize("at", [0, 2, -1])
@pytest.mark.parametrize("features", [None, 6, 7])
def test_it_is_the_four_terms(queries, keys, at, features):
    score = made(features=features)
    query, key = torch.randn(2, queries, D).double(), torch.randn(2, keys, D).double()
    found = score(query, key, at=at).detach().numpy()
    parts = [p.detach().numpy() for p in (score.u, score.v, score.weight)]
    for row in range(2):
        expected = by_hand(query[row].numpy(), key[row].numpy(), *parts, at)
        np.testing.assert_allclose(found[row], expected, atol=1e-12)


@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize("each", [False, True])
def test_heads_have_parameters_of_their_own_and_rows_places_of_their_own(heads, each):
    score = made(heads=heads, features=8)
    query, key = torch.randn(2, 3, 2, D).double(), torch.randn(2, 3, 5, D).double()
    at = torch.tensor([[3], [0]]) if each else 3
    found = score(query, key, at=at).detach().numpy()
    for row in range(2):
        for head in range(3):
            own = (p if heads is None else p[head] for p in (score.u, score.v, score.weight))
            place = int(at[row, 0]) if each else at
            expected = by_hand(
                query[row, head].numpy(),
                key[row, head].numpy(),
                *(p.detach().numpy() for p in own),
                place,
            )
            np.testing.assert_allclose(found[row, head], expected, atol=1e-12)


def test_the_relative_shift_moves_each_row_one_further():
    for queries, keys in ((3, 4), (1, 5), (5, 1), (2, 2)):
        column = torch.arange(float(queries + keys)).expand(2, queries, -1)
        shifted = relative_shift(column, keys)
        for i in range(queries):
            assert shifted[0, i].tolist() == [queries - 1 - i + j for j in range(keys)]
    assert relative_shift(torch.zeros(2, 0, 5), 5).shape == (2, 0, 5)


def test_a_cached_past_is_the_whole_at_once():
    """The paper's segments: keys of an earlier segment in front, queries of the new one."""
    torch.manual_seed(2)
    layer = MultiHead(8, 2, Attention(RelativeSinusoid(4, 8, heads=2), mask=Causal())).double()
    x = torch.randn(3, 9, 8).double()
    whole = layer(x, x).context
    torch.testing.assert_close(layer(x[:, 5:], x).context, whole[:, 5:])
    memory = layer.remember(x[:, :1])
    for t in range(9):
        memory = layer.extend(memory, x[:, t : t + 1]) if t else memory
        torch.testing.assert_close(layer(x[:, t : t + 1], memory).context, whole[:, t : t + 1])


def test_distance_alone_counts():
    """A masked prefix moves all places, and changes nothing."""
    torch.manual_seed(3)
    layer = Attention(made())
    x, before = torch.randn(1, 5, D).double(), torch.randn(1, 3, D).double()
    plain = layer(x, x).context
    keys = torch.cat([before, x], 1)
    allowed = torch.arange(8) >= 3
    torch.testing.assert_close(layer(x, keys, mask=allowed.expand(1, 5, 8)).context, plain)
    farther = layer(x, x, at=1).context
    assert not torch.allclose(farther, plain)


def test_gradients_and_empty_rows():
    score = made(heads=2, features=5)
    layer = Attention(score)
    x = torch.randn(2, 2, 4, D).double().requires_grad_()
    mask = Lengths(torch.tensor([[4], [0]]))
    got = layer(x, x, mask=mask).context
    assert (got[1] == 0).all()
    got.square().sum().backward()
    assert all(p.grad.any() and p.grad.isfinite().all() for p in score.parameters())
    assert x.grad.isfinite().all()
    small = torch.randn(1, 2, 3, D).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda y: score(y, y, at=1), small)
    assert torch.autograd.gradgradcheck(lambda y: score(y, y, at=1), small)


def test_half_precision_tells_far_places_apart():
    score = made().float()
    query, key = torch.randn(1, 2, D), torch.randn(1, 3000, D)
    exact = score.double()(query.double(), key.double(), at=2999)
    low = score.bfloat16()(query.bfloat16(), key.bfloat16(), at=2999)
    assert low.dtype == torch.bfloat16
    assert (low.double() - exact).abs().max() < 0.1


def test_sizes_and_heads():
    score = RelativeSinusoid(64, 1024, heads=16)  # of the paper's large model
    assert sum(p.numel() for p in score.parameters()) == 2 * 1024 + 1024 * 1024
    assert RelativeSinusoid(64, heads=16).weight.shape == (16, 64, 1024)
    assert explain(Attention(RelativeSinusoid(D)))[""].kernel == "reference"
    with pytest.raises(RequestError, match="parts for as many"):
        MultiHead(8, 4, Attention(RelativeSinusoid(2, heads=2)))
