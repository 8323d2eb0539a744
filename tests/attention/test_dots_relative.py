"""Relative keys and values of short sequences in C, against the reference in float64."""

import itertools

import pytest
import torch

from regard import native
from regard.attention import (
    Attention,
    Causal,
    Lengths,
    MultiHead,
    Ragged,
    RelativeKeys,
    RelativeValues,
    Softmax,
    WeightedSum,
    Window,
    attend,
    explain,
    kernels,
)
from regard.attention._ops.cpu.dots import CALL, Near, dots
from regard.attention.ragged import ragged_is_faster
from regard.errors import RequestError
from tests.attention.test_dots import LEVELS, check_packed, check_twice, laid_out, relative

pytestmark = pytest.mark.skipif(
    native.unavailable_reason(CALL) is not None, reason="no C functions here"
)

PARTS = ("keys", "values", "both")


def tables(parts, clip, heads, size, width, dropout=0.0):
    score = RelativeKeys(size, clip, heads=heads) if parts != "values" else None
    read = RelativeValues(width, clip, heads=heads, dropout=dropout) if parts != "keys" else None
    made = {"score": score, "read": read}
    return {name: part for name, part in made.items() if part is not None}


def learned(parts):
    return [part.table for part in parts.values() if hasattr(part, "table")]


def doubled(parts):
    """Copies in float64."""
    made = {}
    for name, part in parts.items():
        kind, table = type(part), part.table.detach().double()
        heads = table.shape[0] if table.dim() == 3 else None
        made[name] = kind(table.shape[-1], part.clip, heads=heads).double()
        made[name].table.data.copy_(table)
    return made


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize(
    ("sizes", "clip", "mask", "at"),
    [
        ((3, 4, 27, 27, 32, 32), 16, None, 0),
        ((3, 2, 33, 33, 32, 32), 4, "causal", 0),
        ((4, 1, 7, 33, 5, 3), 40, "both", 26),
        ((2, 2, 13, 40, 16, 24), 2, "lengths", 3),
        ((2, 2, 20, 5, 8, 8), 0, "causal", 0),
        ((2, 2, 5, 20, 40, 8), 7, "causal", 15),
        ((2, 2, 5, 20, 40, 8), 7, None, -9),
        ((2, 3, 18, 18, 20, 20), 9, "right", 0),
        ((2, 3, 70, 70, 20, 20), 3, "window", 0),
        ((2, 3, 70, 70, 20, 20), 16, "window", 0),
        ((2, 2, 13, 40, 16, 24), 2, "window", 27),
        ((2, 2, 20, 5, 8, 8), 4, "left", -3),
        ((2, 3, 90, 90, 16, 16), 16, None, 0),
        ((1, 1, 2, 1, 1, 1), 1, None, 0),
    ],
)
def test_outputs_and_gradients_against_float64(level, parts, sizes, clip, mask, at):
    torch.manual_seed(1)
    batch, heads, queries, keys, size, width = sizes
    own = tables(parts, clip, heads if clip % 2 else None, size, width)
    query = laid_out(batch, heads, queries, size, "rows").requires_grad_()
    key = laid_out(batch, heads, keys, size, "rows").requires_grad_()
    value = laid_out(batch, heads, keys, width, "within").requires_grad_()
    lengths = torch.randint(0, keys + 1, (batch, 1))
    lengths[0], lengths[-1] = keys, 0
    given = {
        None: None, "causal": Causal(), "lengths": Lengths(lengths), "right": Window(None, 2),
        "both": Lengths(lengths) & Causal(), "window": Lengths(lengths) & Window(5, 3),
        "left": Window(2, None),
    }[mask]  # fmt: skip
    grad = torch.randn(batch, heads, queries, width)
    with native.at_level(level), kernels("dots"):
        got = attend(query, key, value, mask=given, at=at, **own).context
        found = torch.autograd.grad(got, (query, key, value, *learned(own)), grad)
    exact = [x.detach().double().requires_grad_() for x in (query, key, value)]
    wide = doubled(own)
    with kernels("reference"):
        context = attend(*exact, mask=given, at=at, **wide).context
    expected = torch.autograd.grad(context, (*exact, *learned(wide)), grad.double())
    assert relative(got.detach(), context.detach()) < 3e-6
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert relative(one, other) < 2e-5 or (one - other).abs().max() < 3e-6


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("mask", [None, Causal(), Window(None, 1), Window(2, 1)])
@pytest.mark.parametrize("heads", [None, 2])
def test_packed_sequences_are_one_call_and_as_one_by_one(parts, mask, heads):
    torch.manual_seed(8)
    own = tables(parts, 3, heads, 6, 4)
    given = own if mask is None else {**own, "mask": mask}
    assert ragged_is_faster(given, 20)
    check_packed((5, 2, 9, 3, 12), given, "relative", learned(own))


@pytest.mark.parametrize("parts", ["values", "both"])
def test_dropped_weights_read_no_vector_of_their_offset(parts):
    torch.manual_seed(5)
    heads, n, size, p = 2, 24, 8, 0.25
    given = [torch.randn(3, heads, n, size, requires_grad=True) for _ in range(3)]
    own = tables(parts, 5, heads, size, size, dropout=p)
    found = []
    for level, count in itertools.product(LEVELS, (1, 2)):
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        torch.manual_seed(6)
        try:
            with native.at_level(level), kernels("dots"):
                context = attend(*given, mask=Causal(), **own).context
                leaves = (*given, *learned(own))
                found.append((context, *torch.autograd.grad(context.square().sum(), leaves)))
        finally:
            torch.set_num_threads(before)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
    # The same weights are dropped as without relative positions: those of values of the identity.
    torch.manual_seed(6)
    eye = torch.eye(n).expand(3, heads, n, n).contiguous()
    with kernels("dots"):
        usual = attend(*given[:2], eye, mask=Causal(), read=WeightedSum(p)).context
    kept = (usual.detach() != 0).double() / (1 - p)
    exact = [x.detach().double().requires_grad_() for x in given]
    wide = doubled(own)
    scores = attend_scores(exact[0], exact[1], wide.get("score"), n, size)
    weights = scores.softmax(-1) * kept
    i = torch.arange(n)
    offsets = (i - i[:, None]).clamp(-5, 5) + 5
    by_offset = wide["read"].table[:, offsets]  # (head, Q, K, size)
    context = weights @ exact[2] + torch.einsum("bhqk,hqkd->bhqd", weights, by_offset)
    expected = torch.autograd.grad(context.square().sum(), (*exact, *learned(wide)))
    for one, two in zip(found[0], (context, *expected), strict=True):
        torch.testing.assert_close(one.double(), two, rtol=1e-4, atol=1e-4)


def attend_scores(query, key, score, n, size):
    """Causal scores by the equation."""
    ahead = torch.ones(n, n, dtype=torch.bool).triu(1)
    own = query @ key.mT
    if score is not None:
        i = torch.arange(n)
        offsets = (i - i[:, None]).clamp(-5, 5) + 5
        own = own + torch.einsum("bhqd,hqkd->bhqk", query, score.table[:, offsets])
    return (own / size**0.5).masked_fill(ahead, -torch.inf)


def test_bfloat16_is_rounded_at_the_ends_only():
    torch.manual_seed(4)
    given = [torch.randn(2, 3, 19, 20).bfloat16().requires_grad_() for _ in range(3)]
    own = tables("both", 4, 3, 20, 20)
    with kernels("dots"):
        got = attend(*given, **own).context
        found = torch.autograd.grad(got.float().square().sum(), (*given, *learned(own)))
    exact, wide = [x.detach().double().requires_grad_() for x in given], doubled(own)
    with kernels("reference"):
        context = attend(*exact, **wide).context
    expected = torch.autograd.grad(context.square().sum(), (*exact, *learned(wide)))
    assert got.dtype == torch.bfloat16
    assert [x.dtype for x in found] == [torch.bfloat16] * 3 + [torch.float32] * 2
    assert relative(got.detach(), context.detach()) < 2**-8
    for one, other in zip(found, expected, strict=True):
        assert relative(one, other) < 2**-7


def test_a_temperature_divides_relative_scores_too():
    torch.manual_seed(2)
    given = [torch.randn(2, 1, 5, 4, requires_grad=True) for _ in range(3)]
    own = tables("both", 2, None, 4, 4)
    with kernels("dots"):
        got = attend(*given, select=Softmax(0.4), **own).context
    exact = [x.detach().double() for x in given]
    with kernels("reference"):
        expected = attend(*exact, select=Softmax(0.4), **doubled(own)).context
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mask", [None, Window(1, 0)])
def test_second_derivatives_of_the_tables(mask):
    torch.manual_seed(3)
    given = [torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3)]
    own = tables("both", 2, 2, 4, 4)
    check_twice((*given, *learned(own)), given, mask=mask, **own)


def test_a_layer_learns_without_padding_and_gives_what_it_gives_with_it():
    torch.manual_seed(9)
    own = tables("both", 3, 3, 4, 4)
    layer = MultiHead(12, 3, Attention(own["score"], read=own["read"], mask=Causal()))
    lengths = torch.tensor([5, 1, 8])
    x = torch.randn(3, 8, 12)
    packed = Ragged.from_padded(x, lengths)
    assert layer.ragged_is_faster(8)
    assert "dots" in str(explain(layer))
    got = layer(packed, packed).context
    padded = layer(x, x, mask=Lengths(lengths)).context
    torch.testing.assert_close(got, Ragged.from_padded(padded, lengths).tensor)


def test_what_c_does_not_do_goes_another_way():
    x = torch.randn(2, 2, 5, 4, requires_grad=True)
    two = {"score": RelativeKeys(4, 2), "read": RelativeValues(4, 3)}
    with pytest.raises(RequestError, match="clipped at different distances"), kernels("dots"):
        attend(x, x, x, **two)
    assert not ragged_is_faster(two, 9)
    attend(x, x, x, **two)
    three = torch.randn(2, 5, 4, requires_grad=True)
    refused = pytest.raises(RequestError, match="for 2 heads, and the scores have none")
    with refused, kernels("dots"):
        attend(three, three, three, score=RelativeKeys(4, 2, heads=2))


@pytest.mark.parametrize("wrong", [(1 << 40) + 1, -(1 << 40) - 1])
def test_places_out_of_range_are_refused(wrong):
    x = torch.randn(3, 1, 4)
    spans = torch.tensor([[0], [3], [0], [3], [1 << 40], [wrong], [-1 << 40]])
    with pytest.raises(IndexError, match="out of range"):
        dots(x, x, x, spans, 3, 3, 0.5, near=Near(torch.randn(1, 5, 4), clip=2))


def test_a_table_that_is_too_small_for_its_clip_is_refused():
    x = torch.randn(3, 1, 4)
    spans = torch.tensor([[0], [3], [0], [3], [1 << 40], [0], [-1 << 40]])
    with pytest.raises(RuntimeError, match="sizes do not fit"):
        dots(x, x, x, spans, 3, 3, 0.5, near=Near(torch.randn(1, 5, 4), clip=8))
