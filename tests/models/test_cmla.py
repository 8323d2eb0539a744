"""CMLA against its equations in NumPy, its size, and what its weight dropout is."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.models.cmla import CMLA
from tests.models.slow import count, numbers, shaken, sigmoid, softmax, thirds
from tests.models.tagged import affine, close, rows, tagged


def model(**changes):
    torch.manual_seed(1)
    settings = {"embed": 4, "hidden": 5, "slices": 2, **changes}
    return shaken(CMLA(12, 3, 4, **settings))


def gru(p, path, xs, h):
    """The reset gate before the product of the candidate; z keeps the old state."""
    w, u = p[f"{path}.input.weight"], p[f"{path}.recurrent.weight"]
    b = p.get(f"{path}.input.bias", np.zeros(len(w)))
    out = []
    for x in xs:
        (ar, az, an), (ur, uz, un) = thirds(w @ x + b), thirds(u)
        r, z = sigmoid(ar + ur @ h), sigmoid(az + uz @ h)
        h = z * h + (1 - z) * np.tanh(an + un @ (r * h))
        out.append(h)
    return out


def coupled(p, path, hs, own, other, bend):
    g, d = p[f"{path}.own"], p[f"{path}.other"]
    fs = [bend(np.array([h @ one @ own for one in g] + [h @ one @ other for one in d])) for h in hs]
    r = gru(p, f"{path}.gru", fs, p[f"{path}.start"])
    weights = softmax(np.array([p[f"{path}.query"] @ one for one in r]))
    read = sum(w * h for w, h in zip(weights, hs, strict=True))
    return np.array(r), np.tanh(own @ p[f"{path}.update"]) + read, weights


def tags(p, ids, layers, bend):
    xs = [np.zeros(4), *p["embed.weight"][ids], np.zeros(4)]
    around = [np.concatenate(xs[t : t + 3]) for t in range(len(ids))]
    hs = gru(p, "gru", around, p["start"])
    a, o = p["aspects.prototype"], p["opinions.prototype"]
    sums, seen = [0.0, 0.0], []
    for _ in range(layers):
        of_a, next_a, weights = coupled(p, "aspects", hs, a, o, bend)
        of_o, next_o, _ = coupled(p, "opinions", hs, o, a, bend)
        sums, a, o = [sums[0] + of_a, sums[1] + of_o], next_a, next_o
        seen.append(weights)
    both = (
        (affine(p, n, x) for x in s) for n, s in zip(("output", "auxiliary"), sums, strict=True)
    )
    return [list(x) for x in both], seen


@pytest.mark.parametrize(("activation", "bend"), [("tanh", np.tanh), ("identity", lambda x: x)])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_it_computes_the_papers_equations(activation, bend, layers):
    net, source = model(activation=activation, layers=layers), tagged()
    p = numbers(net)
    with watch(net) as seen:
        output = net(source)
    for row, size, ids, _ in rows(source):
        (aspects, opinions), weights = tags(p, ids, layers, bend)
        close(output.logits[row, :size], aspects)
        close(output.extra["auxiliary"][row, :size], opinions)
        for step, expected in zip(seen["aspects.attention"].steps, weights, strict=True):
            close(step[row, 0, :size], expected)


def test_the_size_is_that_of_the_released_model():
    assert count(CMLA, 1000, 3) - 200 * 1000 == 322_406
    assert count(CMLA, 1000, 3, 5) - 200 * 1000 == 322_406 + 2 * 41


def test_everything_starts_uniform():
    net = CMLA(50, 3)
    for name, parameter in net.named_parameters():
        if name != "embed.weight":
            assert parameter.abs().max() <= 0.2, name
            assert parameter.unique().numel() == parameter.numel() or parameter.numel() > 1000, name


def test_dropout_is_of_weights_and_one_for_a_batch():
    net = model(dropout=0.5).train()
    source = tagged(lengths=(5, 5))
    twice = source.rows(torch.tensor([0, 0]))
    torch.manual_seed(3)
    one = net(twice).logits
    assert torch.allclose(one[0], one[1], atol=1e-12)  # no mask of activations
    assert not torch.equal(net(twice).logits, one)


def test_aspects_read_the_prototype_of_opinions():
    net, source = model(), tagged()
    logits = net(source).logits
    with torch.no_grad():
        net.opinions.prototype += 1.0
    assert (net(source).logits != logits).any(-1)[source.values != 0].all()
    with torch.no_grad():
        net.aspects.other.zero_()
        logits = net(source).logits
        net.opinions.prototype += 1.0
    assert torch.equal(net(source).logits, logits)


def test_what_is_not_there_is_said():
    with pytest.raises(RequestError, match="no activation 'tan': did you mean 'tanh'"):
        CMLA(9, 3, activation="tan")
    with pytest.raises(RequestError, match="odd number of words together, got window=2"):
        CMLA(9, 3, window=2)
