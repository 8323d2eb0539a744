"""The highway LSTM against its equations in NumPy, its gradients, its sizes and its start."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.layers.highway import HighwayLSTM
from regard.layers.layout import PackedLayout
from regard.models.highway_bilstm import HighwayBiLSTM
from tests.models.slow import count, numbers, shaken, sigmoid
from tests.models.tagged import affine, close, rows, tagged


def model(**changes):
    torch.manual_seed(1)
    settings = {"embed": 4, "mark": 3, "hidden": 5, "layers": 3, **changes}
    return shaken(HighwayBiLSTM(12, 5, **settings))


def cells(p, path, xs, backward):
    h = c = np.zeros(p[f"{path}.recurrent"].shape[1])
    states = []
    for x in reversed(xs) if backward else xs:
        given, met = affine(p, f"{path}.input", x), p[f"{path}.recurrent"] @ h
        *gates, carry = np.split(given, 6)
        i, f, o, r, j = (a + b for a, b in zip(gates, np.split(met, 5), strict=True))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(j)
        h = sigmoid(r) * (sigmoid(o) * np.tanh(c)) + (1 - sigmoid(r)) * carry
        states.append(h)
    return states[::-1] if backward else states


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_it_computes_the_papers_equations(layers):
    net, source = model(layers=layers), tagged()
    p, found = numbers(net), net(source).logits
    for row, size, ids, extras in rows(source):
        marked = zip(ids, extras["marks"], strict=True)
        xs = [np.concatenate([p["embed.weight"][w], p["mark.weight"][m]]) for w, m in marked]
        for layer in range(layers):
            xs = cells(p, f"layers.{layer}", xs, layer % 2 == 1)
        close(found[row, :size], [affine(p, "output", x) for x in xs])
        assert not found[row, size:].any()


@pytest.mark.parametrize("real", [[[1, 1, 1]], [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]]])
@pytest.mark.parametrize("backward", [False, True])
def test_its_gradients_are_those_of_differences(real, backward):
    torch.manual_seed(2)
    layer = HighwayLSTM(3, 2).double()
    layout = PackedLayout(torch.tensor(real, dtype=torch.bool))
    x = torch.randn(sum(layout.sizes), 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x, layout, backward), (x,))
    names = [name for name, _ in layer.named_parameters()]

    def run(*parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, given, (x.detach(), layout, backward))

    assert torch.autograd.gradcheck(run, tuple(layer.parameters()))


def test_its_gradients_with_dropout_are_those_of_the_same_mask():
    torch.manual_seed(2)
    layer = HighwayLSTM(3, 8, dropout=0.4).double().train()
    layout = PackedLayout(torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.bool))
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)

    def run(x):
        torch.manual_seed(5)
        return layer(x, layout)

    assert torch.autograd.gradcheck(run, (x,))
    states = run(x)  # steps of both rows, then the second step of both, then those of the first
    first, second = states[[0, 2, 4, 5]], states[[1, 3]]
    for row in (first, second):
        dropped = row == 0
        assert (dropped == dropped[0]).all()  # one mask for all steps of a sentence
        assert dropped.any()
    assert not torch.equal(first[0] == 0, second[0] == 0)


def test_the_sizes_are_the_papers():
    with torch.device("meta"):
        net = HighwayBiLSTM(1000, 105)
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in net.layers]
    assert sizes == [811_800, *[991_800] * 7]
    assert sum(sizes) == 7_754_400
    assert count(HighwayBiLSTM, 1000, 105) == 7_754_400 + 100_000 + 200 + 301 * 105


def test_every_block_starts_orthonormal():
    torch.manual_seed(1)
    layer = HighwayLSTM(6, 4)
    for block in layer.input.weight.chunk(6):
        assert torch.allclose(block @ block.T, torch.eye(4), atol=1e-5)
    for block in layer.recurrent.chunk(5):
        assert torch.allclose(block @ block.T, torch.eye(4), atol=1e-5)
    bias = layer.input.bias.view(6, 4)
    assert (bias[1] == 1).all()
    assert not bias[[0, 2, 3, 4, 5]].any()


@pytest.mark.slow
def test_eight_layers_learn_sooner_than_without_the_highway():
    """The same stack with its highway gates open, which is a plain LSTM, is behind."""
    from tests.models.test_srl_attention import roles

    losses = {}
    for plain in (False, True):
        torch.manual_seed(3)
        net = HighwayBiLSTM(40, 3, embed=16, mark=16, hidden=32, layers=8, dropout=0.0)
        if plain:
            with torch.no_grad():
                for layer in net.layers:
                    layer.input.bias[96:128] = 30.0  # r = 1: the carry is left out
        g = torch.Generator().manual_seed(4)
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        for _ in range(200):
            source, tags = roles(64, g)
            loss = F.cross_entropy(net(source).logits.flatten(0, 1), tags.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[plain] = loss.item()
    assert losses[False] < losses[True]
