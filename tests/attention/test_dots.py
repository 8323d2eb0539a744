"""Dot products of short sequences in C, against NumPy, the reference and PyTorch."""

import numpy as np
import pytest
import torch

from regard import native, watch
from regard.attention import (
    Attention,
    Causal,
    Cosine,
    Dense,
    Dot,
    General,
    Lengths,
    MultiHead,
    Ragged,
    ScaledDot,
    Softmax,
    WeightedSum,
    Window,
    attend,
    attend_ragged,
    explain,
    kernels,
)
from regard.attention._kernels.dispatch import choose
from regard.attention._kernels.dots import Dots
from regard.attention._ops.cpu.dots import CALL, dots
from regard.attention.call import Call
from regard.attention.ragged import ragged_is_faster
from regard.errors import RequestError
from tests.attention.reference import slow_attend

pytestmark = pytest.mark.skipif(
    native.unavailable_reason(CALL) is not None, reason="no C functions here"
)

LEVELS = ("AVX-512", "AVX2", "portable")


def laid_out(batch, heads, n, size, layout):
    """(batch, heads, n, size) of random numbers, in memory as `layout` says."""
    if layout == "rows":  # as a projection leaves it
        return torch.randn(batch, n, heads, size).transpose(1, 2)
    if layout == "within":  # a part of a wider product
        return torch.randn(batch, n, 3, heads, size)[:, :, 1].transpose(1, 2)
    if layout == "across":  # the last axis is not the nearest
        return torch.randn(batch, heads, size, n).transpose(2, 3)
    return torch.randn(batch, heads, n, size)


def relative(got, expected):
    return float((got.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-30))


def check_packed(keys, parts, other, learned=()):
    """Packed sequences in one call of C, against one by one by another kernel; with gradients."""
    sizes = ((3, 7, 1, 0, 12), 6), (keys, 6), (keys, 4)
    query, key, value = (Ragged.of([torch.randn(n, 2, of) for n in each]) for each, of in sizes)
    leaves = [x.tensor.requires_grad_() for x in (query, key, value)] + list(learned)
    with kernels("dots"):
        one = attend_ragged(query, key, value, **parts).tensor
    with kernels(other):
        two = attend_ragged(query, key, value, **parts).tensor
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    grad = torch.randn_like(one)
    for a, b in zip(
        torch.autograd.grad(one, leaves, grad), torch.autograd.grad(two, leaves, grad), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def twice(leaves, given, **parts):
    """Second derivatives of attention."""
    context = attend(*given, **parts).context
    first = torch.autograd.grad(context.square().sum(), leaves, create_graph=True)
    return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)


def check_twice(leaves, given, **parts):
    with kernels("dots"):
        found = twice(leaves, given, **parts)
    with kernels("reference"):
        expected = twice(leaves, given, **parts)
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("layout", ["rows", "within", "across", "plain"])
@pytest.mark.parametrize(
    ("sizes", "mask"),
    [
        ((3, 4, 27, 27, 64, 64), None),
        ((3, 2, 33, 33, 32, 32), "causal"),
        ((4, 1, 7, 33, 5, 3), "both"),
        ((2, 2, 13, 40, 16, 24), "lengths"),
        ((2, 2, 20, 5, 8, 8), "causal"),
        ((2, 2, 5, 20, 40, 8), "causal"),
        ((2, 3, 18, 18, 20, 20), "right"),
        ((2, 3, 70, 70, 20, 20), "window"),
        ((2, 2, 20, 5, 8, 8), "window"),
        ((3, 2, 40, 40, 8, 8), "left"),
        ((3, 2, 37, 37, 8, 8), "behind"),
        ((1, 1, 2, 1, 1, 1), None),
    ],
)
def test_outputs_and_gradients_against_float64(level, layout, sizes, mask):
    torch.manual_seed(1)
    batch, heads, queries, keys, size, width = sizes
    query = laid_out(batch, heads, queries, size, layout).requires_grad_()
    key = laid_out(batch, heads, keys, size, layout).requires_grad_()
    value = laid_out(batch, heads, keys, width, layout).requires_grad_()
    lengths = torch.randint(0, keys + 1, (batch, 1))
    lengths[0], lengths[-1] = keys, 0
    given = {
        None: None, "causal": Causal(), "lengths": Lengths(lengths), "right": Window(None, 2),
        "both": Lengths(lengths) & Causal(), "window": Lengths(lengths) & Window(5, 3),
        "left": Window(2, None), "behind": Causal() & Window(9, 20),
    }[mask]  # fmt: skip
    grad = torch.randn(batch, heads, queries, width)
    with native.at_level(level), kernels("dots"):
        got = attend(query, key, value, mask=given).context
        found = torch.autograd.grad(got, (query, key, value), grad)
    exact = [x.detach().double().requires_grad_() for x in (query, key, value)]
    with kernels("reference"):
        context = attend(*exact, mask=given).context
    expected = torch.autograd.grad(context, exact, grad.double())
    assert relative(got.detach(), context.detach()) < 2e-6
    for one, other in zip(found, expected, strict=True):
        assert relative(one, other) < 1e-5 or (one - other).abs().max() < 1e-6


def test_against_loops_in_numpy():
    torch.manual_seed(2)
    query, key, value = (torch.randn(2, n, 4, requires_grad=True) for n in (3, 5, 5))
    lengths = torch.tensor([5, 3])
    got = attend(query, key, value, mask=Lengths(lengths)).context
    allowed = np.arange(5) < lengths.numpy()[:, None, None] + np.zeros((1, 3, 1))
    expected, _ = slow_attend(
        *(x.detach().double().numpy() for x in (query, key, value)),
        lambda q, k, _: q @ k / 2.0, allowed,
    )  # fmt: skip
    np.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-6)


def test_a_temperature_divides_the_scores():
    torch.manual_seed(2)
    given = [torch.randn(2, n, 4, requires_grad=True) for n in (3, 5, 5)]
    select = Softmax(0.4)
    packed = [Ragged.of(list(x)) for x in given]
    with kernels("dots"):
        got = attend(*given, select=select).context
        together = attend_ragged(*packed, select=select).tensor
    query, key, value = (x.detach().double() for x in given)
    expected = torch.softmax(query @ key.mT / 2.0 / 0.4, -1) @ value
    for found in (got, together.view(2, 3, 4)):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


def test_large_scores_and_huge_ones_are_as_in_float64():
    torch.manual_seed(3)
    query = (torch.randn(2, 9, 16) * 40).requires_grad_()
    key, value = (torch.randn(2, 9, 16) * 40).requires_grad_(), torch.randn(2, 9, 16)
    with kernels("dots"):
        got = attend(query, key, value, score=Dot()).context
    found = torch.autograd.grad(got.sum(), (query, key))
    exact = [x.detach().double().requires_grad_() for x in (query, key, value)]
    with kernels("reference"):
        context = attend(*exact, score=Dot()).context
    assert relative(got.detach(), context.detach()) < 2e-6
    assert all(x.isfinite().all() for x in (got, *found))


@pytest.mark.parametrize("level", LEVELS)
def test_bfloat16_is_rounded_at_the_ends_only(level):
    torch.manual_seed(4)
    given = [torch.randn(2, 3, n, 20).bfloat16().requires_grad_() for n in (11, 19, 19)]
    with native.at_level(level), kernels("dots"):
        got = attend(*given).context
        found = torch.autograd.grad(got.float().square().sum(), given)
    exact = [x.detach().double().requires_grad_() for x in given]
    with kernels("reference"):
        context = attend(*exact).context
    expected = torch.autograd.grad(context.square().sum(), exact)
    assert got.dtype == torch.bfloat16
    assert relative(got.detach(), context.detach()) < 2**-8
    for one, other in zip(found, expected, strict=True):
        assert relative(one, other) < 2**-7


def test_dropped_weights_are_the_same_at_every_level_and_in_the_backward_pass():
    """With the identity for values the context is the weights: 0, or the softmax over 1 - p."""
    torch.manual_seed(5)
    p, n = 0.25, 48
    query, key = (torch.randn(4, 2, n, 8, requires_grad=True) for _ in range(2))
    value = torch.eye(n).expand(4, 2, n, n).contiguous().requires_grad_()
    read = WeightedSum(p)
    found = []
    for level in LEVELS:
        torch.manual_seed(6)
        with native.at_level(level), kernels("dots"):
            context = attend(query, key, value, read=read).context
        found.append((context, *torch.autograd.grad(context.square().sum(), (query, key, value))))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)
    weights = torch.softmax(query @ key.mT / 8**0.5, -1)
    kept = (found[0][0] != 0).float()
    count = kept.numel()
    assert abs(1 - kept.mean() - p) < 5 * (p * (1 - p) / count) ** 0.5
    torch.testing.assert_close(found[0][0], weights * kept / (1 - p), rtol=1e-4, atol=1e-6)
    expected = torch.autograd.grad(
        ((weights * kept / (1 - p)) @ value).square().sum(), (query, key, value)
    )
    for one, two in zip(found[0][1:], expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    rows = kept.flatten(0, 2)  # neither rows nor matrices share what they drop
    assert len(rows.unique(dim=0)) == len(rows)
    correlation = ((kept[..., 1:] - 0.75) * (kept[..., :-1] - 0.75)).mean() / (p * (1 - p))
    assert abs(correlation) < 0.05


@pytest.mark.parametrize("level", LEVELS)
def test_weights_of_a_window_are_dropped_within_it_and_the_same_backward(level):
    torch.manual_seed(5)
    p, n, mask = 0.25, 48, Window(20, 9)
    query, key = (torch.randn(4, 2, n, 8, requires_grad=True) for _ in range(2))
    value = torch.eye(n).expand(4, 2, n, n).contiguous().requires_grad_()
    leaves = query, key, value
    with native.at_level(level), kernels("dots"):
        context = attend(*leaves, mask=mask, read=WeightedSum(p)).context
        found = torch.autograd.grad(context.square().sum(), leaves)
    sees = mask.dense(n, n, at=0, device=torch.device("cpu"))
    kept = (context.detach() != 0).float()
    assert (kept[..., ~sees] == 0).all()
    assert abs(1 - kept[..., sees].mean() - p) < 0.02
    scores = (query @ key.mT / 8**0.5).masked_fill(~sees, -torch.inf)
    weights = torch.softmax(scores, -1) * kept / (1 - p)
    torch.testing.assert_close(context, weights, rtol=1e-4, atol=1e-6)
    expected = torch.autograd.grad((weights @ value).square().sum(), leaves)
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_two_threads_do_the_same():
    torch.manual_seed(7)
    given = [torch.randn(40, 4, 30, 64, requires_grad=True) for _ in range(3)]
    found = []
    before = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            with kernels("dots"):
                context = attend(*given, mask=Causal()).context
            found.append((context, *torch.autograd.grad(context.square().sum(), given)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


def call(queries=9, keys=9, size=8, learns=True, dtype=torch.float32, **parts):
    made = [torch.randn(2, n, size, dtype=dtype) for n in (queries, keys, keys)]
    if learns:
        made[0].requires_grad_()
    named = dict(zip(("query", "key", "value"), made, strict=True))
    given = {"score": ScaledDot(), "select": Softmax(), "read": WeightedSum(), **parts}
    return Call(**given, **named)


def test_it_is_taken_for_what_is_learnt_of_short_sequences():
    assert choose(call()).name == "dots"
    for mask in (Causal(), Window(2, 2), Window(1 << 50, None) & Causal()):
        assert choose(call(mask=mask)).name == "dots"
    assert choose(call(learns=False, read=WeightedSum(0.1))).name == "dots"
    for other, why in (
        (call(learns=False), "used only in training"),
        (call(learns=False, read=WeightedSum(0.1).eval()), "used only in training"),
        (call(queries=1), "one query"),
        (call(queries=300, keys=300), "short sequences"),
        (call(size=300), "short sequences"),
        (call(dtype=torch.float64), "float64"),
        (call(mask=Dense(torch.ones(9, 9, dtype=torch.bool))), "Dense"),
        (call(read=WeightedSum(1.0)), "all weights"),
        (call(at=torch.tensor([0, 1])), "at different positions"),
    ):
        assert choose(other).name == "sdpa"
        assert why in str(Dots().unsupported_reason(other))
    assert "training on short sequences" in str(explain(Attention())[""])


@pytest.mark.nohook
@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_graph_is_of_pytorch_s_own_operators(strict):
    x = torch.randn(2, 5, 8)
    layer = MultiHead(8, 2)
    program = torch.export.export(layer, (x, x), strict=strict)
    assert "regard" not in str(program.graph)
    torch.testing.assert_close(program.module()(x, x).context, layer(x, x).context)


def test_transforms_of_functions_and_second_derivatives_use_another_kernel():
    x = torch.randn(3, 5, 8)
    torch.func.vmap(torch.func.grad(lambda y: attend(y, y).context.sum()))(x)
    x.requires_grad_()

    def twice():
        (first,) = torch.autograd.grad(attend(x, x).context.square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    with kernels("dots"):
        found = twice()
    with kernels("reference"):
        torch.testing.assert_close(found, twice(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("score", [None, Dot(0.3), Cosine(), "general"])
@pytest.mark.parametrize("mask", [None, Causal(), Window(None, 1), Window(2, 1)])
def test_packed_sequences_are_one_call_and_as_one_by_one(score, mask):
    torch.manual_seed(8)
    score = General(6, 6) if score == "general" else score
    parts = {} if mask is None else {"mask": mask}
    if score is not None:
        parts["score"] = score
    check_packed((5, 2, 9, 3, 0), parts, "sdpa")


def test_heads_over_packed_sequences_are_heads_over_a_padded_batch():
    torch.manual_seed(9)
    layer = MultiHead(12, 3, Attention(mask=Causal()), bias=True)
    lengths = torch.tensor([5, 1, 8])
    x = torch.randn(3, 8, 12)
    packed = Ragged.from_padded(x, lengths)
    assert layer.ragged_is_faster(8)
    got = layer(packed, packed).context
    padded = layer(x, x, mask=Lengths(lengths)).context
    torch.testing.assert_close(got, Ragged.from_padded(padded, lengths).tensor)
    with pytest.raises(RequestError, match="as ragged as the queries"):
        layer(packed, x)
    with pytest.raises(RequestError, match="has no need_weights"):
        layer(packed, packed, need_weights=True)


def test_nobody_packs_where_it_would_not_be_one_call():
    assert ragged_is_faster({}, 100)
    assert not ragged_is_faster({}, 1000)
    assert not ragged_is_faster({"mask": Dense(torch.ones(1, 1, dtype=torch.bool))}, 100)
    assert not ragged_is_faster({"read": WeightedSum(scale="root length")}, 100)
    with kernels("sdpa"):
        assert not ragged_is_faster({}, 100)
    assert not MultiHead(8, 2).double().ragged_is_faster(10)


@pytest.mark.parametrize("mask", [None, Causal()])
def test_watchers_see_packed_sequences_as_a_padded_batch(mask):
    torch.manual_seed(11)
    layer = MultiHead(12, 3, Attention(mask=mask))
    sizes = torch.tensor([5, 1, 8]), torch.tensor([4, 2, 8])
    x, y = torch.randn(3, 8, 12), torch.randn(3, 8, 12)
    packed = [Ragged.from_padded(z, n) for z, n in zip((x, y), sizes, strict=True)]
    with watch(layer) as seen:
        layer(*packed)
    (weights,) = seen[""].steps
    for row in range(3):
        queries, keys = (int(n[row]) for n in sizes)
        with watch(layer) as alone:
            layer(x[row : row + 1, :queries], y[row : row + 1, :keys])
        (expected,) = alone[""].steps
        torch.testing.assert_close(weights[row, :, :queries, :keys], expected[0])
        assert (weights[row, :, :, keys:] == 0).all()


def test_spans_that_leave_rows_out_give_zeros_there():
    torch.manual_seed(10)
    query, key, value = (torch.randn(6, 2, 4, requires_grad=True) for _ in range(3))
    spans = torch.tensor([[1], [3], [2], [2], [1 << 40], [0], [-1 << 40]])
    context = dots(query, key, value, spans, 3, 2, 0.5)
    assert (context[[0, 4, 5]] == 0).all()
    expected = torch.softmax(torch.einsum("qhd,khd->hqk", query[1:4], key[2:4]) * 0.5, -1) @ value[
        2:4
    ].transpose(0, 1)
    torch.testing.assert_close(context[1:4].transpose(0, 1), expected)
    grads = torch.autograd.grad(context.sum(), (query, key, value))
    for grad, inside in zip(grads, ([1, 2, 3], [2, 3], [2, 3]), strict=True):
        outside = [i for i in range(6) if i not in inside]
        assert (grad[outside] == 0).all()


def test_sizes_that_do_not_fit_are_refused_before_c_reads_them():
    x, y = torch.randn(2, 5, 8, requires_grad=True), torch.randn(2, 5, 6)
    with pytest.raises(RequestError, match="of one size"):
        attend(x, y, torch.randn(2, 5, 8))
    three, four = Ragged.of([torch.randn(3, 2, 8)]), Ragged.of([torch.randn(4, 2, 8)])
    with pytest.raises(RequestError, match="of one size"):
        attend_ragged(three, Ragged.of([torch.randn(4, 1, 8)]), four)
    with pytest.raises(RequestError, match="a value for each key"):
        attend_ragged(three, four, Ragged.of([torch.randn(3, 2, 8)]))
