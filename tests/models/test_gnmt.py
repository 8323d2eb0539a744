"""GNMT against its equations in NumPy, and its size."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.models.gnmt import GNMT
from tests.models import slow

SIZES = {"embed": 5, "hidden": 6, "layers": 4, "decoder_layers": 3, "align": 7, "dropout": 0.0}


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(GNMT(12, 13, **{**SIZES, **changes}))


def cell(p, path, x, h, c):
    """One LSTM step with PyTorch's two biases."""
    gates = p[f"{path}.stack.weight_ih_l0"] @ x + p[f"{path}.stack.weight_hh_l0"] @ h
    gates = gates + p[f"{path}.stack.bias_ih_l0"] + p[f"{path}.stack.bias_hh_l0"]
    i, f, g, o = np.split(gates, 4)
    c = slow.sigmoid(f) * c + slow.sigmoid(i) * np.tanh(g)
    return slow.sigmoid(o) * np.tanh(c), c


def read(p, path, rows, hidden=6):
    h = c = np.zeros(hidden)
    out = []
    for x in rows:
        h, c = cell(p, path, x, h, c)
        out.append(h)
    return out


def by_hand(net, sentence, target):
    """Logits (T, V) and attention (T, S) of one sentence."""
    p = slow.numbers(net)
    words = [p["embed_source.weight"][i] for i in sentence]
    ahead, back = read(p, "both.ahead", words), read(p, "both.back", words[::-1])[::-1]
    x = [np.concatenate(pair) for pair in zip(ahead, back, strict=True)]
    for number in range(2, SIZES["layers"] + 1):
        new = read(p, f"encoder.{number - 2}", x)
        x = [n + o for n, o in zip(new, x, strict=True)] if number >= 3 else new
    states = [(np.zeros(6), np.zeros(6)) for _ in range(SIZES["decoder_layers"])]
    logits, looks = [], []
    for y in target:
        query = p["attention.score.query.weight"] @ states[0][0]
        energy = [
            p["attention.score.v"] @ np.tanh(query + p["attention.score.key.weight"] @ one)
            for one in x
        ]
        alpha = slow.softmax(np.array(energy))
        context = sum(a * one for a, one in zip(alpha, x, strict=True))
        below = np.concatenate([p["embed_target.weight"][y], context])
        for number in range(1, SIZES["decoder_layers"] + 1):
            path = "first" if number == 1 else f"decoder.{number - 2}"
            states[number - 1] = cell(p, path, below, *states[number - 1])
            h = states[number - 1][0]
            value = h if number < 3 else h + value  # noqa: F821 (number begins at 1)
            below = np.concatenate([value, context])
        logits.append(p["output.weight"] @ value + p["output.bias"])
        looks.append(alpha)
    return np.stack(logits), np.stack(looks)


def test_it_computes_the_papers_equations():
    net = model()
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        logits = net(source, target, lengths).logits
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, looks = by_hand(net, sentence, target[row].tolist())
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        for t, look in enumerate(looks):
            found = seen["attention"].steps[t][row, 0].detach().numpy()
            np.testing.assert_allclose(found[: len(look)], look, atol=1e-10)


def test_attention_asks_with_the_first_layer_alone_and_every_layer_hears_the_answer():
    net = model()
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        before = net(source, target, lengths).logits
        with torch.no_grad():  # what upper layers make of it does not change what is looked at
            for layer in net.decoder:
                layer.stack.weight_hh_l0.add_(1.0)
        after = net(source, target, lengths).logits
    steps = seen["attention"].steps
    for first, second in zip(steps[:5], steps[5:], strict=True):
        assert torch.equal(first, second)
    assert not torch.allclose(before, after)
    for number, layer in enumerate(net.decoder):  # the columns behind the state are the context's
        own = model()
        with torch.no_grad():
            own.decoder[number].stack.weight_ih_l0[:, 6:] += 1.0
        assert not torch.allclose(own(source, target, lengths).logits, before), layer


def test_all_parameters_start_between_minus_and_plus_0_04():
    net = GNMT(40, 40, embed=24, hidden=24, layers=3, align=24)
    for name, weight in net.named_parameters():
        assert weight.abs().max() <= 0.04, name
        assert weight.abs().max() > 0.03, name
    assert not net.embed_source.weight[0].any()


def test_the_papers_sizes_come_to_its_278_million_parameters():
    """8 + 8 layers of 1024 and 32,000 word pieces; Shazeer et al. (2017) count 278M."""
    n, words = 1024, 32_000
    lstm = lambda inputs: 4 * n * (inputs + n) + 8 * n  # noqa: E731  (two biases a gate)
    encoder = 2 * lstm(n) + lstm(2 * n) + 6 * lstm(n)
    decoder = 8 * lstm(2 * n)
    expected = encoder + decoder + 2 * n * n + n + 3 * words * n + words
    found = slow.count(GNMT, words, words)
    assert found == expected
    assert found == pytest.approx(278e6, rel=0.02)
