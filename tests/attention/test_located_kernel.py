"""Location-aware attention in C against its parts in float64, at each level of instructions."""

import copy

import pytest
import torch

from regard import native
from regard.attention import (
    Additive,
    Attention,
    Coverage,
    Lengths,
    LocationAware,
    PreviousWeights,
    Sharpen,
    Smooth,
    WeightedSum,
    explain,
    kernels,
)
from regard.native import at_level

pytestmark = pytest.mark.skipif(native.library() is None, reason=f"no C: {native.missing()}")

SIZES = [  # batch, queries, keys, hidden, filters, width, values
    (3, 1, 300, 64, 10, 201, 48),
    (2, 3, 7, 5, 3, 5, 9),
    (2, 18, 40, 33, 10, 15, 20),
    (1, 2, 1, 16, 16, 31, 3),
]


def run(layer, tensors, mask, kernel, select=None):
    """Three steps: contexts, weights, and gradients of all that has some."""
    layer = copy.deepcopy(layer).to(tensors[0].dtype)
    key, value, *queries = [x.clone().requires_grad_() for x in tensors]
    with kernels(kernel):
        memory, state, total = layer.remember(key, value, mask=mask), None, 0
        for i, query in enumerate(queries):
            found = layer(query, memory, state=state, need_weights=True)
            state = found.state
            total = total + (found.context.cos() * (i + 1)).sum() + found.weights.square().sum()
    grads = torch.autograd.grad(total, [key, value, *queries, *layer.parameters()])
    return [found.context, found.weights, *grads]


def problem(batch, queries, keys, hidden, filters, width, values, **parts):
    torch.manual_seed(keys)
    score = LocationAware(12, 10, hidden, filters=filters, width=width)
    layer = Attention(score, **({"carry": PreviousWeights(first=0)} | parts))
    sizes = [(batch, keys, 10), (batch, keys, values), *[(batch, queries, 12)] * 3]
    return layer, [torch.randn(s) for s in sizes]


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        scale = b.detach().abs().max().clamp(min=1e-30)
        torch.testing.assert_close(a.double() / scale, b / scale, rtol=0, atol=4e-6)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("level", ["AVX-512", "AVX2", "portable"])
def test_values_and_gradients(size, level):
    layer, tensors = problem(*size)
    lengths = torch.tensor([size[2], size[2] // 2, 0][: size[0]])
    wide = [x.double() for x in tensors]
    expected = run(layer, wide, Lengths(lengths), "reference")
    with at_level(level):
        close(run(layer, tensors, Lengths(lengths), "located"), expected)


@pytest.mark.parametrize("carry", [Coverage(), PreviousWeights(first=0)])
@pytest.mark.parametrize("size", [(3, 1, 300, 64, 48), (2, 3, 7, 5, 9)])
def test_one_feature_without_filters(carry, size):
    """Coverage of a pointer-generator: the additive score with a feature of each key."""
    batch, queries, keys, hidden, values = size
    torch.manual_seed(keys)
    layer = Attention(Additive(12, 10, hidden, bias=True, features=1), carry=carry)
    sizes = [(batch, keys, 10), (batch, keys, values), *[(batch, queries, 12)] * 3]
    tensors = [torch.randn(s) for s in sizes]
    lengths = Lengths(torch.tensor([keys, keys // 2, 0][:batch]))
    expected = run(layer, [x.double() for x in tensors], lengths, "reference")
    close(run(layer, tensors, lengths, "located"), expected)
    close(run(layer, tensors, lengths, "streaming"), expected)
    assert explain(layer)[""].kernel == "located"


@pytest.mark.parametrize("carry", [Coverage(), PreviousWeights()])
def test_masks_temperatures_and_carries(carry):
    layer, tensors = problem(*SIZES[1], carry=carry, select=Sharpen(2.0))
    mask = torch.rand(2, 3, 7) < 0.7
    mask[0, 1] = False
    expected = run(layer, [x.double() for x in tensors], mask, "reference")
    found = run(layer, tensors, mask, "located")
    assert not found[0][0, 1].any()
    close(found, expected)


def test_without_a_memory_and_without_gradients():
    layer, tensors = problem(*SIZES[2])
    key, value, query, *_ = tensors
    with kernels("reference"):
        expected = layer(query, key, value).context
    with kernels("located"):
        torch.testing.assert_close(layer(query, key, value).context, expected)
        with torch.no_grad():
            torch.testing.assert_close(layer(query, key, value).context, expected)


def test_gradients_of_the_keys_are_gathered_once_a_sequence():
    """Again, and after a backward pass that was cut off, they are the same."""
    layer, tensors = problem(*SIZES[1])
    first = run(layer, tensors, None, "located")
    key, value, query, *_ = [x.clone().requires_grad_() for x in tensors]
    memory = layer.remember(key, value)
    one = layer(query, memory)
    two = layer(query, memory, state=one.state)
    torch.autograd.grad(two.context.sum(), [query], retain_graph=True)
    alone = torch.autograd.grad(two.context.sum(), [key, layer.score.v], retain_graph=True)
    again = torch.autograd.grad(two.context.sum(), [key, layer.score.v])
    for a, b in zip(alone, again, strict=True):
        torch.testing.assert_close(a, b)
    for a, b in zip(first, run(layer, tensors, None, "located"), strict=True):
        assert torch.equal(a, b)


def test_threads_change_nothing(monkeypatch):
    layer, tensors = problem(*SIZES[0])
    alone = run(layer, tensors, None, "located")
    monkeypatch.setattr(native, "threads", lambda work: 3)
    for a, b in zip(alone, run(layer, tensors, None, "located"), strict=True):
        assert torch.equal(a, b)


def test_second_derivatives():
    layer, tensors = problem(2, 1, 5, 8, 2, 3, 4)

    def twice(kernel, dtype):
        own = copy.deepcopy(layer).to(dtype)
        key, value, query, *_ = [x.to(dtype, copy=True).requires_grad_() for x in tensors]
        with kernels(kernel):
            memory = own.remember(key, value)
            one = own(query, memory)
            two = own(query, memory, state=one.state)
        (slope,) = torch.autograd.grad(two.context.square().sum(), [query], create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [query, key, *own.parameters()])

    expected = twice("reference", torch.float64)
    for a, b in zip(twice("located", torch.float32), expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=1e-5)


def test_nan_and_large_numbers_come_out_as_they_do_in_pytorch():
    layer, tensors = problem(*SIZES[1])
    tensors[0][0, 2] = torch.nan
    tensors[0][1, 3] = 1e30
    key, value, query, *_ = tensors
    with torch.no_grad():
        found = layer(query, key, value).context
        with kernels("reference"):
            expected = layer(query, key, value).context
    assert found[0].isnan().all()
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("parts", "why"),
    [({"select": Smooth()}, "Smooth is not a Softmax"),
     ({"read": WeightedSum(dropout=0.1)}, "drops no weights"),
     ({"carry": None}, None), ({}, "none")],
)  # fmt: skip
def test_what_it_leaves_to_others(parts, why):
    if why is None:
        layer = Attention(LocationAware(4, 4, 8, filters=17, width=3), carry=Coverage())
        why = "17 filters, and C has 16"
    elif why == "none":
        layer = Attention(Additive(4, 4, 8), carry=Coverage())
        why = "Additive reads no features here"
    else:
        layer, _ = problem(*SIZES[1], **parts)
    said = dict(explain(layer.train())[""].passed_over)
    assert why in said["located"]
