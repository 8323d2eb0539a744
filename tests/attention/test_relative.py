"""Relative keys, values, biases and distances: equations in NumPy, kernels against float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import (
    ALiBi,
    Attention,
    Block,
    BucketBias,
    Causal,
    Dense,
    Directional,
    DistanceMask,
    Documents,
    Lengths,
    MultiHead,
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
from regard.attention._kernels import tiles
from regard.errors import RequestError

HEADS, D, DV = 2, 4, 3
MASKS = ("none", "lengths", "causal", "window", "dense", "both", "documents", "before", "blocks")
POSITIONS = {
    "none": lambda clip, heads: None,
    "bias": lambda clip, heads: RelativeBias(clip, heads),
    "buckets": lambda clip, heads: BucketBias(4, clip + 2, heads),
    "distance": lambda clip, heads: DistanceMask(0.3, learned=True),
    "fixed": lambda clip, heads: DistanceMask(0.3),
    "alibi": lambda clip, heads: ALiBi(HEADS),
}


def a_mask(kind, queries, keys, generator):
    lengths = torch.randint(0, keys + 1, (2, 1), generator=generator)
    dense = torch.rand(2, 1, queries, keys, generator=generator) > 0.5
    documents = torch.randint(-1, 3, (2, 1, keys), generator=generator)
    own = torch.randint(-1, 3, (2, 1, queries), generator=generator)
    return {
        "none": None,
        "lengths": Lengths(lengths),
        "causal": Causal(),
        "window": Window(2, 1),
        "dense": Dense(dense),
        "both": Causal(left=3) & Lengths(lengths) & (Dense(dense) | ~Window(0, 0)),
        "documents": Documents(documents, queries=own),
        "before": Directional("forward"),
        "blocks": Block(3, left=1) & Causal(),
    }[kind]


def compare(layer, inputs, kernel, tolerance, **call):
    """Context and all gradients of a kernel, against reference in float64."""
    exact = [x.double().detach().requires_grad_() for x in inputs]
    plain = [x.detach().requires_grad_() for x in inputs]
    dtype = inputs[0].dtype
    found = []
    for name, given_inputs, cast in (("reference", exact, torch.float64), (kernel, plain, dtype)):
        layer = layer.to(cast)
        layer.zero_grad()
        with kernels(name):
            context = layer(*given_inputs, **call).context
        weight = torch.linspace(-1, 1, context.numel(), dtype=torch.float64).view(context.shape)
        (context * weight.to(context.dtype)).sum().backward()
        parameters = [p.grad for p in layer.parameters()]
        found.append([context.detach(), *(x.grad for x in given_inputs), *parameters])
    for one, other in zip(*found, strict=True):
        assert other.isfinite().all()
        limit = tolerance * max(1.0, one.abs().max().item())
        assert (one - other.double()).abs().max() <= limit


@pytest.mark.parametrize("heads", [None, HEADS])
@pytest.mark.parametrize("clip", [0, 1, 3, 9])
def test_shaw_is_its_equation(heads, clip):
    """e_ij = q_i (k_j + a^K_clip(j-p)) / sqrt(d), z_i = sum_j w_ij (v_j + a^V_clip(j-p))."""
    batch, queries, keys, at = 2, 3, 6, 2
    score, read = RelativeKeys(D, clip, heads=heads), RelativeValues(DV, clip, heads=heads)
    layer = Attention(score, read=read).double()
    q, k, v = (torch.randn(batch, HEADS, n, d).double() for n, d in ((3, D), (6, D), (6, DV)))
    a_key, a_value = (part.table.detach().numpy() for part in (score, read))
    expected = np.zeros((batch, HEADS, queries, DV))
    for b in range(batch):
        for h in range(HEADS):
            own_key = a_key if heads is None else a_key[h]
            own_value = a_value if heads is None else a_value[h]
            for i in range(queries):
                o = [max(-clip, min(clip, j - (at + i))) + clip for j in range(keys)]
                e = [q[b, h, i].numpy() @ (k[b, h, j].numpy() + own_key[o[j]]) for j in range(keys)]
                w = np.exp(np.array(e) / np.sqrt(D))
                w /= w.sum()
                for j in range(keys):
                    expected[b, h, i] += w[j] * (v[b, h, j].numpy() + own_value[o[j]])
    for kernel in ("reference", "relative"):
        with kernels(kernel):
            got = layer(q, k, v, at=at).context
        np.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("kernel", ["reference", "relative"])
def test_distances_are_their_equations(kernel):
    x = torch.randn(1, 3, 7, D).double()
    for part, slopes in (
        (DistanceMask(0.7), [0.7] * 3),
        (DistanceMask(), [1.5] * 3),
        (ALiBi(3), [2**-4, 2**-8, 2**-2]),
    ):
        with kernels(kernel):
            got = Attention(position=part)(x[:, :, 3:], x, at=3).context.numpy()
        for h, slope in enumerate(slopes):
            for i in range(4):
                one = x[0, h].numpy()
                e = one @ one[3 + i] / np.sqrt(D) - slope * abs(np.arange(7) - (3 + i))
                w = np.exp(e) / np.exp(e).sum()
                np.testing.assert_allclose(got[0, h, i], w @ one, atol=1e-6)


def test_published_slopes():
    assert ALiBi(8).m.tolist() == [2.0**-h for h in range(1, 9)]
    assert ALiBi(1).m.tolist() == [2.0**-8]
    expected = [2.0 ** (-8 * h / 4) for h in range(1, 5)] + [2.0**-1, 2.0**-3]
    torch.testing.assert_close(ALiBi(6).m, torch.tensor(expected))
    with pytest.raises(RequestError, match="at least one head"):
        ALiBi(0)
    with pytest.raises(RequestError, match="alpha >= 0"):
        DistanceMask(-1.0)


@settings(max_examples=60)
@given(
    position=st.sampled_from(sorted(POSITIONS)),
    relative=st.tuples(st.booleans(), st.booleans()),
    per_head=st.booleans(),
    clip=st.sampled_from([0, 1, 3, 30]),
    kind=st.sampled_from(MASKS),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    queries=st.integers(1, 9),
    keys=st.integers(1, 12),
    at=st.sampled_from([None, 0, 3, -2]),
    shape=st.sampled_from(["plain", "strided", "broadcast"]),
    small=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_kernel_agrees_with_float64(
    position, relative, per_head, clip, kind, dtype, queries, keys, at, shape, small, seed
):
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    if position == "none" and not any(relative):
        position = "alibi"
    heads = HEADS if per_head else None
    layer = Attention(
        RelativeKeys(D, clip, heads=heads) if relative[0] else ScaledDot(),
        position=POSITIONS[position](clip, heads),
        read=RelativeValues(DV, clip, heads=heads) if relative[1] else WeightedSum(),
        select=Softmax(0.7),
    )
    with torch.no_grad():  # round what both compute with
        for p in layer.parameters():
            p.copy_(torch.randn(p.shape, generator=generator).to(torch.bfloat16))
    inputs = []
    for n, d in ((queries, D), (keys, D), (keys, DV)):
        x = torch.randn(2, HEADS, n, d, generator=generator).to(torch.bfloat16).to(dtype)
        if shape == "strided":
            x = x.transpose(1, 3).contiguous().transpose(1, 3)
        elif shape == "broadcast" and d == DV:
            x = x[:, :1]
        inputs.append(x)
    mask = a_mask(kind, queries, keys, generator)
    tolerance = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 3e-2}[dtype]
    with pytest.MonkeyPatch.context() as patch:
        if small:  # many tiles, cut within rows and over rows
            patch.setattr(tiles, "QUERIES", 4)
            patch.setattr(tiles, "PAIRS", 30)
        compare(layer, inputs, "relative", tolerance, mask=mask, at=at)


@pytest.mark.parametrize("clip", [2, 40])
def test_accuracy_at_length_in_fp32(clip):
    """Several tiles with all three kinds of columns: clipped left, told apart, clipped right."""
    layer = Attention(RelativeKeys(16, clip), read=RelativeValues(16, clip))
    inputs = [torch.randn(1, HEADS, 300, 16) for _ in range(3)]
    compare(layer, inputs, "relative", 5e-6)
    compare(layer, inputs, "relative", 5e-6, mask=Causal())


def test_gradcheck_of_the_parts():
    score, read = RelativeKeys(3, 2, heads=2).double(), RelativeValues(3, 1).double()
    bias = RelativeBias(1, 2).double()
    x = [torch.randn(1, 2, n, 3).double().requires_grad_() for n in (3, 4, 4)]

    def run(q, k, v, *_):
        with kernels("reference"):
            return attend(q, k, v, score=score, read=read, position=bias).context

    assert torch.autograd.gradcheck(run, (*x, score.table, read.table, bias.table))


def test_a_position_for_each_row_of_the_batch():
    """Reference does it, heads included; the kernel leaves it to it."""
    at = torch.tensor([[0], [3]])
    layer = Attention(
        RelativeKeys(D, 2, heads=HEADS), read=RelativeValues(DV, 2), position=RelativeBias(1, HEADS)
    )
    torch.nn.init.normal_(layer.position.table)
    q, k, v = (torch.randn(2, HEADS, n, d) for n, d in ((2, D), (6, D), (6, DV)))
    both = layer(q, k, v, at=at).context
    for b in range(2):
        one = layer(q[b], k[b], v[b], at=int(at[b])).context
        torch.testing.assert_close(both[b], one)


def test_relative_positions_do_not_see_a_shift():
    """Check (c) of the fact sheet: behind a masked prefix nothing changes."""
    layer = Attention(RelativeKeys(D, 2), read=RelativeValues(D, 2))
    x, junk = torch.randn(1, 6, D), torch.randn(1, 3, D)
    mask = Dense(torch.arange(9).ge(3).expand(1, 6, 9))
    torch.testing.assert_close(
        layer(x, torch.cat([junk, x], 1), mask=mask).context, layer(x, x).context
    )


def test_neither_pairs_nor_relative_vectors_are_kept():
    saved = []
    layer = MultiHead(
        32, HEADS, Attention(RelativeKeys(16, 4), read=RelativeValues(16, 4), position=ALiBi(HEADS))
    )
    x = torch.randn(1, 200, 32, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (saved.append(t.numel()), t)[1], lambda t: t
    ):
        layer(x, x).context.sum().backward()
    assert max(saved) <= 200 * 32


def test_a_nan_of_ones_own_is_not_hidden():
    x = torch.randn(1, 1, 5, D)
    x[0, 0, 2, 0] = torch.nan
    context = attend(
        x, torch.randn(1, 1, 5, D), position=ALiBi(1), mask=Lengths(torch.tensor([[4]]))
    )
    assert context.context[0, 0].isnan().any(-1).tolist() == [False, False, True, False, False]


def test_what_is_refused_and_why():
    x = torch.randn(1, 3, 5, D)
    assert explain(Attention(RelativeKeys(D)))[""].kernel == "relative"
    assert explain(Attention(position=ALiBi(3)))[""].kernel == "relative"
    with kernels("relative"):
        with pytest.raises(RequestError, match="uses relative positions"):
            attend(x, x)
        with pytest.raises(RequestError, match="tables are for 2 heads"):
            attend(x, x, position=RelativeBias(1, 2))
        with pytest.raises(RequestError, match="need_weights"):
            attend(x, x, position=ALiBi(3), need_weights=True)
        with pytest.raises(RequestError, match="of its own"):
            attend(x, x, position=ALiBi(3), at=torch.tensor([[1]]))


def test_under_autocast():
    layer = Attention(RelativeKeys(D, 2), read=RelativeValues(D, 2), position=ALiBi(HEADS))
    inputs = [torch.randn(1, HEADS, 9, D, dtype=torch.bfloat16).requires_grad_() for _ in range(3)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = layer(*inputs).context
    got.float().sum().backward()
    assert got.dtype == torch.bfloat16
    with kernels("reference"):
        exact = layer.double()(*(x.double() for x in inputs)).context
    assert (got.double() - exact).abs().max() < 2e-2


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (8, 20), (16, 50), (64, 256)])
def test_buckets_are_those_of_t5(both, buckets, reach):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    offsets = torch.arange(-3 * reach, 3 * reach + 1)
    expected = t5._relative_position_bucket(
        offsets, bidirectional=both, num_buckets=buckets, max_distance=reach
    )
    position = BucketBias(buckets, reach, both=both)
    assert torch.equal(position.index[offsets.clamp(-reach, reach) + reach], expected)


def test_buckets_are_learned_through_the_kernel():
    x = torch.randn(2, HEADS, 9, D, dtype=torch.float64)
    position = BucketBias(4, 3, HEADS).double()
    torch.nn.init.normal_(position.weight)
    grads = []
    for kernel in ("relative", "reference"):
        position.zero_grad()
        with kernels(kernel):
            attend(x, x, x, position=position, mask=Causal()).context.square().sum().backward()
        grads.append(position.weight.grad.clone())
    torch.testing.assert_close(*grads)
    assert grads[0].abs().min(0).values[:2].gt(0).all()
    assert not grads[0][:, 2:].any()  # causal: nothing lies ahead


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ((3, 9), "an even number of buckets of at least 4, got 3"),
        ((32, 8), "a reach above the 8 distances that have a bucket each, got 8"),
    ],
)
def test_buckets_that_cover_nothing_are_refused(settings, why):
    with pytest.raises(RequestError, match=why):
        BucketBias(*settings)
