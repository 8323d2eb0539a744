"""The Triton kernels against float64; run by `test_triton` (interpreter) and `test_cuda` (GPU)."""

import os

import pytest
import torch
from torch.nn import functional as F

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
LENGTH, ROWS = (4, 8) if INTERPRETED else (6, 20)
"""The interpreter takes milliseconds for each row that a program walks over."""
pytestmark = [] if INTERPRETED else [pytest.mark.gpu]

LOW = {torch.bfloat16: 1e-2, torch.float16: 2e-3}


def leaves(*tensors):
    """What a kernel gets, and the same in float64."""
    low = [t.detach().to(DEVICE).requires_grad_() for t in tensors]
    return low, [t.detach().double().requires_grad_() for t in tensors]


def check(got, expected, low, exact, *, forward=2e-6, backward=1e-5):
    """Values and gradients of a random direction, relative to the largest of each tensor."""
    weight = torch.randn(expected.shape, dtype=torch.float64)
    (expected * weight).sum().backward()
    (got.float() * weight.float().to(DEVICE)).sum().backward()
    near(got, expected, forward)
    for x, y in zip(low, exact, strict=True):
        assert x.grad.dtype == x.dtype
        near(x.grad, y.grad, backward)


def check_twice(got, expected, low, exact):
    """Second derivatives: the gradient of the gradients' squares."""
    twice = []
    for context, leaves_ in ((got, low), (expected, exact)):
        weight = torch.linspace(-1, 1, context.numel()).to(context).view(context.shape)
        first = torch.autograd.grad((context * weight).sum(), leaves_, create_graph=True)
        squares = sum(g.square().sum() for g in first)
        twice.append(torch.autograd.grad(squares, leaves_))
    for x, y in zip(*twice, strict=True):
        near(x, y, 1e-4)


def test_second_derivatives():
    from regard.attention._ops.triton.additive import additive_scores
    from regard.attention._ops.triton.edges import edge_attention
    from regard.attention._ops.triton.features import feature_attention

    low, exact = leaves(torch.randn(2, 3, 4, 5), torch.randn(1, 3, 6, 5), torch.randn(3, 5))
    query, key, v = exact
    expected = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ v[:, None, :, None]
    check_twice(additive_scores(*low), expected.squeeze(-1), low, exact)

    low, exact = leaves(*(torch.randn(2, 6, 5) for _ in range(3)))
    start = torch.zeros(2, 6, dtype=torch.int32, device=DEVICE)
    place = torch.arange(6, device=DEVICE, dtype=torch.int32)
    got = feature_attention(*low, start, (start + 1 + place), None, 5.0, 5.0)
    query, key, value = exact
    f = 5 * torch.tanh((query.unsqueeze(-2) + key.unsqueeze(-3)) / 5)
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)[..., None]
    weights = torch.softmax(f.masked_fill(hidden, -torch.inf), -2)
    check_twice(got, (weights * value.unsqueeze(-3)).sum(-2), low, exact)

    adjacent, arrays = graph(5, 7, 0.5)
    low, exact = leaves(torch.randn(2, 5, 3), torch.randn(2, 7, 3), torch.randn(2, 7, 3, 4))
    got = edge_attention(*low, torch.zeros(1, dtype=torch.int64), *arrays, 0.2, 0.0)
    e = F.leaky_relu(exact[0][:, :, None] + exact[1][:, None], 0.2)  # (B, Q, K, H)
    seen = adjacent[None, :, :, None]
    weights = torch.softmax(e.masked_fill(~seen, -1e30), 2) * seen
    check_twice(got, torch.einsum("bqkh,bkhd->bqhd", weights, exact[2]), low, exact)


def near(got, expected, bound):
    assert got.isfinite().all()
    error = (got.detach().cpu().double() - expected.detach()).abs().max()
    assert error <= bound * expected.detach().abs().max(), (error / expected.abs().max()).item()


def additive(query, key, v):
    return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ v


@pytest.mark.parametrize(
    ("queries", "keys", "dim", "scale", "apart"),
    [
        (5, 9, 7, 1.0, 0.0),
        (3, ROWS, 17, 0.01, 0.0),  # tanh's argument is small: its own digits count
        (4, 5, 3, 1.0, 40.0),  # exponents of 80 that cancel
        (4, 5, 3, 1.0, 60.0),  # beyond what an exponential can hold
        (1, 3, 2, 40.0, 0.0),
    ],
)
def test_additive(queries, keys, dim, scale, apart):
    from regard.attention._ops.triton.additive import additive_scores

    query = scale * torch.randn(2, queries, dim) + apart
    key = scale * torch.randn(2, keys, dim) - apart
    low, exact = leaves(query, key, torch.randn(dim))
    check(additive_scores(*low), additive(*exact), low, exact)


def test_additive_tiles_and_parts(monkeypatch):
    """Several tiles of queries, keys and features, and walks that several programs share.

    Walks are shared from 128 rows on; here from 32, for the interpreter takes ms for each row.
    """
    from regard.attention._ops.triton import _math
    from regard.attention._ops.triton import additive as module
    from regard.attention._ops.triton.additive import additive_scores

    assert _math.splits(9, 127) == (1, 127)
    assert _math.splits(9, 129) == (2, 65)
    assert _math.splits(600, 129) == (1, 129)
    assert _math.splits(2, 9000) == (8, 1125)

    def earlier(programs, rows):
        parts = max(1, min(8, rows // 16))
        share = _math.cover(rows, parts)
        return _math.cover(rows, share), share

    monkeypatch.setattr(module, "splits", earlier)
    low, exact = leaves(torch.randn(1, 17, 3), torch.randn(1, 65, 3), torch.randn(3))
    near(additive_scores(*low), additive(*exact), 2e-6)  # tiles of 16 queries and 64 keys
    low, exact = leaves(torch.randn(1, 17, 3), torch.randn(1, 33, 3), torch.randn(3))
    check(additive_scores(*low), additive(*exact), low, exact)
    low, exact = leaves(torch.randn(1, 2, 66), torch.randn(1, 3, 66), torch.randn(66))
    check(additive_scores(*low), additive(*exact), low, exact)


@pytest.mark.parametrize("dtype", sorted(LOW, key=str))
def test_additive_in_low_precision_and_any_layout(dtype):
    from regard.attention._ops.triton.additive import additive_scores

    query = torch.randn(LENGTH - 2, 1, 6, 4).to(dtype).mT  # (…, 1, 4, 6), features far apart
    key = torch.randn(2, LENGTH - 1, 12).to(dtype)[..., ::2]
    v = torch.randn(12).to(dtype)[::2]
    low, exact = leaves(query, key, v)
    got = additive_scores(*low)
    assert got.dtype == torch.float32
    check(got, additive(*exact), low, exact, backward=LOW[dtype])


def test_additive_broadcasts_and_has_heads():
    from regard.attention._ops.triton.additive import additive_scores

    low, exact = leaves(torch.randn(2, 3, 4, 5), torch.randn(1, 3, 6, 5), torch.randn(3, 5))
    query, key, v = exact
    expected = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ v[:, None, :, None]
    check(additive_scores(*low), expected.squeeze(-1), low, exact)


def test_additive_computes_only_gradients_that_are_wanted():
    from regard.attention._ops.triton.additive import additive_scores

    for wanted in range(3):
        low, exact = leaves(torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(4))
        for n in range(3):
            low[n].requires_grad_(n == wanted)
        additive_scores(*low).sum().backward()
        additive(*exact).sum().backward()
        near(low[wanted].grad, exact[wanted].grad, 1e-5)


def test_nothing_gives_nothing():
    from regard.attention._ops.triton.additive import additive_scores

    for batch, queries, keys in ((0, 2, 3), (2, 0, 3), (2, 3, 0)):
        low, _ = leaves(torch.randn(batch, queries, 4), torch.randn(batch, keys, 4), torch.ones(4))
        got = additive_scores(*low)
        assert got.shape == (batch, queries, keys)
        got.sum().backward()
        assert all((x.grad == 0).all() for x in low)


@pytest.mark.parametrize(
    ("kind", "scale", "apart", "c", "temperature"),
    [
        ("all", 1.0, 0.0, 5.0, 1.0),
        ("forward", 1.0, 0.0, 5.0, 0.5),
        ("backward", 0.01, 0.0, 5.0, 1.0),
        ("dense", 40.0, 0.0, 5.0, 1.0),
        ("dense", 1.0, 60.0, 1.0, 1.0),
    ],
)
def test_features(kind, scale, apart, c, temperature):
    from regard.attention._ops.triton.features import feature_attention

    length, dim = LENGTH, 5
    x = torch.randn(3, length, dim)
    low, exact = leaves(scale * x + apart, scale * torch.randn_like(x) - apart, torch.randn_like(x))
    place = torch.arange(length, dtype=torch.int32)
    lengths = torch.tensor([length, 0, length - 2], dtype=torch.int32)
    start, stop = torch.zeros(3, length, dtype=torch.int32), lengths[:, None].expand(3, length)
    if kind == "forward":
        stop = torch.minimum(stop, place)
    if kind == "backward":
        start = (place + 1).expand(3, length)
    mask = torch.rand(3, length, length) > 0.4 if kind == "dense" else None
    allowed = (start[..., None] <= place) & (place < stop[..., None])
    allowed = (allowed if mask is None else allowed & mask)[..., None]
    query, key, value = exact
    f = c / temperature * torch.tanh((query.unsqueeze(-2) + key.unsqueeze(-3)) / c)
    weights = torch.softmax(f.masked_fill(~allowed, -1e30), -2) * allowed
    expected = (weights * value.unsqueeze(-3)).sum(-2)
    rest = [t if t is None else t.to(DEVICE) for t in (start, stop, mask)]
    got = feature_attention(*low, *rest, c, c / temperature)
    assert (got[1] == 0).all()
    check(got, expected, low, exact)


def test_features_in_low_precision():
    from regard.attention._ops.triton.features import feature_attention

    low, exact = leaves(*(torch.randn(1, 18, 6).bfloat16() for _ in range(3)))
    start = torch.zeros(1, 18, dtype=torch.int32, device=DEVICE)
    got = feature_attention(*low, start, start + 18, None, 5.0, 5.0)
    query, key, value = exact
    f = 5 * torch.tanh((query.unsqueeze(-2) + key.unsqueeze(-3)) / 5)
    expected = (torch.softmax(f, -2) * value.unsqueeze(-3)).sum(-2)
    check(got, expected, low, exact, forward=1e-2, backward=1e-2)


def graph(queries, keys, density):
    adjacent = torch.rand(queries, keys) < density
    adjacent[1] = False  # a node that looks at nothing
    target, source = adjacent.nonzero(as_tuple=True)
    order = torch.argsort(source, stable=True)
    offsets = F.pad(adjacent.sum(1).cumsum(0), (1, 0))
    back = F.pad(adjacent.sum(0).cumsum(0), (1, 0))
    arrays = offsets, source.int(), back, target[order].int(), order.int()
    return adjacent, [x.to(DEVICE) for x in arrays]


@pytest.mark.parametrize(
    ("batch", "queries", "keys", "heads", "dim", "scale", "slope", "density"),
    [
        (2, 5, 7, 3, 5, 1.0, 0.2, 0.5),
        (1, 6, 12, 2, 3, 10.0, 0.2, 0.9),
        (1, 4, 4, 1, 130, 1.0, 0.0, 0.5),
        (1, 4, 40, 1, 2, 1.0, 0.2, 0.9),  # more edges than a tile
    ],
)
def test_edges(batch, queries, keys, heads, dim, scale, slope, density):
    from regard.attention._ops.triton.edges import edge_attention

    adjacent, arrays = graph(queries, keys, density)
    left, right = (
        scale * torch.randn(batch, queries, heads),
        scale * torch.randn(batch, keys, heads),
    )
    low, exact = leaves(left, right, torch.randn(batch, keys, heads, dim))
    got = edge_attention(*low, torch.zeros(1, dtype=torch.int64), *arrays, slope, 0.0)
    e = F.leaky_relu(exact[0][:, :, None] + exact[1][:, None], slope)  # (B, Q, K, H)
    seen = adjacent[None, :, :, None]
    weights = torch.softmax(e.masked_fill(~seen, -1e30), 2) * seen
    expected = torch.einsum("bqkh,bkhd->bqhd", weights, exact[2])
    assert (got[:, 1] == 0).all()
    check(got, expected, low, exact)


def test_edges_drop_the_same_weights_in_both_passes():
    from regard.attention._ops.triton.edges import edge_attention

    _, arrays = graph(6, 9, 0.9)
    inputs = [torch.randn(1, 6, 2), torch.randn(1, 9, 2), torch.randn(1, 9, 2, 3)]
    low, _ = leaves(*inputs)
    seed = torch.tensor([2**61 + 12345])

    def run(*inputs, rate=0.4, seed=seed):
        return edge_attention(*inputs, seed, *arrays, 0.2, rate)

    got = run(*low)
    assert torch.equal(run(*low), got)
    assert not torch.allclose(run(*low, seed=seed + 1), got)
    weight = torch.randn(got.shape).to(DEVICE)
    (got * weight).sum().backward()
    for n, x in enumerate(low):
        direction = torch.randn(x.shape).to(DEVICE)
        there, back = (
            [y.detach() + step * direction if m == n else y.detach() for m, y in enumerate(low)]
            for step in (1e-2, -1e-2)
        )
        slope = ((run(*there) - run(*back)).double() * weight).sum() / 2e-2
        torch.testing.assert_close((x.grad * direction).sum().double(), slope, rtol=2e-2, atol=2e-3)


def test_edges_keep_the_expectation():
    """With all weights alike and values of 1, what is kept adds up to 1 on average."""
    from regard.attention._ops.triton.edges import edge_attention

    count = 200
    offsets = torch.tensor([0, count], device=DEVICE)
    sources = torch.arange(count, dtype=torch.int32, device=DEVICE)
    zeros = torch.zeros(1, count, 1, device=DEVICE)
    got = edge_attention(
        zeros[:, :1], zeros, torch.ones(1, count, 1, 8, device=DEVICE),
        torch.tensor([7]), offsets, sources, None, None, None, 0.2, 0.5,
    )  # fmt: skip
    assert 0.75 < got[0, 0, 0, 0].item() < 1.25
    assert (got == got[0, 0, 0, 0]).all()  # a weight is dropped for all features of a head
