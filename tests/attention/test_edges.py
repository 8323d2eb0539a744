"""Graph attention: edges against slow loops over nodes, with and without the compiled library."""

import importlib.util

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import native, watch
from regard.attention import (
    Additive,
    Attention,
    Causal,
    Cosine,
    Edges,
    General,
    MultiHead,
    ScaledDot,
    Softmax,
    SplitLinear,
    WeightedSum,
    attend,
    explain,
    kernels,
)
from regard.attention._kernels.segment import edge_dot, edge_sum, segment_softmax
from regard.attention._ops.split_halves import halves
from regard.errors import RequestError

BACKENDS = ["reference", "segment"] + (["edges"] if native.library() is not None else [])
CPU = torch.device("cpu")


def a_graph(nodes, edges, seed, *, loops=False, keys=None):
    """Random pairs: some twice, some nodes alone, some looking at themselves."""
    generator = torch.Generator().manual_seed(seed)
    keys = nodes if keys is None else keys
    source = torch.randint(keys, (edges,), generator=generator)
    target = torch.randint(nodes, (edges,), generator=generator)
    return Edges.of(torch.stack([source, target]), nodes, keys=keys, loops=loops)


def slow_gat(query, key, value, left, right, pairs, slope=0.2, temperature=1.0):
    """Velickovic et al. (2018), eq. 3 and 4, from the list of neighbors of one head."""
    context = np.zeros((len(query), value.shape[1]))
    weights = {}
    for i in range(len(query)):
        near = sorted({int(s) for s, t in pairs.T if t == i})
        if not near:
            continue
        e = []
        for j in near:
            x = float(np.concatenate([left, right]) @ np.concatenate([query[i], key[j]]))
            e.append((x if x > 0 else slope * x) / temperature)
        p = np.exp(np.array(e) - max(e))
        for j, w in zip(near, p / p.sum(), strict=True):
            weights[i, j] = w
            context[i] += w * value[j]
    return context, weights


@settings(max_examples=40, deadline=None)
@given(
    backend=st.sampled_from(BACKENDS),
    nodes=st.integers(1, 9),
    extra=st.integers(0, 3),
    edges=st.integers(0, 40),
    heads=st.sampled_from([1, 2, 8]),
    dim=st.sampled_from([1, 5, 8, 16, 65]),
    scale=st.sampled_from([1.0, 40.0]),
    seed=st.integers(0, 10**6),
)
def test_graph_attention_is_the_papers(backend, nodes, extra, edges, heads, dim, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.stack([
        torch.randint(nodes + extra, (edges,), generator=generator),
        torch.randint(nodes, (edges,), generator=generator),
    ])  # fmt: skip
    graph = Edges.of(pairs, nodes, keys=nodes + extra)
    torch.manual_seed(seed)
    score = SplitLinear(3, 4, heads=heads)
    query = scale * torch.rand(heads, nodes, 3, generator=generator)
    key = scale * torch.randn(heads, nodes + extra, 4, generator=generator)
    value = torch.randn(heads, nodes + extra, dim, generator=generator)
    with kernels(backend):
        found = attend(query, key, value, score=score, mask=graph, select=Softmax(0.7)).context
    for h in range(heads):
        x = [t[h].double().numpy() for t in (query, key, value)]
        vectors = [v[h].detach().double().numpy() for v in (score.query, score.key)]
        want, _ = slow_gat(*x, *vectors, pairs.numpy(), temperature=0.7)
        # The halves are products in fp32 of numbers up to `scale`; the softmax sees their errors.
        np.testing.assert_allclose(found[h].detach(), want, rtol=0, atol=4e-6 * max(1.0, scale))


@pytest.mark.parametrize("level", ["portable", "AVX2", "AVX-512"])
@pytest.mark.parametrize(("heads", "dim"), [(8, 8), (1, 7), (3, 16), (8, 24), (4, 64), (16, 12)])
@pytest.mark.parametrize(("spread", "slope"), [(1.0, 0.2), (5.0, 0.0), (5.0, 1.0), (15.0, 0.2)])
def test_c_is_as_exact_as_float32_can_be(level, heads, dim, spread, slope):
    if native.library() is None:
        pytest.skip(f"no shared object: {native.missing()}")
    graph = a_graph(60, 700, 3)
    generator = torch.Generator().manual_seed(5)
    left, right = (spread * torch.randn(heads, 60, 1, generator=generator) for _ in range(2))
    value = torch.randn(60, heads, dim, generator=generator).transpose(0, 1)
    grad = torch.randn(heads, 60, dim, generator=generator)
    # the halves are the inputs themselves: nothing is rounded before
    score = SplitLinear(1, 1, slope=slope)
    torch.nn.init.ones_(score.query)
    torch.nn.init.ones_(score.key)

    def both(backend, dtype):
        x = [t.to(dtype).requires_grad_() for t in (left, right, value)]
        with kernels(backend):
            found = attend(*x, score=score.to(dtype), mask=graph).context
        return found.detach(), *torch.autograd.grad(found, x, grad.to(dtype))

    want = both("reference", torch.float64)
    with native.at_level(level):
        found = both("edges", torch.float32)
    for x, y, bound in zip(found, want, (2e-6, 1e-5, 1e-5, 1e-5), strict=True):
        # a slope of 1 leaves no gradient of `left` but the rounding of float64
        assert (x - y).abs().max() <= bound * y.abs().max() + 1e-12


@pytest.mark.parametrize("make", [
    lambda: SplitLinear(4, 4, heads=2, bias=True), lambda: SplitLinear(4, 4, slope=1.5),
    ScaledDot, lambda: Cosine(3.0), lambda: General(4, 4), lambda: Additive(4, 4, 6),
])  # fmt: skip
@pytest.mark.parametrize("batch", [(2,), (3, 2)])
def test_every_backend_is_the_reference(make, batch):
    score = make()
    graph = a_graph(12, 40, 1)
    generator = torch.Generator().manual_seed(2)
    query, key = (torch.randn(*batch, 12, 4, generator=generator) for _ in range(2))
    value = torch.randn(*batch, 7, 12, generator=generator).transpose(-2, -1)  # not contiguous
    key = key[..., :1, :, :].requires_grad_()  # one for all heads
    if isinstance(score, SplitLinear) and score.heads:
        key = key.detach().expand(*batch, 12, 4).requires_grad_()
    query, value = query.requires_grad_(), value.requires_grad_()

    def run(backend):
        with kernels(backend):
            found = attend(query, key, value, score=score, mask=graph, select=Softmax(2.0))
        leaves = [query, key, value, *score.parameters()]
        return found.context, *torch.autograd.grad(found.context.square().sum(), leaves)

    want = run("reference")
    for backend in BACKENDS[1:]:
        if backend == "edges" and not isinstance(score, SplitLinear):
            continue
        for x, y in zip(run(backend), want, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    "make", [lambda: SplitLinear(3, 3, heads=2), ScaledDot, lambda: Additive(3, 3, 4)]
)
def test_gradients_of_plain_pytorch(make):
    score = make().double()
    graph = a_graph(6, 14, 4)
    x = [torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def run(*x):
        with kernels("segment"):
            found = attend(*x, score=score, mask=graph, need_weights=True)
        return found.context, found.weights

    assert torch.autograd.gradcheck(run, x)


def test_products_with_edges_are_each_others_gradients():
    graph = a_graph(5, 12, 9, keys=8)
    weights = torch.randn(2, len(graph), dtype=torch.float64, requires_grad=True)
    value = torch.randn(2, 8, 3, dtype=torch.float64, requires_grad=True)
    query = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w, v: edge_sum(w, v, graph), (weights, value))
    assert torch.autograd.gradcheck(lambda q, k: edge_dot(q, k, graph), (query, value))
    dense = torch.zeros(2, 5, 8, dtype=torch.float64)
    dense[:, graph.targets, graph.sources] = weights.detach()
    torch.testing.assert_close(edge_sum(weights, value, graph), dense @ value)


def test_segment_softmax_of_unsorted_segments():
    scores = torch.tensor([1.0, 5.0, 2.0, -3.0])
    found = segment_softmax(scores, torch.tensor([2, 0, 2, 2]), 4)
    want = torch.softmax(torch.tensor([1.0, 2.0, -3.0]), 0)
    torch.testing.assert_close(found, torch.stack([want[0], torch.tensor(1.0), want[1], want[2]]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_nodes_without_neighbors_read_zeros(backend):
    graph = Edges.of(torch.tensor([[0], [2]]), 4)
    x = torch.randn(1, 4, 3, requires_grad=True)
    with kernels(backend):
        context = attend(x, x, x, score=SplitLinear(3, 3, heads=1), mask=graph).context
    assert (context[0, [0, 1, 3]] == 0).all()
    torch.testing.assert_close(context[0, 2], x[0, 0])
    context.sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_dropout_drops_edges_and_keeps_the_mean(backend):
    graph = a_graph(200, 8000, 6)
    score = SplitLinear(2, 2, heads=4)
    layer = Attention(score, read=WeightedSum(0.6))
    nodes = torch.randn(4, 200, 2)
    value = torch.ones(4, 200, 1).requires_grad_()

    def run(seed):
        torch.manual_seed(seed)
        with kernels(backend):
            return layer(nodes, nodes, value, mask=graph).context

    first = run(1)
    assert torch.equal(first, run(1))
    assert not torch.equal(first, run(2))
    some = torch.cat([run(s) for s in range(40)])
    assert abs(some.mean() - 1) < 0.01  # values are 1, weights add up to 1
    assert 0.15 < some.std() < 0.5  # about sqrt(0.6 / 0.4 / 40 neighbors), a little more
    # What was dropped forward is dropped backward: the context is linear in the values.
    (grad,) = torch.autograd.grad(first.sum(), value)
    torch.testing.assert_close((grad * value).sum(), first.sum())
    layer.eval()
    torch.testing.assert_close(run(1), torch.ones(4, 200, 1))


@pytest.mark.skipif(native.library() is None, reason="no compiled library")
@pytest.mark.parametrize("dim", [8, 16])
def test_both_passes_drop_the_same_edges(dim):
    """A context is linear in the values: with weights of one, <dc, c> is <dv, v>."""
    graph = a_graph(60, 700, 3)
    torch.manual_seed(1)
    score, read = SplitLinear(dim, dim, heads=8), WeightedSum(dropout=0.5)
    x, value = torch.randn(2, 8, 60, dim)
    value.requires_grad_()
    with kernels("edges"):
        context = attend(x, x, value, score=score, mask=graph, read=read).context
    upstream = torch.randn_like(context)
    (grad,) = torch.autograd.grad(context, value, upstream)
    torch.testing.assert_close((grad * value).sum(), (upstream * context).sum())
    with kernels("edges"):
        whole = attend(x, x, value, score=score, mask=graph).context
    assert (whole - context).abs().max() > 0.1


def test_weights_come_edge_by_edge():
    graph = a_graph(10, 30, 7)
    layer = Attention(SplitLinear(3, 3, heads=2), mask=graph)
    x = torch.randn(2, 10, 3)
    found = layer(x, x, x, need_weights=True).weights
    assert found.shape == (2, len(graph))
    for backend in ("reference", "segment"):
        with kernels(backend):
            same = layer(x, x, x, need_weights=True).weights
        torch.testing.assert_close(same, found)
    with watch(layer) as seen:
        plain = layer(x, x, x).context
    torch.testing.assert_close(seen[""].weights, found.detach())
    torch.testing.assert_close(plain, layer(x, x, x).context, rtol=0, atol=0)
    total = torch.zeros(2, 10).index_add(1, graph.targets, found.detach())
    torch.testing.assert_close(total, (graph.offsets.diff() > 0).float().expand(2, 10))


def test_explain_names_the_backend():
    graph = a_graph(10, 30, 7)
    fast = "edges" if native.library() is not None else "segment"
    assert explain(Attention(SplitLinear(3, 3), mask=graph))[""].kernel == fast
    assert explain(Attention(ScaledDot(), mask=graph))[""].kernel == "segment"
    assert explain(Attention(Additive(3, 3, 3), mask=graph))[""].kernel == "segment"
    assert explain(Attention(SplitLinear(3, 3)))[""].kernel == "reference"


def test_sums_in_the_place_of_means():
    graph = a_graph(9, 30, 8)
    x = torch.randn(9, 4)
    mean = attend(x, x, score=ScaledDot(), mask=graph).context
    total = attend(x, x, score=ScaledDot(), mask=graph, read=WeightedSum(scale="length")).context
    torch.testing.assert_close(total, mean * graph.offsets.diff()[:, None])


def test_heads_around_edges():
    graph = a_graph(9, 30, 8, loops=True)
    layer = MultiHead(8, 2, Attention(SplitLinear(4, 4, heads=2)))
    x = torch.randn(9, 8)
    want = None
    for backend in BACKENDS:
        with kernels(backend):
            found = layer(x, x, mask=graph).context
        want = found if want is None else want
        torch.testing.assert_close(found, want)


@pytest.mark.nohook
def test_a_compiled_layer_is_the_same():
    graph = a_graph(30, 120, 2, loops=True)
    layer = Attention(SplitLinear(4, 4, heads=2), read=WeightedSum(0.0))
    x = torch.randn(2, 30, 4, requires_grad=True)
    _ = graph.reversed, graph.back(30), graph.narrow
    compiled = torch.compile(lambda x: layer(x, x, x, mask=graph).context, fullgraph=True,
                             backend="aot_eager")  # fmt: skip
    want, found = layer(x, x, x, mask=graph).context, compiled(x)
    torch.testing.assert_close(found, want)
    grads = [torch.autograd.grad(y.square().sum(), x)[0] for y in (want, found)]
    torch.testing.assert_close(*grads)


def test_edges_in_every_form_are_the_same_mask():
    allowed = torch.rand(7, 5) > 0.6
    graph = Edges.from_dense(allowed)
    pairs = allowed.nonzero().T.flip(0)
    twice = torch.cat([pairs, pairs[:, :3]], 1)[:, torch.randperm(pairs.shape[1] + 3)]
    for same in (graph, Edges.of(twice, 7, keys=5), Edges(graph.offsets.int(), graph.sources)):
        assert torch.equal(same.dense(7, 5, at=3, device=CPU), allowed)
    looped = Edges.of(torch.zeros(2, 0, dtype=torch.int64), 4, loops=True)
    assert torch.equal(looped.dense(4, 4, at=0, device=CPU), torch.eye(4).bool())
    assert len(Edges.from_dense(torch.zeros(3, 3).bool())) == 0


def test_edges_combine():
    one, other = torch.rand(6, 6) > 0.5, torch.rand(6, 6) > 0.5
    a, b = Edges.from_dense(one), Edges.from_dense(other)
    for mask, want in (
        (a & b, one & other), (a | b, one | other), (~a, ~one), (a & Causal(), one.tril()),
        (a | other, one | other),
    ):  # fmt: skip
        assert torch.equal(mask.dense(6, 6, at=0, device=CPU), want)
    assert isinstance(a & b, Edges)
    assert isinstance(a | b, Edges)


def test_what_is_no_graph_is_refused():
    with pytest.raises(RequestError, match="rise from 0 to 2"):
        Edges(torch.tensor([0, 1]), torch.tensor([0, 1]))
    with pytest.raises(RequestError, match="rising order"):
        Edges(torch.tensor([0, 2]), torch.tensor([1, 1]))
    with pytest.raises(RequestError, match="sources below 3"):
        Edges.of(torch.tensor([[3], [0]]), 3)
    with pytest.raises(RequestError, match="slope of 0 or more"):
        SplitLinear(2, 2, slope=-0.1)
    graph = a_graph(5, 9, 0)
    x = torch.randn(1, 4, 2)
    for backend in BACKENDS:
        with kernels(backend), pytest.raises(RequestError, match="of 5 queries"):
            attend(x, x, x, score=SplitLinear(2, 2), mask=graph)
    with pytest.raises(RequestError, match=r"heads=3 expected (queries|keys)"):
        attend(x, x, x, score=SplitLinear(2, 2, heads=3))


@pytest.mark.skipif(
    importlib.util.find_spec("torch_geometric") is None,
    reason="PyTorch Geometric is not installed (pip install torch_geometric)",
)
@pytest.mark.filterwarnings("ignore")
def test_a_layer_is_pytorch_geometrics():
    """GATConv with its weights copied: heads side by side, self-loops, a bias behind."""
    from torch_geometric.nn import GATConv

    nodes, pairs = torch.randn(20, 6), torch.randint(20, (2, 60))
    pairs = pairs[:, pairs[0] != pairs[1]]
    theirs = GATConv(6, 4, heads=3)
    torch.nn.init.normal_(theirs.bias)
    score = SplitLinear(4, 4, heads=3)
    with torch.no_grad():
        score.key.copy_(theirs.att_src[0])
        score.query.copy_(theirs.att_dst[0])
    h = theirs.lin(nodes).view(20, 3, 4).transpose(0, 1)
    graph = Edges.of(pairs, 20, loops=True)
    ours = attend(h, h, h, score=score, mask=graph).context.transpose(0, 1).flatten(1)
    want = theirs(nodes, torch.unique(pairs, dim=1))
    torch.testing.assert_close(ours + theirs.bias, want)


@pytest.mark.skipif(native.library() is None, reason="no compiled library")
@pytest.mark.parametrize("spread", [1.0, 60.0])
@pytest.mark.parametrize(("heads", "dim"), [(8, 16), (1, 71)])
def test_a_graph_that_is_read_in_blocks_is_read_whole(heads, dim, spread):
    """More nodes than stay in the cache: rows are left and come back to; 71 is padded to 72."""
    nodes = 24_000
    graph = a_graph(nodes, 9 * nodes, 3)
    torch.manual_seed(0)
    x = torch.randn(nodes, heads * dim, requires_grad=True)
    score = SplitLinear(dim, dim, heads=heads)
    with torch.no_grad():
        score.key.mul_(spread)  # 60: no bound on a row's scores would do
    upstream = torch.randn(heads, nodes, dim)
    found = {}
    for backend in ("edges", "segment"):
        rows = x.view(nodes, heads, dim).transpose(0, 1)
        with kernels(backend):
            context = Attention(score=score)(rows, rows, mask=graph).context
        grads = torch.autograd.grad(context, [x, score.query, score.key], upstream)
        found[backend] = [context.detach(), *grads]
    for ours, slow in zip(*found.values(), strict=True):
        scale = slow.abs().max().item()
        torch.testing.assert_close(ours, slow, rtol=0, atol=3e-5 * scale)


@pytest.mark.skipif(native.library() is None, reason="no compiled library")
@pytest.mark.parametrize(("queries", "keys"), [(10, 40), (40, 10), (40, 40)])
def test_fewer_look_than_are_looked_at_or_more(queries, keys):
    """Sizes that are padded on one side must be on the other: 7 features, 200 edges."""
    graph = a_graph(queries, 400, 5, keys=keys)
    torch.manual_seed(0)
    tensors = [torch.randn(n, 7, requires_grad=True) for n in (queries, keys, keys)]
    score, upstream = SplitLinear(7, 7), torch.randn(queries, 7)
    found = []
    for backend in ("edges", "segment"):
        with kernels(backend):
            context = attend(*tensors, score=score, mask=graph).context
        found.append([context, *torch.autograd.grad(context, tensors, upstream)])
    for ours, slow in zip(*found, strict=True):
        torch.testing.assert_close(ours, slow, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(native.library() is None, reason="no compiled library")
@pytest.mark.parametrize("level", ["portable", "AVX2", "AVX-512"])
@pytest.mark.parametrize(("heads", "dim"), [(8, 8), (1, 17), (3, 5), (8, 24)])
def test_halves_of_nodes_whose_heads_lie_side_by_side(level, heads, dim):
    torch.manual_seed(0)
    x = torch.randn(3000, heads, dim, requires_grad=True)
    vector = torch.randn(heads, dim, requires_grad=True)
    upstream = torch.randn(heads, 3000, 1)
    with native.at_level(level):
        ours = halves(x.transpose(0, 1), vector)
        grads = torch.autograd.grad(ours, [x, vector], upstream)
    slow = torch.einsum("nhd,hd->hn", x.double(), vector.double())[..., None]
    expected = torch.autograd.grad(slow, [x, vector], upstream.double())
    torch.testing.assert_close(ours.double(), slow, rtol=1e-5, atol=1e-5)
    for one, two in zip(grads, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(native.library() is None, reason="no compiled library")
def test_threads_share_the_gradient_of_halves(monkeypatch):
    torch.manual_seed(0)
    x, vector = torch.randn(3000, 8, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    upstream = torch.randn(8, 3000, 1)
    monkeypatch.setattr(native, "threads", lambda work: 3)
    found = torch.autograd.grad(halves(x.transpose(0, 1), vector), [x, vector], upstream)
    expected = torch.autograd.grad(
        torch.einsum("nhd,hd->hn", x.double(), vector.double())[..., None], [x, vector],
        upstream.double(),
    )  # fmt: skip
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
