"""Dynamic meta-embeddings against their equations in NumPy."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.models.dme import DME, Contextual, DMEPair, Dynamic
from regard.protocols import Inputs
from tests.models.slow import numbers, ragged, sentences, shaken, softmax
from tests.models.test_self_attentive import lstm

SIZES = {
    "embed": 5, "more": [4], "characters": 3, "filters": 6, "dim": 5, "attention": 2, "hidden": 4,
    "ffn_dim": 7, "dropout": 0.0,
}  # fmt: skip


def both(p, path, xs):
    back = lstm(p, f"{path}.back", xs[::-1])[::-1]
    return np.concatenate([lstm(p, f"{path}.ahead", xs), back], 1)


def spelling(p, word):
    """The largest of each filter over a word's characters."""
    e = p["letters.embed.weight"]
    padded = [0, *word, 0]
    states = []
    for k in range(len(word)):
        window = np.concatenate([e[c] for c in padded[k : k + 3]])
        states.append(np.tanh(p["letters.filters.weight"] @ window + p["letters.filters.bias"]))
    return np.max(states, 0)


def vector(p, mix, ids, words):
    """s and α of one sentence."""
    sets = []
    for j, word in zip(ids, words, strict=True):
        raw = [p["embed.weight"][j], p["more.0.weight"][j], spelling(p, word)]
        sets.append(
            [
                p[f"projections.{i}.weight"] @ x + p[f"projections.{i}.bias"]
                for i, x in enumerate(raw)
            ]
        )
    sets = np.array(sets)  # (T, n, dim)
    if mix == "dynamic":
        inner = sets @ p["mix.sets.score.key.weight"].T + p["mix.sets.score.key.bias"]
        scores = (inner @ p["mix.sets.score.out.weight"].T + p["mix.sets.score.out.bias"])[..., 0]
    elif mix == "contextual":
        scores = np.stack(
            [both(p, "mix.lstm", sets[:, i]) @ p["mix.query"] for i in range(sets.shape[1])], 1
        )
    alpha = np.ones(sets.shape[:2])
    if mix != "sum":
        alpha = np.stack([softmax(row) for row in scores])
    x = np.maximum(0, (alpha[..., None] * sets).sum(1))
    return both(p, "lstm", x).max(0), alpha


def spelled(source, lengths):
    """Every word with characters of its own, 1 to 4 of them."""
    g = torch.Generator().manual_seed(3)
    letters = torch.randint(4, 9, (*source.shape, 4), generator=g)
    sizes = torch.randint(1, 5, source.shape, generator=g) * (source != 0)
    letters = letters.masked_fill(torch.arange(4) >= sizes[..., None], 0)
    words = [
        [[c for c in word if c] for word in row[:n]]
        for row, n in zip(letters.tolist(), lengths.tolist(), strict=True)
    ]
    return Inputs(source, lengths, {"characters": letters}), words


@pytest.mark.parametrize("mix", ["dynamic", "contextual", "sum"])
def test_it_computes_the_papers_equations(mix):
    torch.manual_seed(1)
    net = shaken(DME(12, 3, 9, mix=mix, **SIZES))
    net.encoder.letters.embed.silence()
    source, lengths, _ = ragged()
    given, words = spelled(source, lengths)
    p, head = numbers(net.encoder), numbers(net.head)
    with watch(net) as seen:
        logits = net(given).logits.detach().numpy()
    assert set(seen) == ({"encoder.mix.sets"} if mix != "sum" else set())
    for row, ids in enumerate(sentences(source, lengths)):
        s, alpha = vector(p, mix, ids, words[row])
        hidden = np.maximum(0, head["hidden.0.weight"] @ s + head["hidden.0.bias"])
        expected = head["output.weight"] @ hidden + head["output.bias"]
        np.testing.assert_allclose(logits[row], expected, atol=1e-10)
        if mix != "sum":
            found = seen["encoder.mix.sets"].weights[row, : len(ids), 0].detach().numpy()
            np.testing.assert_allclose(found, alpha, atol=1e-12)


def test_pairs_are_compared():
    torch.manual_seed(1)
    net = shaken(DMEPair(12, 3, 0, 9, **SIZES))
    source, lengths, _ = ragged()
    (first, words), (second, others) = (
        spelled(source, lengths),
        spelled(source.flip(0), lengths.flip(0)),
    )
    p, head = numbers(net.encoder), numbers(net.head)
    logits = net(first, second).logits.detach().numpy()
    ids = sentences(source, lengths)
    for row in range(3):
        u, v = (
            vector(p, "dynamic", ids[row], words[row])[0],
            vector(p, "dynamic", ids[2 - row], others[row])[0],
        )
        x = np.concatenate([u, v, abs(u - v), u * v])
        for k in (0, 1):
            x = np.maximum(0, head[f"hidden.{k}.weight"] @ x + head[f"hidden.{k}.bias"])
        expected = head["output.weight"] @ x + head["output.bias"]
        np.testing.assert_allclose(logits[row], expected, atol=1e-10)


def test_mixing_costs_517_numbers():
    with torch.device("meta"):
        dynamic, contextual = Dynamic(256, 2), Contextual(256, 2)
    assert sum(p.numel() for p in dynamic.parameters()) == 256 * 2 + 2 + 2 + 1 == 517
    one_direction = 4 * (2 * 256 + 2 * 2 + 2 + 2)
    assert sum(p.numel() for p in contextual.parameters()) == 2 * one_direction + 4


@pytest.mark.parametrize("kind", [Dynamic, Contextual])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_any_number_of_representations_is_mixed(kind, n):
    """The order of the representations says nothing, and of equal ones the mix is that one."""
    torch.manual_seed(2)
    mix, lengths = shaken(kind(6, 2)), torch.tensor([4, 2])
    sets = torch.randn(2, 4, n, 6, dtype=torch.float64)
    mixed = mix(sets, lengths)
    torch.testing.assert_close(mix(sets.flip(2), lengths), mixed, atol=1e-12, rtol=0)
    same = sets[:, :, :1].expand(-1, -1, n, -1)
    torch.testing.assert_close(mix(same, lengths), same[:, :, 0], atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mix": "dynamics"}, "no mix 'dynamics': did you mean 'dynamic'"),
        ({"more": []}, r"has one: give task.characters=true, or .* model.more=\[5\]"),
    ],
)
def test_wrong_settings_are_refused(wrong, said):
    with pytest.raises(RequestError, match=said):
        DME(12, 3, **{**SIZES, **wrong})
