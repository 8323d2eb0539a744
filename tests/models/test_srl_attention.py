"""DeepAtt against its equations in NumPy, its sizes, its two layouts, and what order it needs."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard import watch
from regard.errors import RequestError
from regard.models.srl_attention import DeepAttTagger
from regard.protocols import Inputs
from tests.models.slow import count, numbers, shaken, sigmoid, softmax
from tests.models.tagged import affine, close, lstm_states, rows, tagged

SIZES = {"embed": 4, "mark": 4, "layers": 2, "heads": 2, "ffn_dim": 6}
STILL = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


def model(**changes):
    torch.manual_seed(1)
    return shaken(DeepAttTagger(12, 5, **{**SIZES, **changes}))


def timing(t, d):
    n = d // 2
    rates = [math.exp(-i * math.log(10_000.0) / (n - 1)) for i in range(n)]
    exact = [math.sin(t * r) for r in rates] + [math.cos(t * r) for r in rates]
    return np.array(exact, np.float32).astype(float)  # as the table is stored


def norm(p, path, x):
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-6)
    return x * p[f"{path}.norm.weight"] + p[f"{path}.norm.bias"]


def ffn(p, path, xs):
    path = f"{path}.feedforward"
    return [affine(p, f"{path}.out", np.maximum(affine(p, f"{path}.into", x), 0)) for x in xs]


def rnn(p, path, xs):
    both = lstm_states(p, f"{path}.lstm.ahead", xs), lstm_states(p, f"{path}.lstm.back", xs, True)
    return [a + b for a, b in zip(*both, strict=True)]


def cnn(p, path, xs):
    w, b = p[f"{path}.convolution.weight"], p[f"{path}.convolution.bias"]
    around = [np.zeros_like(xs[0]), *xs, np.zeros_like(xs[0])]
    out = []
    for t in range(len(xs)):
        both = b + sum(w[:, :, k] @ around[t + k] for k in range(3))
        gate, value = np.split(both, 2)
        out.append(sigmoid(gate) * value)
    return out


def look(p, path, xs, heads):
    q, k, v = ([affine(p, f"{path}.{n}", x) for x in xs] for n in ("query", "key", "value"))
    size = len(xs[0]) // heads
    out = []
    for i in range(len(xs)):
        parts = []
        for h in range(heads):
            own = slice(h * size, (h + 1) * size)
            w = softmax(np.array([q[i][own] @ one[own] for one in k]) / math.sqrt(size))
            parts.append(sum(a * one[own] for a, one in zip(w, v, strict=True)))
        out.append(affine(p, f"{path}.out", np.concatenate(parts)))
    return out


def logits(p, ids, marks, sub, heads, places):
    d = len(p["bias"])
    xs = []
    for t, (word, mark) in enumerate(zip(ids, marks, strict=True)):
        x = np.concatenate([p["embed.weight"][word], p["mark.weight"][mark]])
        xs.append(x * math.sqrt(d) + p["bias"] + places(t, d))
    for layer in range(2):
        path = f"layers.{layer}"
        out = sub(p, f"{path}.nonlinear", xs)
        xs = [norm(p, f"{path}.nonlinear_residual", x + y) for x, y in zip(xs, out, strict=True)]
        out = look(p, f"{path}.attention", xs, heads)
        xs = [norm(p, f"{path}.attention_residual", x + y) for x, y in zip(xs, out, strict=True)]
    return [affine(p, "output", x) for x in xs]


@pytest.mark.parametrize("sub", [ffn, rnn, cnn])
def test_it_computes_the_papers_equations(sub):
    net, source = model(sublayer=sub.__name__), tagged()
    p, found = numbers(net), net(source).logits
    for row, size, ids, extras in rows(source):
        close(found[row, :size], logits(p, ids, extras["marks"], sub, 2, timing))


def test_learned_positions_and_none():
    source = tagged()
    for positions in ("learned", "none"):
        net = model(positions=positions)
        p = numbers(net)
        table = p.get("position.table")
        for row, size, ids, extras in rows(source):
            expected = logits(
                p, ids, extras["marks"], ffn, 2,
                lambda t, d, table=table: np.zeros(d) if table is None else table[t],
            )  # fmt: skip
            close(net(source).logits[row, :size], expected)


def test_the_sizes_are_the_papers():
    words, rest = 100 * 1000, 105 * 201 + 200 + 200
    assert count(DeepAttTagger, 1000, 105) - words == 4_847_505
    sizes = {"ffn": 321_000, "cnn": 240_400, "rnn": 643_200}
    for sublayer, size in sizes.items():
        one = count(DeepAttTagger, 1000, 105, layers=1, sublayer=sublayer)
        assert one - words - rest == size + 160_800 + 800


@pytest.mark.parametrize("sublayer", ["ffn", "rnn", "cnn"])
def test_without_padding_it_gives_the_same(sublayer):
    """Float32 on a CPU is computed without padding, float64 with it."""
    torch.manual_seed(1)
    net = DeepAttTagger(12, 5, **SIZES, **STILL, sublayer=sublayer)
    source = tagged(lengths=(9, 2, 0, 5, 1))
    real, results = source.values != 0, []
    for dtype in (torch.float32, torch.float64):
        net = net.to(dtype)
        net.zero_grad()
        found = net(source).logits
        F.cross_entropy(found[real], torch.arange(int(real.sum())) % 5).backward()
        grads = [p.grad.double() for p in net.parameters()]
        results.append([found[real].double().detach(), *grads])
    assert net.layers[0].attention.query.weight.dtype == torch.float64
    for one, two in zip(*results, strict=True):
        assert torch.allclose(one, two, atol=2e-5, rtol=1e-4)


def test_what_it_starts_from():
    torch.manual_seed(1)
    net = DeepAttTagger(5000, 105, layers=1)
    layer = net.layers[0]
    for linear in (layer.attention.query, layer.attention.value, layer.nonlinear.feedforward.into):
        w = linear.weight
        assert torch.allclose(w.T @ w, torch.eye(200), atol=1e-5)
        assert not linear.bias.any()
    assert abs(net.embed.weight[1:].std().item() - 0.1) < 0.002
    assert abs(net.output.weight.std().item() - 200**-0.5) < 0.003


def test_the_weights_of_every_head_are_seen():
    net, source = model(), tagged()
    with watch(net) as seen:
        net(source)
    assert seen["layers.1.attention"].weights.shape == (3, 2, 6, 6)


def test_what_is_not_there_is_said():
    with pytest.raises(RequestError, match=r"no sub-layer 'conv': .*cnn"):
        DeepAttTagger(9, 3, sublayer="conv")
    with pytest.raises(RequestError, match="no positions 'time'"):
        DeepAttTagger(9, 3, positions="time")


def roles(count, generator):
    """Random words; the two before the predicate are one role, the three after it another."""
    ids = torch.randint(4, 40, (count, 16), generator=generator)
    at = torch.randint(2, 13, (count, 1), generator=generator)
    offset = torch.arange(16) - at
    tags = torch.zeros(count, 16, dtype=torch.int64)
    tags[(offset >= -2) & (offset < 0)] = 1
    tags[(offset > 0) & (offset <= 3)] = 2
    return Inputs(ids, extras={"marks": (offset == 0).long()}), tags


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sublayer", "positions", "learns"),
    [
        ("ffn", "timing", True),
        ("ffn", "none", False),
        ("rnn", "none", True),
        ("cnn", "none", True),
    ],
)
def test_order_comes_from_the_timing_signal_or_the_sub_layer(sublayer, positions, learns):
    """Labels depend on the offset to the predicate alone, which attention cannot see."""
    torch.manual_seed(3)
    settings = {"embed": 32, "mark": 32, "layers": 2, "heads": 4, "ffn_dim": 128}
    net = DeepAttTagger(40, 3, **settings, **STILL, sublayer=sublayer, positions=positions)
    g = torch.Generator().manual_seed(4)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(400):
        source, tags = roles(64, g)
        loss = F.cross_entropy(net(source).logits.flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    source, tags = roles(500, g)
    right = (net(source).logits.argmax(-1) == tags)[tags > 0].float().mean().item()
    assert right > 0.98 if learns else right < 0.5
