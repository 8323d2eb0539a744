"""Temporal attention against its equations in NumPy, and what it knows of time."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.models.temporal_captioner import TemporalCaptioner
from regard.protocols import Inputs
from tests.models import slow

TARGET = torch.tensor([[1, 5, 6, 7], [1, 4, 0, 0]])
LENGTHS = [4, 3]


def model(**changes):
    torch.manual_seed(1)
    settings = {"widths": [3, 4], "convolutions": [1, 1], "motion": 3, "grid": 2, "embed": 5}
    settings |= {"hidden": 7, "align": 4, "dropout": 0.0}
    made = TemporalCaptioner(2, 13, **{**settings, **changes})
    return slow.shaken(made)


def clips():
    values = torch.randn(2, 4, 2, 8, 8, generator=torch.Generator().manual_seed(3)).double()
    return Inputs(values, torch.tensor(LENGTHS))


def convolved(x, weight, bias):
    """3 x 3, zeros around: (C, H, W) to (F, H, W)."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    _, high, wide = x.shape
    found = np.empty((len(weight), high, wide))
    for i in range(high):
        for j in range(wide):
            found[:, i, j] = (weight * padded[None, :, i : i + 3, j : j + 3]).sum((1, 2, 3))
    return found + bias[:, None, None]


def frames_by_hand(p, clip):
    """(T, D): what is there and what moves."""
    maps = []
    for frame in clip:
        x = np.maximum(
            convolved(frame, p["features.blocks.0.0.weight"], p["features.blocks.0.0.bias"]), 0
        )
        x = x.reshape(3, 4, 2, 4, 2).max((2, 4))
        x = convolved(x, p["features.blocks.1.0.weight"], p["features.blocks.1.0.bias"])
        maps.append(np.maximum(x, 0))
    coarse = [m.reshape(4, 2, 2, 2, 2).mean((2, 4)) for m in maps]
    none = np.zeros_like(coarse[0])
    around = [none, *coarse, none]
    found = []
    for t, m in enumerate(maps):
        three = np.stack(around[t : t + 3], 1)  # (C, 3, 2, 2)
        moves = (p["motion.weight"] * three[None]).sum((1, 2, 3, 4)) + p["motion.bias"]
        found.append(np.concatenate([m.mean((1, 2)), np.maximum(moves, 0)]))
    return np.stack(found)


def by_hand(net, clip, target, attention):
    """Logits (U, V) and weights (U, T) of one clip."""
    p = slow.numbers(net)
    v = frames_by_hand(p, clip)
    mean = v.mean(0)
    h = np.tanh(p["initial.weight"] @ mean + p["initial.bias"])
    c = np.tanh(p["initial_cell.weight"] @ mean + p["initial_cell.bias"])
    logits, looks = [], []
    for t, y in enumerate(target):
        word = p["embed_target.weight"][y] if t else np.zeros(5)
        alpha = np.full(len(v), 1 / len(v))
        if attention == "temporal":
            inner = v @ p["attention.score.key.weight"].T + p["attention.score.key.bias"]
            inner = inner + p["attention.score.query.weight"] @ h
            alpha = slow.softmax(np.tanh(inner) @ p["attention.score.v"])
        looks.append(alpha)
        phi = alpha @ v
        stack = "decoder.stack"
        gates = p[f"{stack}.weight_ih_l0"] @ np.concatenate([word, phi])
        gates = gates + p[f"{stack}.weight_hh_l0"] @ h
        gates = gates + p[f"{stack}.bias_ih_l0"] + p[f"{stack}.bias_hh_l0"]
        i, f, g, o = np.split(gates, 4)
        c = slow.sigmoid(f) * c + slow.sigmoid(i) * np.tanh(g)
        h = slow.sigmoid(o) * np.tanh(c)
        inner = p["readout.weight"] @ np.concatenate([h, phi, word]) + p["readout.bias"]
        logits.append(p["output.weight"] @ np.tanh(inner) + p["output.bias"])
    return np.stack(logits), np.stack(looks)


@pytest.mark.parametrize("attention", ["temporal", "mean"])
def test_it_computes_the_papers_equations(attention):
    net, given = model(attention=attention), clips()
    with watch(net) as seen:
        logits = net(given, TARGET).logits
    for row, length in enumerate(LENGTHS):
        clip, real = given.values[row, :length].numpy(), int(TARGET[row].ne(0).sum())
        expected, looks = by_hand(net, clip, TARGET[row].tolist(), attention)
        np.testing.assert_allclose(logits[row, :real].detach(), expected[:real], atol=1e-10)
        for t in range(real):
            found = seen["attention"].steps[t][row, 0].detach().numpy()
            np.testing.assert_allclose(found[:length], looks[t], atol=1e-10)
            assert not found[length:].any()


def test_without_motion_the_order_of_frames_says_nothing():
    given, order = clips(), torch.tensor([2, 0, 3, 1])
    whole = Inputs(given.values[:1])
    mixed = Inputs(given.values[:1, order])
    still, moving = model(motion=0), model()
    np.testing.assert_allclose(
        still(whole, TARGET[:1]).logits.detach(), still(mixed, TARGET[:1]).logits.detach(),
        atol=1e-10,
    )  # fmt: skip
    apart = moving(whole, TARGET[:1]).logits - moving(mixed, TARGET[:1]).logits
    assert apart.abs().max() > 1e-3


def test_what_cannot_be_is_said():
    with pytest.raises(RequestError, match="no attention of TemporalCaptioner"):
        model(attention="spatial")
    with pytest.raises(RequestError, match="reads clips"):
        model()(Inputs(torch.zeros(2, 4, 3, 8, 8).double()), TARGET)
