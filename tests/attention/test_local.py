"""Local attention against slow loops, with and without the compiled library."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard import native, watch
from regard.attention import (
    Additive,
    Attention,
    Causal,
    Cosine,
    Dense,
    Dot,
    General,
    Lengths,
    LocalMonotonic,
    LocalPredictive,
    Location,
    MultiHead,
    ScaledDot,
    WeightedSum,
    Window,
    attend,
    explain,
    kernels,
)
from regard.attention._kernels import local
from regard.errors import RequestError

SCORES = {
    "dot": lambda d: Dot(0.5),
    "general": lambda d: General(d, d),
    "cosine": lambda d: Cosine(3.0),
    "additive": lambda d: Additive(d, d, 5),
}


@pytest.fixture(params=["C", "blocks"])
def backend(request, monkeypatch):
    """Both ways of the kernel: the compiled one, and blocks of PyTorch, several of them."""
    if request.param == "C":
        if native.library() is None:
            pytest.skip(f"no shared object: {native.missing()}")
        return
    monkeypatch.setattr(local, "_available", lambda: False)
    monkeypatch.setattr(local, "BLOCK", 200)


def slow_local(query, key, value, centers, reach, lengths, scale, gauss):
    """Luong et al. (2015), eq. 7 to 10: one row of the batch, one query, one key at a time."""
    context = np.zeros((*query.shape[:2], value.shape[-1]))
    for b in range(len(query)):
        for i in range(query.shape[1]):
            p = centers[b, i]
            middle = int(np.floor(p))
            seen = [s for s in range(middle - reach, middle + reach + 1) if 0 <= s < lengths[b]]
            if not seen:
                continue
            e = np.array([scale * query[b, i] @ key[b, s] for s in seen])
            a = np.exp(e - e.max())
            a /= a.sum()
            for s, x in zip(seen, a, strict=True):
                if gauss:
                    x = x * np.exp(-((s - p) ** 2) / (2 * (reach / 2) ** 2))
                context[b, i] += x * value[b, s]
    return context


@settings(max_examples=40, deadline=None)
@given(
    kernel=st.sampled_from(["local", "reference"]),
    queries=st.integers(1, 7),
    keys=st.integers(1, 30),
    reach=st.integers(1, 9),
    dim=st.sampled_from([1, 7, 16, 37, 64, 80]),
    kind=st.sampled_from(["local-p", "local-m", "clamped"]),
    at=st.integers(0, 12),
    seed=st.integers(0, 10**6),
)
def test_local_attention_is_the_papers(kernel, queries, keys, reach, dim, kind, at, seed):
    predicted = kind == "local-p"
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(2, queries, dim, generator=generator)
    key = torch.randn(2, keys, dim, generator=generator)
    value = torch.randn(2, keys, 5, generator=generator)
    lengths = torch.randint(0, keys + 1, (2,), generator=generator)
    torch.manual_seed(seed)
    if predicted:
        select = LocalPredictive(dim, 4, reach)
        torch.nn.init.normal_(select.v.weight, std=3.0)
        # p = S sigmoid(v tanh(W q)); the floor of a position must not hang on its rounding.
        centers = select.centers(query, lengths[:, None]).detach()
        assume(not (((centers - centers.round()).abs() < 1e-4) & (centers > 0.5)).any())
        h = np.tanh(query.double().numpy() @ select.project.weight.detach().double().numpy().T)
        logit = h @ select.v.weight.detach().double().numpy()[0]
        want = lengths.numpy()[:, None] / (1 + np.exp(-logit))
        np.testing.assert_allclose(centers, want, rtol=2e-6, atol=1e-6)
        centers = centers.double().numpy()
    else:
        select = LocalMonotonic(reach, clamp=kind == "clamped")
        centers = np.broadcast_to(at + np.arange(queries, dtype=float), (2, queries))
        if kind == "clamped":
            centers = np.minimum(centers, lengths.numpy()[:, None] - 1)
    with kernels(kernel):
        found = attend(
            query, key, value, score=Dot(0.3), select=select, mask=Lengths(lengths), at=at
        ).context.detach()
    x = [t.double().numpy() for t in (query, key, value)]
    want = slow_local(*x, centers, reach, lengths.tolist(), 0.3, predicted)
    np.testing.assert_allclose(found, want, rtol=0, atol=3e-6)


@pytest.mark.parametrize("score", sorted(SCORES))
@pytest.mark.parametrize("kind", ["local-p", "local-m", "clamped"])
@pytest.mark.parametrize("masked", ["none", "lengths", "holes"])
@pytest.mark.parametrize("heads", [False, True])
def test_every_backend_is_the_reference(backend, score, kind, masked, heads):
    torch.manual_seed(3)
    lead = (2, 3) if heads else (2,)
    query = torch.randn(*lead, 11, 6).transpose(-2, -1).contiguous().transpose(-2, -1)
    key = torch.randn(2, *([1] if heads else []), 20, 6)
    value = torch.randn(*lead, 20, 5)
    leaves = [x.requires_grad_() for x in (query, key, value)]
    make = SCORES[score](6)
    select = LocalMonotonic(3, clamp=kind == "clamped")
    if kind == "local-p":
        select = LocalPredictive(6, 4, 3)
    mask = {
        "none": None,
        "lengths": Lengths(torch.tensor([20, 0])),
        "holes": Dense(torch.rand(2, 1, 20) > 0.4) & Lengths(torch.tensor([20, 15])),
    }[masked]
    if mask is not None and heads:
        mask = mask.over_heads(1)
    leaves += [p for m in (make, select) if isinstance(m, torch.nn.Module) for p in m.parameters()]

    def run(kernel):
        with kernels(kernel):
            found = attend(*leaves[:3], score=make, select=select, mask=mask, at=12).context
        return found, *torch.autograd.grad(found.square().sum(), leaves)

    for x, y in zip(run("local"), run("reference"), strict=True):
        assert x.isfinite().all()
        torch.testing.assert_close(x, y, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("level", ["portable", "AVX2", "AVX-512"])
@pytest.mark.parametrize("dim", [3, 64, 70])
@pytest.mark.parametrize("spread", [1.0, 40.0])
def test_c_is_as_exact_as_float32_can_be(level, dim, spread):
    if native.library() is None:
        pytest.skip(f"no shared object: {native.missing()}")
    torch.manual_seed(1)
    query, key = torch.randn(2, 60, dim) * (spread / dim), torch.randn(2, 60, dim)
    value, grad = torch.randn(2, 60, 33), torch.randn(2, 60, 33)
    center = 60 * torch.rand(2, 60)
    kept = torch.rand(2, 60) > 0.2

    def run(dtype):
        x = [t.to(dtype).requires_grad_() for t in (query, key, value, center)]
        if dtype == torch.float64:
            plan = local._Plan(x[1], x[2], kept, None, 7, 1.0, 3.5, 0.0)
            found = local._by_blocks(x[0], x[3], plan)
        else:
            found = local._forward(*x, kept, 7, 1.0, 3.5)
        return found.detach(), *torch.autograd.grad(found, x, grad.to(dtype))

    want = run(torch.float64)
    with native.at_level(level):
        found = run(torch.float32)
    for x, y, bound in zip(found, want, (2e-6, 1e-5, 1e-5, 1e-5, 1e-5), strict=True):
        assert (x - y).abs().max() <= bound * y.abs().max()


def test_threads_change_nothing():
    if native.library() is None:
        pytest.skip(f"no shared object: {native.missing()}")
    x = [torch.randn(1, 400, 64, requires_grad=True) for _ in range(3)]
    center = (400 * torch.rand(1, 400)).requires_grad_()

    def run():
        found = local._forward(*x, center, None, 10, 0.1, 5.0)
        return found, *torch.autograd.grad(found.square().sum(), [*x, center])

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = run()
        torch.set_num_threads(3)
        for a, b in zip(one, run(), strict=True):
            assert torch.equal(a, b)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("predicted", [True, False])
def test_gradients_of_plain_pytorch(predicted, monkeypatch):
    monkeypatch.setattr(local, "BLOCK", 60)
    select = LocalPredictive(3, 4, 2).double() if predicted else LocalMonotonic(2)
    x = [torch.randn(2, n, 3, dtype=torch.float64, requires_grad=True) for n in (4, 9, 9)]
    mask = Lengths(torch.tensor([9, 5]))

    def run(kernel):
        def attention(*x):
            with kernels(kernel):
                return attend(*x, score=ScaledDot(), select=select, mask=mask, at=0).context

        return attention

    assert torch.autograd.gradcheck(run("local"), x)
    assert torch.autograd.gradcheck(run("reference"), x, fast_mode=True)


def test_positions_learn_through_the_gaussian_alone():
    select = LocalPredictive(4, 3, 5)
    x = torch.randn(1, 20, 4)
    attend(x, x, x, score=Dot(), select=select).context.square().sum().backward()
    assert select.v.weight.grad.abs().max() > 0
    select.zero_grad()
    # With equal values the context is the sum of the weights: the softmax alone gives no gradient.
    weights = attend(x, x, x, score=Dot(), select=select, need_weights=True).weights
    center = select.centers(x, 20)[..., None]
    gauss = torch.exp(-((torch.arange(20) - center) ** 2) / (2 * 2.5**2))
    (weights / gauss).sum().backward()
    assert select.v.weight.grad.abs().max() < 1e-3


def test_weights_add_up_to_what_is_declared():
    scores = torch.randn(2, 5, 12)
    query = torch.randn(2, 5, 4)
    monotonic, predictive = LocalMonotonic(2), LocalPredictive(4, 3, 2)
    assert (monotonic.sums, predictive.sums) == ("over keys", "at most 1")
    assert monotonic.window == predictive.window == (2, 2)
    weights, _ = monotonic(scores, at=3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5))
    assert torch.equal(weights > 0, Window(2, 2).dense(5, 12, at=3, device=weights.device)
                       .expand(2, 5, 12))  # fmt: skip
    weights, _ = predictive(scores, query=query)
    assert (weights.sum(-1) <= 1).all()
    assert ((weights > 0).sum(-1) <= 5).all()


def test_position_counts_from_where_the_decoder_is():
    x, keys = torch.randn(2, 1, 4), torch.randn(2, 9, 4)
    at = torch.tensor([0, 6])
    found = attend(x, keys, score=Dot(), select=LocalMonotonic(1), at=at).context
    for b, t in enumerate(at.tolist()):
        with kernels("reference"):
            one = attend(x[b], keys[b], score=Dot(), select=LocalMonotonic(1), at=t).context
        torch.testing.assert_close(found[b], one)
    beyond = attend(x, keys, score=Dot(), select=LocalMonotonic(1), at=20).context
    assert (beyond == 0).all()


def test_a_clamped_window_stays_at_the_last_word():
    x = torch.randn(1, 4, 6)
    select = LocalMonotonic(1, stride=0, clamp=True)
    for at, seen in ((2, [1, 2]), (3, [1, 2]), (9, [1, 2])):  # three words: the last is 2
        found = attend(
            x, x, select=select, mask=Lengths(torch.tensor([3])), at=at, need_weights=True
        )
        assert all(row.nonzero().flatten().tolist() == seen for row in found.weights[0])
    starts = torch.tensor([0, 7])  # rows may stand at different places
    found = attend(x.expand(2, 4, 6), x, select=select, at=starts, need_weights=True).weights
    assert found[0, 0].nonzero().flatten().tolist() == [0, 1]
    assert found[1, 0].nonzero().flatten().tolist() == [2, 3]


def test_dropout_and_low_precision(backend):
    torch.manual_seed(0)
    keys = torch.randn(1, 300, 8)
    layer = Attention(Dot(), select=LocalMonotonic(5), read=WeightedSum(0.5))
    ones = torch.ones(1, 300, 1)
    assert abs(layer(keys, keys, ones).context.mean() - 1) < 0.2
    assert layer(keys, keys, ones).context.std() > 0.1
    layer.eval()
    torch.testing.assert_close(layer(keys, keys, ones).context, ones)
    low = layer(*(x.bfloat16() for x in (keys, keys, keys))).context
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), layer(keys, keys, keys).context, rtol=0.1, atol=0.15)


def test_explain_watch_and_heads():
    layer = MultiHead(8, 2, Attention(select=LocalPredictive(4, 3, 2)))
    assert explain(layer)[""].kernel == "local"
    assert explain(layer, need_weights=True)[""].kernel == "reference"
    for other in (Attention(Location(4, 9), select=LocalMonotonic(2)),
                  Attention(Dot(), select=LocalMonotonic(2), mask=Causal())):  # fmt: skip
        assert explain(other)[""].kernel == "reference"
    assert explain(Attention(Additive(4, 4, 4), select=LocalMonotonic(2)))[""].kernel == "local"
    x = torch.randn(2, 7, 8)
    with watch(layer) as seen:
        found = layer(x, x).context
    weights = seen[""].weights
    assert weights.shape == (2, 2, 7, 7)
    torch.testing.assert_close(layer(x, x, need_weights=True).weights, weights)
    torch.testing.assert_close(layer(x, x, need_weights=True).context, found)


@pytest.mark.nohook
def test_a_compiled_layer_is_the_same():
    layer = Attention(General(8, 8), select=LocalPredictive(8, 4, 3))
    x = torch.randn(2, 30, 8, requires_grad=True)
    mask = Lengths(torch.tensor([30, 12]))
    compiled = torch.compile(
        lambda x: layer(x, x, x, mask=mask).context, fullgraph=True, backend="aot_eager"
    )
    want, found = layer(x, x, x, mask=mask).context, compiled(x)
    torch.testing.assert_close(found, want)
    grads = [torch.autograd.grad(y.square().sum(), x)[0] for y in (want, found)]
    torch.testing.assert_close(*grads)


def test_senseless_windows_are_refused():
    with pytest.raises(RequestError, match="1 or more on each side, got 0"):
        LocalPredictive(4, 4, 0)
    with pytest.raises(RequestError, match="got -1"):
        LocalMonotonic(-1)
    with pytest.raises(RequestError, match="expected the queries"):
        LocalPredictive(4, 4, 2)(torch.zeros(1, 2, 3))
