"""Whatever a caller hands to attention, C reads and writes its own memory alone, and is right.

A few examples here; `make sanitize` runs many of them under AddressSanitizer and UBSan.
"""

import contextlib
import os

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard import native
from regard.attention import (
    Additive,
    Attention,
    Biaffine,
    Causal,
    Cosine,
    Directional,
    DistanceMask,
    Dot,
    Edges,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    General,
    Lengths,
    LocalPredictive,
    NegativeSquaredEuclidean,
    Ragged,
    RelativeBias,
    RelativeKeys,
    RelativeValues,
    ScaledDot,
    SplitLinear,
    Window,
    attend_ragged,
    kernels,
)

SANITIZED = os.environ.get("REGARD_SANITIZED") == "1"
pytestmark = pytest.mark.skipif(native.library() is None, reason="no compiled library")
many = settings(
    max_examples=int(os.environ.get("REGARD_FUZZ", 1000 if SANITIZED else 60)),
    deadline=None,
    derandomize=not SANITIZED,
    suppress_health_check=list(HealthCheck),
)
PARTS = {
    "dot": lambda d: Attention(Dot()),
    "scaled": lambda d: Attention(ScaledDot()),
    "cosine": lambda d: Attention(Cosine()),
    "euclidean": lambda d: Attention(NegativeSquaredEuclidean()),
    "general": lambda d: Attention(General(d, d)),
    "biaffine": lambda d: Attention(Biaffine(d, d, query_bias=False)),
    "additive": lambda d: Attention(Additive(d, d, hidden=d + 1)),
    "features": lambda d: Attention(
        FeatureAdditive(d, d, d), select=FeatureSoftmax(), read=FeatureSum()
    ),
    "local": lambda d: Attention(General(d, d), select=LocalPredictive(d, d, reach=2)),
    "biased": lambda d: Attention(position=RelativeBias(d // 2)),
    "distant": lambda d: Attention(position=DistanceMask(0.2, learned=True)),
    "relative": lambda d: Attention(RelativeKeys(d, 2), read=RelativeValues(d, 3 if d % 2 else 2)),
}
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
EXACT = {torch.float64: 1e-4, torch.float32: 2e-4, torch.bfloat16: 0.1, torch.float16: 0.03}
"""C computes in float32, float64 is PyTorch's."""
NAN, INF = float("nan"), float("inf")
LAYOUTS = ("plain", "turned", "wide", "strided", "broadcast", "negated", "odd")


def laid_out(x, layout):
    """The same numbers, elsewhere."""
    if layout == "turned":
        return x.mT.contiguous().mT
    if layout == "wide":
        return torch.cat([x, x], -1)[..., : x.shape[-1]]
    if layout == "strided":
        return torch.stack([x, x], -1)[..., 0]
    if layout == "broadcast" and len(x):
        return x[:1].expand_as(x)
    if layout == "negated":
        return torch._neg_view(-x)
    if layout == "odd":  # not aligned
        raw = torch.zeros(x.numel() * x.element_size() + 16, dtype=torch.uint8).numpy()
        count = max(x.numel(), 1)
        there = torch.frombuffer(raw, dtype=x.dtype, offset=1, count=count)[: x.numel()]
        return there.view(x.shape).copy_(x)
    return x


@st.composite
def calls(draw):
    sizes = st.sampled_from([0, 1, 2, 3, 5, 8, 16, 17, 33])
    return {
        "part": draw(st.sampled_from(list(PARTS))),
        "batch": draw(st.sampled_from([0, 1, 2, 3])),
        "queries": draw(sizes), "keys": draw(sizes),
        "dim": draw(st.sampled_from([1, 2, 7, 16, 33, 64])),
        "dtype": draw(st.sampled_from(DTYPES)),
        "autocast": draw(st.sampled_from([None, None, torch.bfloat16, torch.float16])),
        "layouts": [draw(st.sampled_from(LAYOUTS)) for _ in range(3)],
        "mask": draw(st.sampled_from(["none", "lengths", "causal", "window", "behind"])),
        "strange": draw(st.sampled_from([None, None, NAN, INF, -INF, 1e30])),
        "learn": draw(st.booleans()), "remember": draw(st.booleans()),
        "seed": draw(st.integers(0, 999)),
    }  # fmt: skip


def a_mask(name, batch, keys):
    return {
        "none": lambda: None,
        "lengths": lambda: Lengths(torch.arange(batch) * 7 % (keys + 1)),
        "causal": Causal,
        "window": lambda: Window(1, 2),
        "behind": lambda: Directional("forward"),
    }[name]()


def run(layer, given, mask, call, kernel=None):
    query, key, value = given
    with contextlib.ExitStack() as stack:
        if kernel is not None:
            stack.enter_context(kernels(kernel))
        elif call["autocast"] is not None:
            stack.enter_context(torch.autocast("cpu", call["autocast"]))
        if call["remember"] and kernel is None:
            memory = layer.remember(key, value, mask=mask)
            return layer(query, memory).context
        return layer(query, key, value, mask=mask).context


@many
@given(call=calls())
def test_attention_is_right_or_refuses(call):
    torch.manual_seed(call["seed"])
    dim, dtype = call["dim"], call["dtype"]
    if call["autocast"] is not None:
        dtype = torch.float32  # PyTorch's own products refuse two narrow types
    layer = PARTS[call["part"]](dim).to(dtype)
    rows = (call["queries"], call["keys"], call["keys"])
    plain = [torch.randn(call["batch"], n, dim) for n in rows]
    if call["strange"] is not None:
        plain[call["seed"] % 3].view(-1)[:1] = call["strange"]
    given = [laid_out(x.to(dtype), how) for x, how in zip(plain, call["layouts"], strict=True)]
    mask = a_mask(call["mask"], call["batch"], call["keys"])
    leaves = [x.detach().requires_grad_() if call["learn"] else x for x in given]
    with torch.set_grad_enabled(call["learn"]):
        context = run(layer, leaves, mask, call)
        if call["learn"]:
            context.float().sum().backward()
    assert context.shape == (call["batch"], call["queries"], dim)
    if call["strange"] is not None:
        return
    exact = PARTS[call["part"]](dim).double()
    exact.load_state_dict(layer.state_dict())
    theirs = [x.detach().double().requires_grad_(call["learn"]) for x in given]
    expected = run(exact, theirs, mask, call, "reference")
    limit = max(EXACT[dtype], EXACT[call["autocast"] or dtype]) * (1 + 3 * (call["part"] != "dot"))
    if dtype in (torch.float32, torch.float64) and call["autocast"] is None:
        torch.testing.assert_close(context.double(), expected.detach(), rtol=limit, atol=limit)
        if call["learn"]:
            expected.sum().backward()
            for own, other in zip(leaves, theirs, strict=True):
                torch.testing.assert_close(
                    own.grad.double(), other.grad, rtol=limit, atol=10 * limit
                )
    elif call["part"] in ("dot", "scaled", "additive", "features"):
        scale = plain[2].abs().max().item() if plain[2].numel() else 1.0
        wrong = (context.double() - expected).abs()
        assert (wrong <= 3 * limit * max(scale, 1.0) * max(1.0, dim**0.5)).all()


@many
@given(
    lengths=st.lists(st.integers(0, 9), max_size=5), part=st.sampled_from(list(PARTS)[:6]),
    dtype=st.sampled_from(DTYPES), low=st.sampled_from([None, torch.bfloat16, torch.float16]),
    causal=st.booleans(), layout=st.sampled_from(LAYOUTS), learn=st.booleans(),
)  # fmt: skip
def test_packed_batches_are_right(lengths, part, dtype, low, causal, layout, learn):
    torch.manual_seed(len(lengths))
    dtype = torch.float32 if low is not None else dtype
    layer = PARTS[part](16).to(dtype)
    x = laid_out(torch.randn(sum(lengths), 16).to(dtype), layout).detach().requires_grad_(learn)
    rows = Ragged(x, torch.tensor([0, *lengths]).cumsum(0))
    mask = Causal() if causal else None
    with contextlib.ExitStack() as stack:
        if low is not None:
            stack.enter_context(torch.autocast("cpu", low))
        context = attend_ragged(rows, rows, score=layer.score, mask=mask).tensor
    if learn:
        context.float().sum().backward()
    at = 0
    exact = PARTS[part](16).double()
    exact.load_state_dict(layer.state_dict())
    limit = 8 * max(EXACT[dtype], EXACT[low or dtype])
    for n in lengths:
        own = x[at : at + n].detach().double()
        if n and low is None and dtype in (torch.float32, torch.float64):
            with kernels("reference"):
                expected = exact(own[None], own[None], own[None], mask=mask).context[0]
            torch.testing.assert_close(
                context[at : at + n].double(), expected, rtol=limit, atol=limit
            )
        at += n


@many
@given(
    nodes=st.integers(1, 20), edges=st.integers(0, 60), heads=st.sampled_from([1, 2, 8]),
    dim=st.sampled_from([1, 5, 8, 16]), dtype=st.sampled_from(DTYPES[:3]), learn=st.booleans(),
    layout=st.sampled_from(LAYOUTS), strange=st.sampled_from([None, float("nan"), 1e30]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_graphs_are_right(nodes, edges, heads, dim, dtype, learn, layout, strange, seed):
    torch.manual_seed(seed)
    ends = torch.randint(nodes, (2, edges))
    mask = Edges.of(ends, nodes)
    layer = Attention(SplitLinear(dim, dim, heads=heads)).to(dtype)
    x = torch.randn(heads, nodes, dim)
    if strange is not None:
        x.view(-1)[0] = strange
    x = laid_out(x.to(dtype), layout).detach().requires_grad_(learn)
    context = layer(x, x, x, mask=mask).context
    if learn:
        context.float().sum().backward()
    assert context.shape == (heads, nodes, dim)
    if strange is None and dtype == torch.float32:
        exact = Attention(SplitLinear(dim, dim, heads=heads)).double()
        exact.load_state_dict(layer.state_dict())
        own = x.detach().double()
        with kernels("reference"):
            expected = exact(own, own, own, mask=mask).context
        torch.testing.assert_close(context.double(), expected, rtol=1e-4, atol=1e-4)
