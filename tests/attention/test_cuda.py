"""On a GPU: the kernels that are chosen there, against float64 on the CPU; models train and search.

The Triton kernels' own cases (`triton_cases.py`) run here on the device, compiled.
"""

import copy

import pytest
import torch

from regard import watch
from regard.attention import (
    Additive,
    ALiBi,
    Attention,
    Causal,
    Dense,
    Directional,
    DistanceMask,
    Documents,
    Edges,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    General,
    Lengths,
    MultiHead,
    RelativeBias,
    RelativeKeys,
    SplitLinear,
    Window,
    kernels,
)
from regard.attention._kernels.dispatch import choose
from regard.attention._ops import triton
from regard.attention.call import Call
from regard.decode import Beam
from regard.models.rnnsearch import RNNsearch
from regard.models.transformer import Transformer
from tests.attention.triton_cases import *  # noqa: F403 - each of its tests, on the GPU

pytestmark = pytest.mark.gpu


def feature_layer(dim):
    return Attention(FeatureAdditive(dim, dim, dim), select=FeatureSoftmax(), read=FeatureSum())


def edges(count):
    generator = torch.Generator().manual_seed(3)
    return Edges.of(torch.randint(0, count, (2, 6 * count), generator=generator), count)


LENGTHS = Lengths(torch.tensor([200, 0, 131]))
LAYERS = {
    # name: layer of dim, mask, kernel
    "dot": (lambda d: Attention(), lambda: LENGTHS, "sdpa"),
    "causal": (lambda d: Attention(General(d, d)), Causal, "sdpa"),
    "dense": (lambda d: Attention(), lambda: Dense(torch.rand(3, 200, 200) > 0.5), "sdpa"),
    "heads": (lambda d: MultiHead(d, 2), lambda: Causal() & LENGTHS, "sdpa"),
    "additive": (lambda d: Attention(Additive(d, d, 48)), lambda: LENGTHS, "streaming"),
    "features": (feature_layer, lambda: LENGTHS, "features"),
    "directional": (feature_layer, lambda: Directional("backward") & LENGTHS, "features"),
    "edges": (lambda d: Attention(SplitLinear(d, d)), lambda: edges(200), "edges"),
    "window": (lambda d: MultiHead(d, 2), lambda: Window(9, 9) & LENGTHS, "flex"),
    "documents": (
        lambda d: Attention(),
        lambda: Documents(torch.arange(200).div(20, rounding_mode="floor")),
        None,
    ),
    "bias": (lambda d: MultiHead(d, 2, Attention(position=RelativeBias(4, 2))), Causal, "flex"),
    "alibi": (lambda d: MultiHead(d, 2, Attention(position=ALiBi(2))), lambda: LENGTHS, "flex"),
    "distance": (
        lambda d: Attention(position=DistanceMask(0.1, learned=True)), lambda: LENGTHS, "flex",
    ),
    "relative": (lambda d: Attention(RelativeKeys(d, 5)), lambda: LENGTHS, "flex"),
}  # fmt: skip


def on_gpu(mask):
    return mask if mask is None else mask.to("cuda")


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_layers_agree_with_float64(name):
    make, masked, wanted = LAYERS[name]
    torch.manual_seed(0)
    layer, mask, dim = make(32), masked(), 32
    with torch.no_grad():
        for p in layer.parameters():
            if p.abs().max() == 0:
                p.normal_()
    exact, gpu = copy.deepcopy(layer).double(), layer.cuda()
    inputs = [torch.randn(3, 200, dim) for _ in range(3)]
    x = [t.clone().cuda().requires_grad_() for t in inputs]
    y = [t.double().requires_grad_() for t in inputs]
    with kernels("reference"):
        expected = exact(*y, mask=mask).context
    got = gpu(*x, mask=on_gpu(mask)).context
    if wanted is not None and not isinstance(layer, MultiHead):
        call = Call(**gpu.parts, mask=on_gpu(mask), query=x[0], key=x[1], value=x[2])
        assert choose(call).name == wanted
    weight = torch.randn(expected.shape)
    (expected * weight).sum().backward()
    (got * weight.cuda()).sum().backward()
    near(got, expected, 2e-5)
    pairs = [*zip(x, y, strict=True), *zip(gpu.parameters(), exact.parameters(), strict=True)]
    for a, b in pairs:
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            near(a.grad, b.grad, 1e-4)


def near(got, expected, bound):
    assert got.isfinite().all()
    error = (got.detach().cpu().double() - expected.detach()).abs().max()
    assert error <= bound * expected.detach().abs().max() + 1e-12


@pytest.mark.parametrize("name", ["additive", "features", "edges"])
def test_compiled_layers_are_the_same(name):
    make, masked, _ = LAYERS[name]
    torch.manual_seed(0)
    layer, mask = make(32).cuda(), on_gpu(masked())
    inputs = [torch.randn(3, 200, 32, device="cuda", requires_grad=True) for _ in range(3)]
    found = []
    for run in (layer, torch.compile(layer)):
        context = run(*inputs, mask=mask).context
        found.append([context, *torch.autograd.grad(context.square().sum(), inputs)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["additive", "features", "edges"])
def test_every_run_gives_the_same_bits(name):
    make, masked, _ = LAYERS[name]
    layer, mask = make(32).cuda(), on_gpu(masked())
    x = torch.randn(3, 200, 32, device="cuda", requires_grad=True)
    runs = []
    for _ in range(2):
        context = layer(x, x, mask=mask).context
        runs.append([context, *torch.autograd.grad(context.sum(), (x, *layer.parameters()))])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_there_is_triton():
    assert triton.unavailable_reason() is None


def peak(run):
    run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def test_additive_memory_is_a_hundredth_of_naive():
    query, key = (torch.randn(1, 1000, 256, device="cuda", requires_grad=True) for _ in range(2))
    v = torch.randn(256, device="cuda", requires_grad=True)

    def ours():
        triton.additive_scores(query, key, v).sum().backward()

    def naive():
        (torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ v).sum().backward()

    assert peak(ours) <= 0.01 * peak(naive)


def test_a_memory_moves_and_is_appended_to():
    layer = Attention(Additive(8, 8, 16))
    memory = layer.remember(torch.randn(2, 5, 8), mask=Lengths(torch.tensor([5, 3])))
    query = torch.randn(2, 2, 8)
    expected = layer(query, memory).context
    layer.cuda()
    got = layer(query.cuda(), memory.to("cuda")).context
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        past = layer.remember(torch.randn(2, 3, 8, device="cuda"))
        longer = layer.extend(past, torch.randn(2, 1, 8, device="cuda"))
        assert layer(query.cuda(), longer).context.is_cuda
        assert len(longer) == 4


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_masks_may_lie_elsewhere(where):
    x = torch.randn(3, 200, 16, device="cuda")
    for mask in (LENGTHS, Causal() & LENGTHS, Dense(torch.ones(200, 200, dtype=torch.bool))):
        assert Attention()(x, x, mask=mask.to(where)).context.is_cuda


def models():
    return {
        "rnnsearch": RNNsearch(20, 20, embed=16, hidden=16, align=16, maxout=8),
        "transformer": Transformer(20, 20, dim=32, heads=2, layers=2, ffn_dim=64, dropout=0.0),
    }


def batch():
    source = torch.randint(4, 20, (6, 9), device="cuda")
    lengths = torch.tensor([9, 4, 7, 9, 3, 5], device="cuda")
    return source, torch.randint(4, 20, (6, 8), device="cuda"), lengths


@pytest.mark.parametrize("name", ["rnnsearch", "transformer"])
@pytest.mark.parametrize("low", [False, True])
def test_a_model_learns_a_batch(name, low):
    torch.manual_seed(0)
    model = models()[name].cuda()
    source, target, lengths = batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(80):
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            logits = model(source, target[:, :-1], lengths).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), target[:, 1:].flatten()
            )
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("name", ["rnnsearch", "transformer"])
def test_beam_search_is_that_of_the_cpu(name):
    torch.manual_seed(0)
    model = models()[name].eval()
    source, _, _ = batch()
    source[:, -1] = 2
    found = Beam(3, max_length=6)(model, source.cpu())
    there = Beam(3, max_length=6)(model.cuda(), source)
    for (one, *_), (other, *_) in zip(found, there, strict=True):
        assert other.score == pytest.approx(one.score, abs=1e-3)


def test_a_watcher_sees_weights():
    layer = Attention(Additive(8, 8, 8)).cuda()
    x = torch.randn(2, 5, 8, device="cuda")
    with watch(layer) as seen:
        layer(x, x)
    (name,) = seen
    weights = seen[name].weights
    torch.testing.assert_close(weights.sum(-1).cpu().float(), torch.ones(2, 5))
