"""Every kernel against the float64 reference: random shapes, masks, dtypes, empty rows."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import native
from regard.attention import (
    Additive,
    Attention,
    Causal,
    Cosine,
    Dense,
    Dot,
    General,
    Lengths,
    Location,
    MultiHead,
    PreviousWeights,
    RelativeBias,
    RelativeKeys,
    RelativeValues,
    ScaledDot,
    Softmax,
    WeightedSum,
    Window,
    attend,
    explain,
    kernels,
)
from regard.errors import RequestError

SCORES = {
    "dot": lambda d: Dot(0.5),
    "scaled": lambda d: ScaledDot(),
    "general": lambda d: General(d, d),
    "cosine": lambda d: Cosine(4.0),
    "additive": lambda d: Additive(d, d, 5),
    "location": lambda d: Location(d, 32),
}
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 6e-2}


def a_mask(kind, batch, queries, keys, generator):
    lengths = torch.randint(0, keys + 1, batch, generator=generator)
    dense = torch.rand(*batch, queries, keys, generator=generator) > 0.5
    return {
        "none": None,
        "lengths": Lengths(lengths),
        "causal": Causal(),
        "window": Window(1, 2),
        "dense": Dense(dense),
        "both": Causal() & Lengths(lengths),
        "either": Window(0, 0) | Lengths(lengths),
        "not": ~Window(0, 0),
    }[kind]


@settings(max_examples=60, deadline=None)
@given(
    score=st.sampled_from(sorted(SCORES)),
    kind=st.sampled_from(["none", "lengths", "causal", "window", "dense", "both", "either", "not"]),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    batch=st.sampled_from([(1,), (3,), (2, 3), (2, 1, 2)]),
    queries=st.integers(1, 6),
    keys=st.integers(1, 9),
    dim=st.sampled_from([1, 4, 8]),
    strided=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_chosen_kernel_agrees_with_float64(
    score, kind, dtype, batch, queries, keys, dim, strided, seed
):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        x = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return x.transpose(-2, -1).contiguous().transpose(-2, -1) if strided else x

    torch.manual_seed(seed)
    layer = Attention(SCORES[score](dim), select=Softmax(0.7)).double()
    inputs = [draw(*batch, queries, dim), draw(*batch, keys, dim), draw(*batch, keys, 3)]
    inputs = [x.to(dtype).double() for x in inputs]  # what the low precision one really gets
    mask = a_mask(kind, batch, queries, keys, generator)
    exact = [x.clone().requires_grad_() for x in inputs]
    with kernels("reference"):
        expected = layer(*exact, mask=mask).context
    weight = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    (expected * weight).sum().backward()
    low = [x.to(dtype).clone().requires_grad_() for x in inputs]
    got = layer.to(dtype)(*low, mask=mask).context
    (got * weight.to(dtype)).sum().backward()
    assert got.dtype == dtype
    bound = TOLERANCE[dtype]
    scale = max(1.0, expected.abs().max().item())
    assert (got.double() - expected).abs().max() <= bound * scale
    for a, b in zip(low, exact, strict=True):
        if a.grad is None and b.grad is None:
            continue  # a location score reads no keys
        assert a.grad.isfinite().all()
        limit = bound * max(1.0, b.grad.abs().max().item()) * (4 if dtype != torch.float64 else 1)
        assert (a.grad.double() - b.grad).abs().max() <= limit


@pytest.mark.parametrize("score", sorted(SCORES))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("forced", [None, "reference"])
def test_rows_with_nothing_to_look_at_are_zeros_with_finite_gradients(score, dtype, forced):
    torch.manual_seed(0)
    layer = Attention(SCORES[score](4)).to(dtype)
    x = [torch.randn(3, n, 4, dtype=dtype, requires_grad=True) for n in (2, 5, 5)]
    mask = Lengths(torch.tensor([0, 5, 2]))
    if forced:
        with kernels(forced):
            out = layer(*x, mask=mask)
    else:
        out = layer(*x, mask=mask)
    assert (out.context[0] == 0).all()
    assert out.context.isfinite().all()
    out.context.float().pow(2).sum().backward()
    for t in (*x, *layer.parameters()):
        if t.grad is not None:
            assert t.grad.isfinite().all()
    assert (x[2].grad[0] == 0).all()


def test_additive_blocks_pass_gradcheck_and_never_store_the_pairs(monkeypatch):
    from regard.attention._ops import additive

    monkeypatch.setattr(additive, "BLOCK", 40)  # many blocks, cut within rows and over rows
    torch.manual_seed(0)
    query, key = torch.randn(3, 4, 5).double(), torch.randn(3, 6, 5).double()
    v = torch.randn(5).double()
    for t in (query, key, v):
        t.requires_grad_()
    expected = torch.tanh(query[:, :, None] + key[:, None]) @ v
    torch.testing.assert_close(additive.additive_scores(query, key, v), expected)
    assert torch.autograd.gradcheck(additive.additive_scores, (query, key, v))
    largest = []
    real = torch.addcmul

    def spy(*args, **kwargs):
        made = real(*args, **kwargs)
        largest.append(made.numel())
        return made

    monkeypatch.setattr(torch, "addcmul", spy)
    additive.additive_scores(query, key, v).sum().backward()
    assert len(largest) >= 2 * 9
    assert max(largest) <= 40


def test_additive_memory_is_far_below_the_pairs():
    """What autograd keeps for backward is the inputs, not (B, Q, K, D)."""
    saved = []

    def pack(t):
        saved.append(t.numel())
        return t

    query, key = torch.randn(2, 50, 32, requires_grad=True), torch.randn(2, 60, 32)
    layer = Attention(Additive(32, 32, 64))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        layer(query, key).context.sum().backward()
    assert max(saved) <= 2 * 60 * 64
    saved.clear()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), kernels("reference"):
        layer(query, key).context.sum().backward()
    assert max(saved) >= 2 * 50 * 60 * 64


def test_choice_and_its_reasons():
    def chosen(**parts):
        return explain(Attention(**parts))[""]

    assert chosen().kernel == "sdpa"
    assert chosen(score=General(4, 4), mask=Causal()).kernel == "sdpa"
    streaming = chosen(score=Additive(4, 4, 4))
    assert streaming.kernel == "streaming"
    why = "Additive is not a dot product"
    other = ("located", "Additive reads no features here")
    assert streaming.passed_over == (("dots", why), ("sdpa", why), other)
    assert f"not dots or sdpa: {why}" in str(streaming)
    assert chosen(position=RelativeBias(2)).kernel == "relative"
    assert chosen(carry=PreviousWeights()).kernel == "reference"
    assert "need_weights" in str(explain(Attention(), need_weights=True)[""])
    model = torch.nn.ModuleDict({"a": MultiHead(8, 2), "b": Attention(Additive(4, 4, 4))})
    assert {k: e.kernel for k, e in explain(model).items()} == {"a": "sdpa", "b": "streaming"}


@pytest.mark.skipif(native.unavailable_reason("regard_dots") is not None, reason="no C functions")
def test_kernels_that_a_call_may_still_use_are_named_first():
    both = RelativeKeys(4, 2), RelativeValues(4, 2)
    assert explain(Attention())[""].names == ["dots", "sdpa"]
    assert explain(Attention(both[0], read=both[1]))[""].names == ["dots", "relative"]
    assert explain(Attention(Additive(4, 4, 4)))[""].names == ["streaming"]
    with kernels("sdpa"):
        assert explain(Attention())[""].names == ["sdpa"]


def test_forcing_a_kernel():
    x = torch.randn(1, 3, 4)
    with (
        pytest.raises(RequestError, match="no attention kernel is called 'flash'"),
        kernels("flash"),
    ):
        pass
    layer = Attention(Additive(4, 4, 4))
    with kernels("sdpa"), pytest.raises(RequestError, match="Additive is not a dot product"):
        layer(x, x)
    with kernels("reference"):
        assert explain(layer)[""].kernel == "reference"
    assert explain(layer)[""].kernel == "streaming"


def test_dropout_of_weights_leaves_the_shown_weights_alone():
    torch.manual_seed(0)
    layer = Attention(read=WeightedSum(dropout=0.5)).train()
    x = torch.randn(2, 6, 4)
    out = layer(x, x, need_weights=True)
    torch.testing.assert_close(out.weights.sum(-1), torch.ones(2, 6))
    assert not torch.allclose(out.context, out.weights @ x)
    layer.eval()
    torch.testing.assert_close(layer(x, x).context, out.weights @ x)


def test_relative_bias_is_added_by_clipped_offset():
    layer = Attention(position=RelativeBias(2), mask=Causal())
    with torch.no_grad():
        layer.position.table.copy_(torch.arange(5.0))
    x = torch.zeros(1, 4, 3)
    weights = layer(x, x, need_weights=True).weights[0]
    for i in range(4):
        expected = torch.softmax(torch.tensor([max(j - i, -2) + 2.0 for j in range(i + 1)]), 0)
        torch.testing.assert_close(weights[i, : i + 1], expected)
    one = layer(x[:, -1:], x, need_weights=True).weights[0]  # a cached step: Q = 1, at = K - 1
    torch.testing.assert_close(one[0], weights[3])


def test_requests_that_make_no_sense_are_refused_with_a_sentence():
    x = torch.randn(2, 3, 4)
    with pytest.raises(RequestError, match="a value for each key"):
        attend(x, x, x[:, :2])
    with pytest.raises(RequestError, match="bool tensor"):
        attend(x, x, x, mask=torch.zeros(3, 3))
    with pytest.raises(RequestError, match="temperature above 0"):
        Softmax(0.0)
    with pytest.raises(RequestError, match="multiple of heads"):
        MultiHead(10, 4)
    with pytest.raises(RequestError, match="left >= 0"):
        Window(-1, 2)
