"""dl4mt's conditional GRU against its code's equations in NumPy, and its size."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.models.conditional_gru import ConditionalGRU
from tests.models import slow

H = 6
SIZES = {"embed": 5, "hidden": H, "align": 7}


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(ConditionalGRU(12, 13, **{**SIZES, **changes}))


def unit(a, u, s, inside=0.0):
    """One step with the reset gate behind the product; z keeps; a and u are of r, z, n."""
    (a_r, a_z, a_n), (u_r, u_z, u_n) = np.split(a, 3), slow.thirds(u)
    r, z = slow.sigmoid(a_r + u_r @ s), slow.sigmoid(a_z + u_z @ s)
    return z * s + (1 - z) * np.tanh(a_n + r * (u_n @ s + inside))


def read(p, path, words):
    s, states = np.zeros(H), []
    for word in words:
        a = p[f"{path}.input.weight"] @ word + p[f"{path}.input.bias"]
        s = unit(a, p[f"{path}.recurrent.weight"], s)
        states.append(s)
    return np.stack(states)


def by_hand(net, sentence, target):
    """Logits (T, V) and attention (T, S) of one sentence."""
    p = slow.numbers(net)
    words = p["embed_source.weight"][sentence]
    ahead = read(p, "encoder.ahead", words)
    back = read(p, "encoder.back", words[::-1])[::-1]
    h = np.concatenate([ahead, back], -1)
    s = np.tanh(p["initial.weight"] @ h.mean(0) + p["initial.bias"])
    logits, looks = [], []
    for t, y in enumerate(target):
        e = p["embed_target.weight"][y] if t else np.zeros(5)  # the start's vector is zero
        between = unit(p["word.weight"] @ e + p["word.bias"], p["first.weight"], s)
        query = p["attention.score.query.weight"] @ between
        keys = h @ p["attention.score.key.weight"].T + p["attention.score.key.bias"]
        look = slow.softmax(np.tanh(query + keys) @ p["attention.score.v"])
        c = look @ h
        a = p["context.weight"] @ c
        a[: 2 * H] += p["bias"][: 2 * H]
        s = unit(a, p["second.weight"], between, p["bias"][2 * H :])
        top = np.tanh(p["readout.weight"] @ np.concatenate([s, e, c]) + p["readout.bias"])
        logits.append(p["output.weight"] @ top + p["output.bias"])
        looks.append(look)
    return np.stack(logits), np.stack(looks)


def test_it_computes_the_codes_equations():
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
            assert (found[len(look) :] == 0).all()


def test_attention_asks_with_the_state_that_has_read_the_word():
    """In RNNsearch what a step looks at does not depend on the word read in it; here it does."""
    net = model()
    source, lengths, target = slow.ragged()
    other = target.clone()
    other[:, 2] = 4 + (other[:, 2] - 3) % 9
    with watch(net) as seen:
        net(source, target, lengths)
        net(source, other, lengths)
    steps = seen["attention"].steps
    for t in range(2):
        assert torch.equal(steps[t], steps[5 + t])
    assert not torch.allclose(steps[2][0], steps[7][0])


def test_the_start_is_the_codes():
    torch.manual_seed(2)
    net = ConditionalGRU(90, 90, embed=60, hidden=80)
    named = dict(net.named_parameters())
    assert all(p.eq(0).all() for name, p in named.items() if name.endswith("bias"))
    assert not net.embed_target.weight[:2].any()  # padding and the start symbol
    for name in ("word.weight", "context.weight", "readout.weight", "attention.score.v"):
        assert abs(named[name].std().item() / 0.01 - 1) < 0.1, name
    key = named["attention.score.key.weight"].detach()  # square: n' = 2 n
    torch.testing.assert_close(key @ key.T, torch.eye(160), atol=1e-4, rtol=0)
    for unit_ in (net.first, net.second, net.encoder.back.recurrent):
        for u in unit_.weight.detach().chunk(3):
            torch.testing.assert_close(u @ u.T, torch.eye(80), atol=1e-4, rtol=0)


def test_parameters_at_the_codes_sizes():
    m, n, v = 512, 1024, 30_000
    gru = 3 * (m * n + n * n + n)
    decoder = gru + 3 * (2 * n * n + n * n + n)
    attention = n * 2 * n + (2 * n) ** 2 + 2 * (2 * n)
    outer = 2 * v * m + (2 * n * n + n) + ((n + m + 2 * n) * m + m) + (m * v + v)
    assert slow.count(ConditionalGRU, v, v) == 2 * gru + decoder + attention + outer


@pytest.mark.parametrize("dropped", [0.0, 0.5])
def test_dropout_acts_in_training_only(dropped):
    net = model(dropout=dropped)
    source, lengths, target = slow.ragged()
    expected = model()(source, target, lengths).logits
    assert torch.equal(net(source, target, lengths).logits, expected)
    same = torch.equal(net.train()(source, target, lengths).logits, expected)
    assert same == (dropped == 0.0)
