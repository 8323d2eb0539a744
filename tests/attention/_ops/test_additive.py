"""Additive attention in C and by blocks, against float64 reference and against a slow form."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import native
from regard.attention import Additive, Attention, Causal, Lengths, Softmax, Window, kernels
from regard.attention._ops import additive as blocks
from regard.attention._ops import eager
from regard.attention._ops.cpu import additive as c
from regard.attention._ops.cpu import additive_calls, additive_grad
from tests.attention.noting import noted
from tests.attention.reference import slow_attend

LEVELS = ("AVX-512", "AVX2", "portable")
SCALES = (1e-4, 0.05, 0.3, 1.0, 4.0, 12.0, 40.0, 300.0)

needs_c = pytest.mark.skipif(c.unsupported_reason() is not None, reason=str(c.unsupported_reason()))


def exact(query, key, v):
    """(*batch, Q, K) in float64; v (D,) or (heads, D)."""
    hidden = torch.tanh(query.double().unsqueeze(-2) + key.double().unsqueeze(-3))
    v = v.double()
    return hidden @ v if v.dim() == 1 else (hidden * v[:, None, None, :]).sum(-1)


def draw(generator, shape, scale):
    """Normal numbers; at 40 uniform ones over the whole range that is promised."""
    if scale == 40.0:
        return 80 * torch.rand(*shape, generator=generator) - 40
    return scale * torch.randn(*shape, generator=generator)


def error(found, expected):
    expected = expected.double()
    return float((found.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-300))


def grads(function, inputs, weight):
    inputs = [x.clone().detach().requires_grad_() for x in inputs]
    out = function(*inputs)
    return out.detach(), torch.autograd.grad((out * weight.to(out.dtype)).sum(), inputs)


@pytest.fixture(params=["divide", "estimate"])
def reciprocal(request):
    """As on a machine that divides, and as on one that estimates: this one is either."""
    native.library().regard_set_divides(int(request.param == "divide"))
    yield
    native.library().regard_set_divides(-1)


@needs_c
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shape", [(2, 37, 41, 256), (1, 70, 9, 64), (3, 1, 50, 96)])
def test_the_promised_accuracy(level, scale, shape, reciprocal):
    batch, queries, keys, dim = shape
    g = torch.Generator().manual_seed(1)
    inputs = [draw(g, (batch, n, dim), scale) for n in (queries, keys)]
    inputs.append(torch.randn(dim, generator=g))
    weight = torch.randn(batch, queries, keys, generator=g)
    expected, expected_grads = grads(exact, [x.double() for x in inputs], weight.double())
    with native.at_level(level):
        found, found_grads = grads(c.scores, inputs, weight)
        packed = c.scores(*inputs, packed=c.pack(inputs[1]))
    assert error(found, expected) <= 2e-6
    assert error(packed, expected) <= 2e-6
    for a, b in zip(found_grads, expected_grads, strict=True):
        assert error(a, b) <= 1e-5


@needs_c
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("x", [-20.0, -8.0, 8.0, 20.0])
def test_gradients_of_saturated_tanh_keep_their_digits(level, x):
    """All of a tensor far out: 1 - tanh^2 is 4 e^-2|x| and not what subtraction leaves of it."""
    query, key, v = torch.full((1, 5, 32), x), torch.full((1, 6, 32), x), torch.ones(32)
    weight = torch.rand(1, 5, 6)
    slope = 4 * np.exp(-4 * abs(x)) / (1 + np.exp(-4 * abs(x))) ** 2  # autograd's 1 - tanh^2 is 0
    with native.at_level(level):
        found = grads(c.scores, [query, key, v], weight)[1]
    for a, axis in zip(found, (2, 1), strict=False):
        expected = slope * weight.double().sum(axis)[..., None].expand(a.shape)
        assert error(a, expected) <= 1e-5
    assert 0 < found[0].abs().max() < 1e-4


@needs_c
@given(
    level=st.sampled_from(LEVELS),
    scales=st.tuples(st.sampled_from(SCALES), st.sampled_from(SCALES)),
    batch=st.sampled_from([((3,), (3,)), ((2, 3), (1, 3)), ((1,), (4,)), ((), ()), ((2, 1), (3,))]),
    queries=st.integers(0, 19),
    keys=st.integers(0, 70),
    dim=st.integers(1, 70),
    strided=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_scores_of_any_shape(level, scales, batch, queries, keys, dim, strided, seed):
    g = torch.Generator().manual_seed(seed)
    query = draw(g, (*batch[0], queries, dim), scales[0])
    key = draw(g, (*batch[1], keys, dim), scales[1])
    v = torch.randn(dim, generator=g)
    v[torch.rand(dim, generator=g) < 0.2] = 0.0
    if strided:
        query, key = (t.mT.contiguous().mT for t in (query, key))
    shape = exact(query, key, v).shape
    weight = torch.randn(shape, generator=g)
    expected, expected_grads = grads(exact, [x.double() for x in (query, key, v)], weight.double())
    with native.at_level(level):
        found, found_grads = grads(c.scores, [query, key, v], weight)
    assert found.shape == shape
    if not found.numel():
        assert all((a == 0).all() for a in found_grads)
        return
    assert (found.double() - expected).abs().max() <= 2e-6 * v.abs().sum().clamp_min(1e-3)
    sizes = (weight.abs().sum() * v.abs().max(), weight.abs().sum() * v.abs().max())
    for a, b, size in zip(found_grads, expected_grads, (*sizes, weight.abs().sum()), strict=True):
        assert (a.double() - b).abs().max() <= 1e-6 * size.clamp_min(1e-3)


MASKS = {
    "none": lambda b, q, k, g: None,
    "lengths": lambda b, q, k, g: Lengths(torch.randint(0, k + 1, b, generator=g)),
    "dense": lambda b, q, k, g: torch.rand(*b, q, k, generator=g) > 0.6,
    "shared": lambda b, q, k, g: torch.rand(q, k, generator=g) > 0.5,
    "window": lambda b, q, k, g: Window(1, 2),
    "both": lambda b, q, k, g: Causal() & Lengths(torch.randint(0, k + 1, b, generator=g)),
}


@needs_c
@given(
    level=st.sampled_from(LEVELS),
    kind=st.sampled_from(sorted(MASKS)),
    batch=st.sampled_from([(1,), (3,), (2, 3), (2, 1, 2)]),
    queries=st.integers(1, 20),
    keys=st.integers(1, 40),
    dim=st.sampled_from([1, 8, 33, 64]),
    value_dim=st.sampled_from([1, 3, 40, 130]),
    need_weights=st.booleans(),
    remembered=st.booleans(),
    kept=st.booleans(),
    temperature=st.sampled_from([1.0, 0.3]),
    seed=st.integers(0, 10**6),
)
def test_the_whole_attention(
    level, kind, batch, queries, keys, dim, value_dim, need_weights, remembered, kept, temperature,
    seed,
):  # fmt: skip
    """Any mask, empty rows, weights and their gradients, kept or made again: as the reference."""
    g = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    layer = Attention(score=Additive(5, 4, dim, bias=True), select=Softmax(temperature))
    true = Attention(score=Additive(5, 4, dim, bias=True), select=Softmax(temperature)).double()
    true.load_state_dict(layer.state_dict())
    inputs = [torch.randn(*batch, n, d, generator=g) for n, d in ((queries, 5), (keys, 4))]
    inputs.append(torch.randn(*batch, keys, value_dim, generator=g))
    mask = MASKS[kind](batch, queries, keys, g)
    shapes = (*batch, queries, value_dim), (*batch, queries, keys)
    weights = [torch.randn(*s, generator=g) for s in shapes]

    def run(module, dtype):
        x = [t.to(dtype).clone().requires_grad_() for t in inputs]
        if remembered and kind == "lengths":
            out = module(x[0], module.remember(x[1], x[2], mask=mask), need_weights=need_weights)
        elif remembered:
            out = module(x[0], module.remember(x[1], x[2]), mask=mask, need_weights=need_weights)
        else:
            out = module(*x, mask=mask, need_weights=need_weights)
        loss = (out.context * weights[0].to(dtype)).sum()
        if need_weights:
            loss = loss + (out.weights * weights[1].to(dtype)).sum()
        loss.backward()
        shown = [out.context] + ([out.weights] if need_weights else [])
        return shown, [t.grad for t in x] + [p.grad for p in module.parameters()]

    with kernels("reference"):
        expected = run(true, torch.float64)
    limit = additive_grad.KEPT
    additive_grad.KEPT = limit if kept else 0
    try:
        with native.at_level(level), kernels("streaming"):
            found = run(layer, torch.float32)
    finally:
        additive_grad.KEPT = limit
    for ours, theirs, bound in zip(found, expected, (3e-6, 1e-5), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert a.isfinite().all()
            assert (a.double() - b).abs().max() <= bound * max(1.0, b.abs().max().item())


def test_against_the_equation_in_numpy():
    """e = v tanh(W q + U k + b), loops over rows: nothing of it is our code."""
    layer = Attention(score=Additive(5, 4, 6, bias=True))
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 7, 4), torch.randn(2, 7, 3)
    s = layer.score
    w, u, b, v = (
        p.detach().double().numpy() for p in (s.query.weight, s.key.weight, s.key.bias, s.v)
    )
    mask = torch.rand(2, 3, 7) > 0.4
    context, weights = slow_attend(
        query.double().numpy(), key.double().numpy(), value.double().numpy(),
        lambda q, k, j: float(v @ np.tanh(w @ q + u @ k + b)), mask.numpy(),
    )  # fmt: skip
    found = layer(query, key, value, mask=mask, need_weights=True)
    np.testing.assert_allclose(found.context.detach(), context, atol=1e-6)
    np.testing.assert_allclose(found.weights.detach(), weights, atol=1e-6)


@needs_c
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "large",
    [
        [0.0, 43.0, -43.0, 43.5, -60.0, 88.0, 1e3, -1e3, 3e38, -3e38, 1e-38],
        [0.0, 42.9, -42.9, 43.1, -43.1, 44.4, -44.4, 45.5, -45.5],  # where e^2x leaves fp32
    ],
)
def test_extremes_are_finite_where_the_truth_is(large, level):
    large = torch.tensor(large)
    query, key = large[None, :, None].repeat(1, 1, 33), large[None, :, None].repeat(1, 1, 33)
    v = torch.linspace(-2, 2, 33)
    v[:3] = torch.tensor([0.0, 1e-30, -1e-38])
    weight = torch.rand(1, len(large), len(large))
    expected, expected_grads = grads(exact, [x.double() for x in (query, key, v)], weight.double())
    with native.at_level(level):
        found, found_grads = grads(c.scores, [query, key, v], weight)
        for size in (1e25, 1e37):
            huge = c.scores(query, key, size * v)
            assert error(huge / size, expected) <= 1e-5
    assert error(found, expected) <= 1e-5  # v adds up to nothing, so that little is left
    for a, b in zip(found_grads, expected_grads, strict=True):
        assert a.isfinite().all()
        assert error(a, b) <= 1e-5


@needs_c
@pytest.mark.parametrize("level", LEVELS)
def test_products_of_features_that_are_all_large_stay_finite(level, reciprocal):
    """Up to the bound of each code path, where all factors of a product are largest."""
    v = torch.randn(64, generator=torch.Generator().manual_seed(1))
    with native.at_level(level):
        for step in range(1, 180):
            x = torch.full((1, 3, 64), step / 4)
            found = c.scores(x, x[:, :2], v)
            assert error(found, exact(x, x[:, :2], v)) <= 2e-6, step / 4


@needs_c
@pytest.mark.parametrize("level", LEVELS)
def test_infinity_and_nan_are_what_tanh_makes_of_them(level):
    query = torch.zeros(1, 3, 4)
    query[0, 0, 0], query[0, 1, 1] = torch.inf, torch.nan
    key = torch.zeros(1, 6, 4)
    key[0, 5, 0] = -torch.inf
    with native.at_level(level):
        found = c.scores(query, key, torch.ones(4))
    expected = exact(query, key, torch.ones(4))
    torch.testing.assert_close(found.double(), expected, equal_nan=True)


@needs_c
@pytest.mark.parametrize("queries", [700, 513])
def test_long_sequences_go_by_chunks(queries, monkeypatch):
    """More queries than a chunk (of 512) has, and weights made again from the log-sum-exp."""
    monkeypatch.setattr(additive_grad, "KEPT", 0)
    g = torch.Generator().manual_seed(1)
    shapes = ((2, queries, 8), (2, 90, 8), (8,), (2, 90, 5))
    inputs = [torch.randn(*shape, generator=g) for shape in shapes]
    lengths = torch.tensor([90, 31])
    weight = torch.randn(2, queries, 5, generator=g)

    def ours(query, key, v, value):
        return c.attend(query, key, v, value, lengths=lengths, scale=0.7)[0]

    def truth(query, key, v, value):
        mask = torch.arange(90) < lengths[:, None, None]
        scores = 0.7 * exact(query, key, v).masked_fill(~mask, -torch.inf)
        return torch.softmax(scores, -1) @ value

    found, found_grads = grads(ours, inputs, weight)
    expected, expected_grads = grads(truth, [x.double() for x in inputs], weight.double())
    assert error(found, expected) <= 2e-6
    for a, b in zip(found_grads, expected_grads, strict=True):
        assert error(a, b) <= 1e-5


@needs_c
@pytest.mark.parametrize("kept", [0, 1 << 21])
@pytest.mark.parametrize("layout", ["turned", "apart", "broadcast"])
def test_masks_are_read_by_their_strides(layout, kept, monkeypatch):
    monkeypatch.setattr(additive_grad, "KEPT", kept)
    g = torch.Generator().manual_seed(1)
    inputs = [torch.randn(*s, generator=g) for s in ((2, 9, 8), (2, 13, 8), (8,), (2, 13, 5))]
    weight = torch.randn(2, 9, 5, generator=g)
    allowed = torch.rand(2, 13, 18, generator=g) > 0.4
    mask = {
        "turned": allowed[..., :9].mT,
        "apart": allowed.mT.contiguous().mT[..., ::2].mT,
        "broadcast": allowed[1, :, :1].T.expand(2, 9, 13),
    }[layout]
    assert mask.stride() != (117, 13, 1)

    def truth(query, key, v, value):
        scores = exact(query, key, v).masked_fill(~mask, -torch.inf)
        return torch.softmax(scores, -1) @ value

    found, found_grads = grads(lambda *x: c.attend(*x, mask=mask)[0], inputs, weight)
    expected, expected_grads = grads(truth, [x.double() for x in inputs], weight.double())
    assert error(found, expected) <= 2e-6
    for a, b in zip(found_grads, expected_grads, strict=True):
        assert error(a, b) <= 1e-5


@needs_c
def test_the_number_of_threads_changes_no_bit(monkeypatch):
    g = torch.Generator().manual_seed(1)
    inputs = [torch.randn(*s, generator=g) for s in ((3, 40, 70), (3, 50, 70), (70,), (3, 50, 9))]
    weight = torch.randn(3, 40, 9, generator=g)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(additive_calls, "_threads", lambda work, n=threads: n)
        out, gradients = grads(lambda q, k, v, x: c.attend(q, k, v, x)[0], inputs, weight)
        found.append((out, *gradients))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


# Without C ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("block", [1 << 18, 300])
def test_blocks_of_pytorch(scale, block, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", block)
    g = torch.Generator().manual_seed(1)
    inputs = [draw(g, (2, n, 48), scale) for n in (17, 21)] + [torch.randn(48, generator=g)]
    weight = torch.randn(2, 17, 21, generator=g)
    expected, expected_grads = grads(exact, [x.double() for x in inputs], weight.double())
    found, found_grads = grads(blocks.score_blocks, inputs, weight)
    assert error(found, expected) <= 2e-6
    for a, b in zip(found_grads, expected_grads, strict=True):
        assert error(a, b) <= 1e-5
    if block == 300:
        tiny = [x[:1, :3, :4].double().requires_grad_() for x in inputs[:2]]
        assert torch.autograd.gradcheck(blocks.score_blocks, (*tiny, inputs[2][:4].double()))


def test_blocks_of_pytorch_by_head_and_of_nothing():
    query, key, v = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.randn(3, 8)
    torch.testing.assert_close(blocks.score_blocks(query, key, v), exact(query, key, v).float())
    assert blocks.score_blocks(query[:, :, :0], key, v).shape == (2, 3, 0, 5)


@pytest.mark.parametrize("shape", [(2, 3), (2,), (5, 2, 3)])
def test_the_plain_form_takes_any_batch_and_heads(shape):
    query, key = torch.randn(*shape, 4, 6), torch.randn(*shape, 7, 6)
    for v in (torch.randn(6), torch.randn(shape[-1], 6)):
        assert error(eager.additive_scores(query, key, v), exact(query, key, v)) < 1e-6
    rows = eager.additive_scores(query.view(-1, 4, 6), key.view(-1, 7, 6), v, heads=len(v))
    assert error(rows.view(*shape, 4, 7), exact(query, key, v)) < 1e-6


@pytest.mark.parametrize(("keys", "form"), [(1 << 15, "plain"), ((1 << 15) + 1, "triton")])
def test_small_calls_on_a_gpu_are_plain(monkeypatch, keys, form):
    """Up to 2^21 features of pairs, where Triton's launches would cost more than the work."""
    called = []
    monkeypatch.setattr(blocks.native, "unsupported_reason", lambda *_: "on a GPU")
    monkeypatch.setattr(blocks.triton, "supports", lambda *_: True)
    monkeypatch.setattr(blocks.triton, "additive_scores", noted(called, "triton"))
    monkeypatch.setattr(blocks.eager, "additive_scores", noted(called, "plain"))
    blocks.additive_scores(torch.empty(1, 4, 16), torch.empty(1, keys, 16), torch.empty(16))
    assert called == [form]
