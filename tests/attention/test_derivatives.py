"""What fused kernels do where more than a first derivative is asked for: dropped weights, graphs,
decoder steps, sizes that have kernels of their own, and what `explain` says."""

import copy

import pytest
import torch
from torch.func import functional_call, grad, jvp, vmap

from regard import native
from regard.attention import (
    Additive,
    ALiBi,
    Attention,
    Causal,
    Cosine,
    Dot,
    Edges,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    InverseEuclidean,
    Lengths,
    LocalPredictive,
    MultiHead,
    Ragged,
    RelativeKeys,
    RelativeValues,
    Sparsemax,
    SplitLinear,
    WeightedSum,
    attend,
    attend_ragged,
    explain,
    kernels,
)
from regard.attention._kernels.dispatch import choose
from regard.attention.call import Call
from regard.errors import RequestError
from regard.native.dropout import dropout, dropout_add, dropout_relu

needs_c = pytest.mark.skipif(native.library() is None, reason="no compiled library")


def a_graph(nodes=12, count=60, loops=True):
    generator = torch.Generator().manual_seed(1)
    return Edges.of(torch.randint(nodes, (2, count), generator=generator), nodes, loops=loops)


def tensors(*shape, count=3, dtype=torch.float32, seed=2):
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(count, *shape, generator=generator, dtype=torch.float64)
    return [x.to(dtype).requires_grad_() for x in made]


def second(run, inputs, parameters=()):
    """The gradient of a gradient's squares, beside another way to the inputs."""
    wanted = [*inputs, *parameters]
    found = run(*inputs)
    weights = torch.linspace(-1, 1, found.numel(), dtype=found.dtype).view(found.shape)
    first = torch.autograd.grad((found * weights).sum(), wanted, create_graph=True)
    loss = (
        sum(g.square().sum() for g in first) + found.square().sum() + sum(x.sum() for x in wanted)
    )
    return first, torch.autograd.grad(loss, wanted)


def same(found, expected, **close):
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x.double(), y.double(), **close)


DROPPING = {
    "dots": (lambda: {"read": WeightedSum(0.4)}, (2, 3, 20, 8), "dots"),
    "dots, causal": (lambda: {"read": WeightedSum(0.4), "mask": Causal()}, (2, 3, 37, 8), "dots"),
    "dots, relative": (
        lambda: {"score": RelativeKeys(8, 2), "read": RelativeValues(8, 2, dropout=0.4)},
        (2, 3, 40, 8),
        "dots",
    ),
    "tiles": (
        lambda: {"score": RelativeKeys(8, 2), "read": WeightedSum(0.4)}, (2, 260, 8), "relative",
    ),
    "tiles, values": (
        lambda: {"position": ALiBi(3), "read": RelativeValues(8, 2, dropout=0.4)},
        (2, 3, 40, 8),
        "relative",
    ),
    "tiles, distances": (
        lambda: {"score": InverseEuclidean(), "read": WeightedSum(0.4)}, (2, 40, 8), "euclidean",
    ),
    "edges": (
        lambda: {"score": SplitLinear(8, 8, heads=3), "read": WeightedSum(0.4), "mask": a_graph()},
        (3, 12, 8), "edges",
    ),
    "edges, batches": (
        lambda: {"score": SplitLinear(8, 8, heads=8), "read": WeightedSum(0.4), "mask": a_graph()},
        (2, 8, 12, 8), "edges",
    ),
    "plain weights": (lambda: {"read": WeightedSum(0.4)}, (2, 3, 300, 8), "sdpa"),
    "local": (
        lambda: {"select": LocalPredictive(8, 6, 3), "read": WeightedSum(0.4)}, (2, 40, 8), "local",
    ),
}  # fmt: skip


@needs_c
@pytest.mark.parametrize("kind", DROPPING)
def test_gradients_that_are_differentiated_again_drop_the_same_weights(kind):
    """A backward pass with a graph gives the gradients of the one without: of the kernel."""
    make, shape, kernel = DROPPING[kind]
    torch.manual_seed(0)
    layer = Attention(**make()).train()
    inputs = tensors(*shape)
    found = Call(**{k: v for k, v in layer.parts.items()}, mask=layer.mask)
    found.query, found.key, found.value = inputs
    assert choose(found).name == kernel
    wanted = [*inputs, *layer.parameters()]
    made = []
    for create_graph in (False, True):
        torch.manual_seed(3)
        loss = layer(*inputs).context.square().sum()
        made.append(torch.autograd.grad(loss, wanted, create_graph=create_graph))
    assert any(g.requires_grad for g in made[1])
    same(made[1], made[0], atol=2e-5, rtol=2e-4)
    torch.autograd.grad(sum(g.square().sum() for g in made[1]), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("make", [lambda h: SplitLinear(4, 4, heads=h), lambda h: Additive(4, 4, 5),
                                  lambda h: Cosine(2.0)])  # fmt: skip
def test_graphs(make, heads, dtype):
    """Over edges, in operators of edges: never all pairs of nodes."""
    torch.manual_seed(0)
    graph, score = a_graph(loops=False), make(heads)
    layer = Attention(score).to(dtype)
    shape = (12, 4) if heads is None else (heads, 12, 4)
    inputs = tensors(*shape, dtype=dtype)

    def run(*x, layer=layer):
        return layer(*x, mask=graph).context

    wide = copy.deepcopy(layer).double()
    state = {name: p.double() for name, p in layer.named_parameters()}
    exact = [x.detach().double().requires_grad_() for x in inputs]
    parameters = [p.requires_grad_() for p in (x.detach() for x in state.values())]

    def reference(*x):
        named = dict(zip(state, parameters, strict=True))
        with kernels("reference"):
            return functional_call(wide, named, x, {"mask": graph}).context

    close = {"atol": 1e-3, "rtol": 1e-3} if dtype == torch.float32 else {}
    for found, expected in zip(
        second(run, inputs, layer.parameters()), second(reference, exact, parameters), strict=True
    ):
        same(found, expected, **close)
    rows = [torch.stack([x, 2 * x]).detach() for x in inputs]
    assert "segment" in str(vmap_kernel(layer, graph, rows))
    same([vmap(run)(*rows)], [torch.stack([run(*(x[i] for x in rows)) for i in range(2)])],
         atol=1e-5, rtol=1e-4)  # fmt: skip
    tangents = [torch.ones_like(x) for x in inputs]
    step = 1e-6
    with torch.no_grad():
        ends = [reference(*(x + s * step * t for x, t in zip(exact, tangents, strict=True)))
                for s in (1, -1)]  # fmt: skip
    _, along = jvp(run, tuple(x.detach() for x in inputs), tuple(tangents))
    same([along], [(ends[0] - ends[1]) / (2 * step)], atol=1e-4, rtol=1e-3)


def vmap_kernel(layer, graph, rows):
    """The kernel that is taken under vmap."""
    names = []

    def look(*x):
        call = Call(**layer.parts, mask=graph)
        call.query, call.key, call.value = x
        names.append(choose(call).name)
        return x[0]

    vmap(look)(*rows)
    return names


@pytest.mark.parametrize("select", [{}, {"mask": Lengths(torch.tensor([6, 0, 3]))}])
def test_steps_of_a_decoder(select):
    """A memory made once, steps one after another: their gradients wait for one another."""
    torch.manual_seed(0)
    layer = Attention(Additive(4, 4, 6), **select)
    keys, queries = tensors(3, 6, 4, count=1)[0], tensors(3, 1, 4, count=4)

    def run(layer, key, *queries):
        memory = layer.remember(key)
        return torch.cat([layer(q, memory).context for q in queries], -2)

    def reference(key, *queries):
        with kernels("reference"):
            return run(exact, key, *queries)

    inputs = [keys, *queries]
    found = second(lambda *x: run(layer, *x), inputs, layer.parameters())
    exact = Attention(Additive(4, 4, 6), **select).double()
    exact.load_state_dict(layer.state_dict())
    doubles = [x.detach().double().requires_grad_() for x in inputs]
    for x, y in zip(found, second(reference, doubles, exact.parameters()), strict=True):
        same(x, y, atol=1e-4, rtol=1e-3)
    with torch.no_grad():
        memory = layer.remember(keys)
        rows = torch.stack(queries)
        each = vmap(lambda q: layer(q, memory).context)(rows)  # what C packed is not for it
        same(each, [layer(q, memory).context for q in queries], atol=1e-6, rtol=1e-5)
    # and after a second derivative a first one is as it was
    one = torch.autograd.grad(run(layer, *inputs).sum(), inputs)
    with kernels("reference"):
        same(one, torch.autograd.grad(run(layer, *inputs).sum(), inputs), atol=1e-5, rtol=1e-4)


def test_packed_sequences():
    layer = MultiHead(8, 2)
    lengths, x = torch.tensor([4, 7, 2]), tensors(13, 8, count=1)[0]
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))

    def run(x):
        packed = Ragged(x, offsets)
        return layer(packed, packed, packed).context

    found = second(run, [x], layer.parameters())
    with kernels("reference"):
        expected = second(run, [x], layer.parameters())
    for a, b in zip(found, expected, strict=True):
        same(a, b, atol=1e-4, rtol=1e-3)
    _, along = jvp(run, (x.detach(),), (torch.ones(13, 8),))
    with kernels("reference"):
        same([along], [jvp(run, (x.detach(),), (torch.ones(13, 8),))[1]])
    inner = torch.randn(2, 13, 2, 8)  # under vmap offsets stay numbers
    heads = vmap(lambda y: attend_ragged(Ragged(y, offsets), Ragged(y, offsets)).tensor)(inner)
    same(heads, [attend_ragged(Ragged(y, offsets), Ragged(y, offsets)).tensor for y in inner],
         atol=1e-5, rtol=1e-4)  # fmt: skip


def test_halves_of_many_nodes():
    """Where C goes over all nodes at once."""
    x = tensors(4096, 2, 4, count=1)[0]
    layer = SplitLinear(4, 4, heads=2)

    def run(x):
        return layer.query_half(x.transpose(0, 1)).square()

    first, again = second(run, [x], [layer.query])
    vector, nodes = layer.query.detach().double().requires_grad_(), x.detach().double()
    nodes.requires_grad_()
    expected = second(
        lambda n, v: torch.einsum("nhd,hd->hn", n, v)[..., None].square(), [nodes, vector]
    )
    same(first, expected[0], atol=1e-4, rtol=1e-3)
    same(again, expected[1], atol=1e-2, rtol=1e-3)


@pytest.mark.parametrize("kind", ["dropout", "add", "relu"])
def test_dropout_of_many_numbers(kind):
    """Where C drops: second derivatives, transforms and forward mode."""
    x, y = tensors(1 << 15, count=2)
    run = {
        "dropout": lambda x, y: dropout(x * y, 0.3),
        "add": lambda x, y: dropout_add(x * y, y, 0.3),
        "relu": lambda x, y: dropout_relu(x * y, 0.3),
    }[kind]

    def seeded(x, y):
        torch.manual_seed(5)
        return run(x, y)

    made = seeded(x, y).detach()
    left = y.detach() if kind == "add" else torch.zeros_like(y)
    factor = ((made - left) / (x * y)).detach()  # 0 or 1 / 0.7, by what got out
    first, again = second(seeded, [x, y])
    expected = second(lambda x, y: factor * (x * y) + left / y.detach() * y, [x, y])
    same(first, expected[0], atol=1e-4, rtol=1e-3)
    same(again, expected[1], atol=1e-3, rtol=1e-3)
    both = (x.detach(), y.detach())
    torch.manual_seed(5)
    _, along = jvp(run, both, (torch.ones_like(x), torch.zeros_like(y)))
    torch.manual_seed(5)
    assert (along != 0).double().mean() > 0.2
    assert grad(lambda x: run(x, both[1]).sum())(both[0]).shape == x.shape


def test_what_is_said():
    layer = Attention(Additive(4, 4, 5))
    x = torch.randn(2, 5, 4)
    assert explain(layer)[""].kernel == "streaming"
    with torch.autograd.forward_ad.dual_level():
        said = explain(layer)[""]
        assert said.kernel == "reference"
        assert "derivatives in forward mode" in str(said)
        with kernels("streaming"), pytest.raises(RequestError, match="in forward mode are asked"):
            layer(x, x)
    said = []
    vmap(lambda y: said.append(str(explain(layer)[""])) or y)(x)
    assert said[0].startswith("reference (not dots or sdpa or located or streaming")
    assert "a transform of torch.func is at work" in said[0]

    def forced(y):
        with kernels("sdpa"):
            return attend(y, y).context

    with pytest.raises(RequestError, match="kernels\\('sdpa'\\) was asked for, but a transform"):
        vmap(forced)(x)


def test_an_error_of_a_part_under_a_transform_stays_what_it_is():
    """It was said that sizes do not fit."""

    class Odd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    class Own(Dot):
        def forward(self, query, key, *, at=0, features=None):
            return Odd.apply(query @ key.mT)

    x = torch.randn(2, 3, 4)
    with pytest.raises(RuntimeError, match="setup_context"):
        vmap(lambda y: attend(y, y, score=Own()).context)(x)
    with pytest.raises(RequestError, match="of one size, got queries of 4 and keys of 3"):
        vmap(lambda y: attend(y, y.mT).context)(x)


COMPILED = {
    "dot": lambda: Attention(),
    "additive": lambda: Attention(Additive(8, 8, 4)),
    "features": lambda: Attention(
        FeatureAdditive(8, 8, 8), select=FeatureSoftmax(), read=FeatureSum()
    ),
    "sparse": lambda: Attention(select=Sparsemax()),
}


@pytest.mark.slow
@pytest.mark.nohook
@pytest.mark.parametrize("kind", COMPILED)
def test_transforms_within_a_compiled_graph(kind):
    """C's operators have no derivative in forward mode: PyTorch takes them for constants."""
    layer, x = COMPILED[kind](), torch.randn(3, 5, 8)

    def run(x):
        return layer(x, x).context

    def along(run):
        return jvp(run, (x,), (torch.ones_like(x),))[1]

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    try:
        same([compiled(x)], [run(x)], atol=1e-6, rtol=1e-5)  # a graph is there already
        for transform in (
            along,
            lambda run: vmap(run)(x),
            lambda run: grad(lambda y: run(y).square().sum())(x),
        ):
            whole = torch.compile(
                lambda transform=transform: transform(run), fullgraph=True, backend="aot_eager"
            )
            same([whole()], [transform(run)], atol=1e-5, rtol=1e-4)
    finally:
        torch._dynamo.reset()
