"""The feature-wise kernel, at every level and without C, against the parts in float64."""

import math
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import native
from regard.attention import (
    Attention,
    Causal,
    Dense,
    Directional,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    Lengths,
    Window,
    kernels,
)
from regard.attention._kernels import features
from regard.attention._ops import feature_blocks

BACKENDS = ["AVX-512", "AVX2", "portable", "blocks"]
INPUTS = ("query", "key", "value")


@contextmanager
def on(backend):
    """At most this level of C, or the blocks of plain PyTorch."""
    if backend == "blocks":
        before, features._native = features._native, lambda *_: None
        try:
            yield
        finally:
            features._native = before
    else:
        if native.library() is None:
            pytest.skip(f"no shared object: {native.missing()}")
        with native.at_level(backend):
            yield


def exact(query, key, value, allowed, scale, bound):
    """The equations in float64, everything stored."""
    scores = bound * torch.tanh((query.unsqueeze(-2) + key.unsqueeze(-3)) / scale)
    powers = scores.exp()
    if allowed is not None:
        powers = powers * allowed[..., None]
    total = powers.sum(-2)
    weighted = (powers * value.unsqueeze(-3)).sum(-2)
    return weighted / total.where(total > 0, 1.0)


def compare(inputs, weight, allowed=None, *, scale=5.0, bound=5.0, out=2e-6, grads=1e-5, **limits):
    """Kernel against float64, outputs and gradients, relative to the largest of each tensor."""
    double = [x.detach().double().requires_grad_() for x in inputs]
    expected = exact(*double, allowed, scale, bound)
    (expected * weight.double()).sum().backward()
    low = [x.detach().clone().requires_grad_() for x in inputs]
    got = features.feature_attention(*low, scale=scale, bound=bound, **limits)
    (got * weight).sum().backward()
    assert got.shape == expected.shape
    assert got.dtype == inputs[2].dtype
    worst = (got.double() - expected).abs().max() if got.numel() else torch.zeros(())
    assert worst <= out * expected.abs().max().clamp_min(1e-30) if got.numel() else True
    largest = max(x.grad.abs().max().item() for x in double if x.numel())
    for name, a, b in zip(INPUTS, low, double, strict=True):
        assert a.grad.isfinite().all(), name
        if a.numel():  # a gradient that cancels (of one key) has the rounding error of its terms
            limit = grads * max(b.grad.abs().max().item(), 2e-2 * largest)
            assert (a.grad.double() - b.grad).abs().max() <= limit, name


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=40)
@given(
    batch=st.sampled_from([(), (1,), (3,), (2, 2)]),
    queries=st.integers(0, 9),
    keys=st.integers(1, 9),
    dim=st.sampled_from([1, 3, 4, 8, 15, 16, 17, 35]),
    spans=st.booleans(),
    masked=st.booleans(),
    layout=st.sampled_from(["plain", "strided", "shared keys", "shared queries"]),
    seed=st.integers(0, 10**6),
)
def test_every_backend_agrees_with_float64(
    backend, batch, queries, keys, dim, spans, masked, layout, seed
):
    generator = torch.Generator().manual_seed(seed)

    def draw(rows, shared=False):
        own = batch[1:] if shared else batch
        x = torch.randn(*own, rows, dim, generator=generator)
        return x.mT.contiguous().mT if layout == "strided" else x

    inputs = [
        draw(queries, layout == "shared queries"),
        draw(keys, layout == "shared keys"),
        draw(keys),
    ]
    limits, allowed = {}, None
    if spans:
        start = torch.randint(-2, keys + 2, (*batch, queries), generator=generator)
        stop = torch.randint(-2, keys + 2, (*batch, queries), generator=generator)
        limits = {"start": start.int(), "stop": stop.int()}
        place = torch.arange(keys)
        allowed = (place >= start[..., None]) & (place < stop[..., None])
    if masked:
        dense = torch.rand(*batch, queries, keys, generator=generator) > 0.4
        limits["mask"] = dense
        allowed = dense if allowed is None else dense & allowed
    weight = torch.randn(*batch, queries, dim, generator=generator)
    with on(backend):
        compare(inputs, weight, allowed, **limits)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("reach", "scale", "bound", "keys"),
    [
        (1, 5.0, 5.0, 60),
        (40, 5.0, 5.0, 60),
        (40, 1.0, 1.0, 60),  # |q| + |k| beyond the factored form: pair by pair
        (1000, 2.0, 3.0, 60),
        (3, 5.0, 20.0, 60),
        (2, 5.0, 5.0, 700),  # more keys than one sum takes
        (1e-3, 5.0, 5.0, 60),  # slopes all but equal: the sum over keys cancels
    ],
)
def test_accuracy(backend, reach, scale, bound, keys):
    generator = torch.Generator().manual_seed(3)
    inputs = [(torch.rand(2, n, 33, generator=generator) * 2 - 1) * reach for n in (37, keys)] + [
        torch.randn(2, keys, 33, generator=generator)
    ]
    weight = torch.randn(2, 37, 33, generator=generator)
    with on(backend):
        compare(inputs, weight, scale=scale, bound=bound)


@pytest.mark.parametrize("backend", BACKENDS)
def test_far_apart_queries_and_keys_meet_in_the_middle(backend):
    """q = 900 and k = -899 cancel: neither e^2q nor e^2k exists in fp32."""
    query, key = torch.full((1, 3, 5), 900.0), torch.full((1, 4, 5), -900.0)
    key += torch.arange(4.0)[:, None]
    with on(backend):
        compare([query, key, torch.randn(1, 4, 5)], torch.randn(1, 3, 5), scale=1.0, bound=2.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_values_stay_finite(backend):
    """Weights are summed as w e^-a, at most 1 each, so values near fp32's end do not overflow."""
    value = torch.tensor([[[1e38], [2e38]]])
    query = key = torch.ones(1, 2, 1)
    with on(backend):
        got = features.feature_attention(query, key, value, scale=5.0, bound=20.0)
    torch.testing.assert_close(got, torch.full((1, 2, 1), 1.5e38))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_a_number_stays_in_its_row(backend):
    query, key, value = torch.randn(2, 5, 6), torch.randn(2, 7, 6), torch.randn(2, 7, 6)
    query[0, 1, 2] = math.nan
    with on(backend):
        got = features.feature_attention(query, key, value, scale=5.0, bound=5.0)
    assert got[0, 1, 2].isnan()
    assert got.isnan().sum() == 1


def layer_of(mask, dim=6, **parts):
    score = FeatureAdditive(dim, dim, dim, **parts)
    return Attention(score, select=FeatureSoftmax(0.8), read=FeatureSum(), mask=mask)


MASKS = {
    "none": None,
    "lengths": Lengths(torch.tensor([5, 0, 3])),
    "causal": Causal(),
    "window": Window(1, 2),
    "open window": Window(right=1),
    "forward": Directional("forward"),
    "backward": Directional("backward"),
    "direction and lengths": Directional("backward") & Lengths(torch.tensor([5, 0, 3])),
    "dense": Dense(torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(1)) > 0.5),
    "dense of keys": Dense(torch.tensor([True, False, True, True, False])),
    "three": Causal() & Dense(torch.ones(4, 5).bool()) & Lengths(torch.tensor([5, 0, 3])),
    "either": Window(0, 0) | Lengths(torch.tensor([5, 0, 3])),
    "not": ~Window(0, 0),
}


@pytest.mark.parametrize("kind", sorted(MASKS))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("at", [None, 0, torch.tensor([2, 0, 1])])
def test_masks_and_dtypes_agree_with_the_parts(kind, dtype, at):
    layer = layer_of(MASKS[kind]).to(dtype)
    inputs = [torch.randn(3, n, 6).to(dtype) for n in (4, 5, 5)]
    found = []
    for name, kept in (("reference", torch.float64), ("features", dtype)):
        layer.to(kept).zero_grad()
        own = [x.to(kept).requires_grad_() for x in inputs]
        with kernels(name):
            context = layer(*own, at=at).context
        assert context.dtype == kept
        context.float().square().sum().backward()
        found.append([context, *(x.grad for x in own), *(p.grad for p in layer.parameters())])
    limit = {torch.float64: 1e-6, torch.float32: 3e-5, torch.bfloat16: 8e-2}[dtype]
    for a, b in zip(*found, strict=True):
        assert b.isfinite().all()
        assert (a.double() - b.double()).abs().max() <= limit * a.abs().max().clamp_min(1.0)


def test_blocks_pass_gradcheck_and_never_store_the_pairs(monkeypatch):
    monkeypatch.setattr(feature_blocks, "BLOCK", 40)  # one query a block
    query, key, value = (torch.randn(2, n, 5).double().requires_grad_() for n in (4, 6, 6))
    start = torch.tensor([[0, 0, 2, 5]], dtype=torch.int32).expand(2, 4)
    stop = torch.tensor([[6], [4]], dtype=torch.int32).expand(2, 4)

    def run(query, key, value):
        return features.feature_attention(query, key, value, start, stop, scale=3.0, bound=2.0)

    assert torch.autograd.gradcheck(run, (query, key, value))
    largest, real = [], torch.sigmoid_

    def spy(x):
        largest.append(x.numel())
        return real(x)

    monkeypatch.setattr(torch, "sigmoid_", spy)
    run(query, key, value).sum().backward()
    assert len(largest) == 2 * 7  # row 1 has nothing for its last query
    assert max(largest) <= 6 * 5


def test_what_backward_needs_is_small():
    saved = []

    def pack(t):
        saved.append(t.numel())
        return t

    x = torch.randn(2, 50, 6, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        layer_of(Directional("forward"))(x, x).context.sum().backward()
    assert max(saved) <= 2 * 50 * 6
    saved.clear()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), kernels("reference"):
        layer_of(Directional("forward"))(x, x).context.sum().backward()
    assert max(saved) == 2 * 50 * 50 * 6


@pytest.mark.parametrize("masked", [False, True])
def test_the_number_of_threads_changes_no_bit(masked):
    inputs = [torch.randn(3, 64, 40) for _ in INPUTS]
    mask = torch.rand(3, 64, 64) > 0.5 if masked else None
    found, before = [], torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            assert native.threads(3 * 64 * 64 * 40) == threads
            own = [x.clone().requires_grad_() for x in inputs]
            context = features.feature_attention(*own, mask=mask, scale=5.0, bound=5.0)
            context.backward(inputs[0])
        finally:
            torch.set_num_threads(before)
        found.append([context, *(x.grad for x in own)])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("backend", ["AVX-512", "blocks"])
def test_the_operators_keep_their_promises(backend):
    """Fake tensors, autograd and schema as `torch.library` checks them."""
    query, key, value = (torch.randn(2, n, 5, requires_grad=True) for n in (3, 4, 4))
    limits = (torch.zeros(2, 3).int(), torch.full((2, 3), 4).int(), torch.rand(2, 3, 4) > 0.3)
    with on(backend):
        torch.library.opcheck(features._forward, (query, key, value, *limits, 5.0, 5.0))
        torch.library.opcheck(features._forward, (query, key, value, None, None, None, 5.0, 4.0))


@pytest.mark.nohook
@pytest.mark.parametrize(
    "mask", [None, Directional("forward") & Lengths(torch.tensor([4, 2])), ~Window(0, 0)]
)
def test_it_compiles_as_one_graph(mask):
    layer = layer_of(mask)
    x = torch.randn(2, 4, 6, requires_grad=True)

    def run(x):
        return layer(x, x).context

    expected = run(x)
    got = torch.compile(run, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(got, expected)
    (a,) = torch.autograd.grad(got.square().sum(), x)
    (b,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(a, b)


@pytest.mark.nohook
def test_it_exports():
    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = layer_of(Directional("backward"))

        def forward(self, x, lengths):
            return self.attention(x, x, mask=Lengths(lengths)).context

    model, x, lengths = Encoder(), torch.randn(2, 4, 6), torch.tensor([4, 3])
    program = torch.export.export(model, (x, lengths))
    torch.testing.assert_close(program.module()(x, lengths), model(x, lengths))
    names = {str(node.target) for node in program.graph.nodes}
    assert any("regard.features" in name for name in names)


def test_autocast_computes_in_fp32():
    layer = layer_of(Directional("forward"))
    x = torch.randn(2, 5, 6, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        context = layer(x, x).context
    assert context.dtype == torch.float32  # of the values
    with torch.no_grad():
        torch.testing.assert_close(context, layer(x, x).context, rtol=0.05, atol=0.05)
    context.square().sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("mask", [None, Causal(), Lengths(torch.tensor([3, 0])), "dense"])
def test_gradients_of_gradients_are_those_of_the_reference(mask):
    """Limits of both kinds, and a mask of pairs."""
    if mask == "dense":
        mask = Dense(torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(1)) < 0.6)
    layer, x = layer_of(mask), torch.randn(2, 3, 6, requires_grad=True)

    def twice():
        (grad,) = torch.autograd.grad(layer(x, x).context.square().sum(), x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), x)[0]

    found = twice()
    with kernels("reference"):
        torch.testing.assert_close(found, twice(), atol=1e-4, rtol=1e-4)
