"""Show, Attend and Tell against its equations in NumPy, and what it adds to the loss."""

import math

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.models.show_attend_tell import ShowAttendTell
from regard.protocols import PAD, Inputs
from tests.models import slow

TARGET = torch.tensor([[1, 5, 6, 7], [1, 4, 0, 0]])
OUT = torch.tensor([[5, 6, 7, 2], [4, 2, 0, 0]])


def model(**changes):
    torch.manual_seed(1)
    made = ShowAttendTell(2, 13, widths=[3, 6], convolutions=[1, 1], embed=5, hidden=7, align=4,
                          **{"dropout": 0.0, **changes})  # fmt: skip
    return slow.shaken(made)


def regions(count=2, size=6):
    values = torch.randn(count, 9, size, generator=torch.Generator().manual_seed(3))
    return Inputs(values.double())


def by_hand(net, a, target, kind="soft", gate=True):
    """Logits (T, V) and weights (T, L) of one picture."""
    p = slow.numbers(net)
    mean = a.mean(0)
    h = np.tanh(p["initial.weight"] @ mean + p["initial.bias"])
    c = np.tanh(p["initial_cell.weight"] @ mean + p["initial_cell.bias"])
    logits, looks = [], []
    for t, y in enumerate(target):
        word = p["embed_target.weight"][y] if t else np.zeros(5)
        if kind == "none":
            alpha = np.full(len(a), 1 / len(a))
        else:
            score = "attention.score"
            inner = a @ p[f"{score}.key.weight"].T + p[f"{score}.key.bias"]
            inner = inner + p[f"{score}.query.weight"] @ h
            alpha = slow.softmax(np.tanh(inner) @ p[f"{score}.v"])
        looks.append(alpha)
        z = alpha @ a
        if gate and kind == "soft":
            z = z * slow.sigmoid(p["gate.weight"] @ h + p["gate.bias"])
        stack = "decoder.stack"
        gates = p[f"{stack}.weight_ih_l0"] @ np.concatenate([word, z])
        gates = gates + p[f"{stack}.weight_hh_l0"] @ h
        gates = gates + p[f"{stack}.bias_ih_l0"] + p[f"{stack}.bias_hh_l0"]
        i, f, g, o = np.split(gates, 4)
        c = slow.sigmoid(f) * c + slow.sigmoid(i) * np.tanh(g)
        h = slow.sigmoid(o) * np.tanh(c)
        inner = word + p["state.weight"] @ h + p["state.bias"] + p["context.weight"] @ z
        logits.append(p["output.weight"] @ np.tanh(inner) + p["output.bias"])
    return np.stack(logits), np.stack(looks)


@pytest.mark.parametrize(("kind", "gate"), [("soft", True), ("soft", False), ("hard", True),
                                            ("none", True)])  # fmt: skip
def test_it_computes_the_papers_equations(kind, gate):
    net, given = model(attention=kind, gate=gate), regions()
    with watch(net) as seen:
        logits = net(given, TARGET).logits
    for row in range(2):
        expected, looks = by_hand(net, given.values[row].numpy(), TARGET[row].tolist(), kind, gate)
        real = int(TARGET[row].ne(PAD).sum())
        np.testing.assert_allclose(logits[row, :real].detach(), expected[:real], atol=1e-10)
        for t in range(real):
            found = seen["attention"].steps[t][row, 0].detach().numpy()
            np.testing.assert_allclose(found, looks[t], atol=1e-10)


def test_the_doubly_stochastic_penalty_counts_real_steps_alone():
    net, given = model(doubly=0.7).train(), regions()
    found = net(given, TARGET).extra["penalty"]
    total = 0.0
    for row, real in enumerate((4, 2)):
        _, looks = by_hand(net, given.values[row].numpy(), TARGET[row].tolist())
        total += ((1 - looks[:real].sum(0)) ** 2).sum()
    assert float(found) == pytest.approx(0.7 * total / 2, abs=1e-9)
    assert not model(doubly=0.7)(given, TARGET).extra
    assert not model(doubly=0.0).train()(given, TARGET).extra


def test_expected_batches_of_hard_attention_have_the_entropy_alone():
    net, given = model(attention="hard", expected=1.0, entropy=0.3).train(), regions()
    before = float(net.baseline)
    found = net(given, TARGET).extra["penalty"]
    total = 0.0
    for row, real in enumerate((4, 2)):
        looks = by_hand(net, given.values[row].numpy(), TARGET[row].tolist(), "hard")[1][:real]
        total -= (looks * np.log(looks)).sum()
    assert float(found) == pytest.approx(-0.3 * total / 2, abs=1e-9)
    assert float(net.baseline) == before


def test_samples_are_reinforced_by_what_they_bring_above_the_moving_average():
    """The gradient of the score is the sum over samples of (reward - b) times that of log p."""
    net, given = model(attention="hard", expected=0.0, entropy=0.0, reinforce=1.0), regions()
    net.train()
    net.baseline.data.fill_(-2.0)
    torch.manual_seed(5)
    output = net(given, TARGET)
    logs = output.logits.log_softmax(-1).gather(-1, OUT[..., None])[..., 0]
    real = (OUT != PAD).double()
    reward = (logs * real).sum(1) / real.sum(1)
    assert float(net.baseline) == pytest.approx(0.9 * -2.0 + 0.1 * float(reward.mean()), abs=1e-6)
    # The same samples, drawn again: their log-probabilities by hand.
    net.baseline.data.fill_(-2.0)
    torch.manual_seed(5)
    chosen, weights = [], []
    original = torch.multinomial
    torch.multinomial = lambda *a, **k: chosen.append(original(*a, **k)) or chosen[-1]
    try:
        with watch(net) as seen:
            net(given, TARGET)
    finally:
        torch.multinomial = original
    weights = torch.stack([one[:, 0] for one in seen["attention"].steps], 1)
    log_p = weights.gather(2, torch.stack(chosen, 1))[..., 0].log()
    expected = -((reward.detach() + 2.0)[:, None] * log_p * real).sum(1).mean()
    torch.testing.assert_close(output.extra["penalty"], expected, rtol=0, atol=1e-9)


def test_half_of_the_batches_read_the_expected_vector():
    net, given = model(attention="hard").train(), regions()
    torch.manual_seed(2)
    sampled = 0
    for _ in range(60):
        before = float(net.baseline)
        net(given, TARGET)
        sampled += float(net.baseline) != before
    assert 30 - 3 * math.sqrt(15) < sampled < 30 + 3 * math.sqrt(15)


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(RequestError, match="no attention of ShowAttendTell is called 'softer'"):
        model(attention="softer")
    with pytest.raises(RequestError, match=r"reads pictures \(batch, 2, height, width\)"):
        model()(torch.zeros(1, 3, 8, 8).double(), TARGET[:1])
