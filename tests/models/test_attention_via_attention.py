"""Attention via attention against its equations in NumPy."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.models.attention_via_attention import AttentionViaAttention, character_weights
from regard.protocols import Inputs
from tests.models.slow import numbers, ragged, sentences, shaken, softmax
from tests.models.test_dme import both, spelled

SIZES = {
    "embed": 5, "hidden": 4, "attention": 3, "characters": 3, "filters": 6, "ffn_dim": 7,
    "dropout": 0.0,
}  # fmt: skip


def made(levels):
    torch.manual_seed(1)
    return shaken(AttentionViaAttention(12, 3, 9, levels=levels, **SIZES))


def spelling(p, word):
    """The states of a word's characters."""
    e = p["letters.embed.weight"]
    padded = [0, *word, 0]
    windows = [np.concatenate([e[c] for c in padded[k : k + 3]]) for k in range(len(word))]
    return np.array([
        np.tanh(p["letters.filters.weight"] @ w + p["letters.filters.bias"]) for w in windows
    ])  # fmt: skip


def vector(p, levels, ids, words):
    """z, α_w and all α_wk of one sentence, a character at a time."""
    states = both(p, "lstm", p["embed.weight"][ids])
    alpha = np.full(len(ids), 1 / len(ids))
    if levels != "characters":
        inner = np.tanh(states @ p["words.score.key.weight"].T + p["words.score.key.bias"])
        alpha = softmax((inner @ p["words.score.out.weight"].T)[:, 0])
    if levels == "words":
        return alpha @ states, alpha, []
    found, weights, path = np.zeros(6), [], "characters.score"
    for share, state, word in zip(alpha, states, words, strict=True):
        cs = spelling(p, word)
        query = p[f"{path}.query.weight"] @ state
        scores = [p[f"{path}.v"] @ np.tanh(query + p[f"{path}.key.weight"] @ c) for c in cs]
        own = share * softmax(np.array(scores))
        found += own @ cs
        weights.append(own)
    z = found if levels == "characters" else np.concatenate([alpha @ states, found])
    return z, alpha, weights


@pytest.mark.parametrize("levels", ["both", "words", "characters"])
def test_it_computes_the_equations(levels):
    net, (source, lengths, _) = made(levels), ragged()
    given, words = spelled(source, lengths)
    p, head = numbers(net.encoder), numbers(net.head)
    with watch(net) as seen:
        logits = net(given).logits.detach().numpy()
    for row, ids in enumerate(sentences(source, lengths)):
        z, alpha, weights = vector(p, levels, ids, words[row])
        hidden = np.maximum(0, head["hidden.0.weight"] @ z + head["hidden.0.bias"])
        expected = head["output.weight"] @ hidden + head["output.bias"]
        np.testing.assert_allclose(logits[row], expected, atol=1e-10)
        found = seen["encoder.words"].weights[row, 0].detach().numpy()
        np.testing.assert_allclose(found[: len(ids)], alpha, atol=1e-12)
        assert not found[len(ids) :].any()
        if levels == "words":
            assert set(seen) == {"encoder.words"}
            continue
        pair = (seen[f"encoder.{name}"].weights for name in ("words", "characters"))
        each = character_weights(*pair)[row].detach().numpy()
        assert abs(each.sum() - 1) < 1e-12
        for word, own in enumerate(weights):
            np.testing.assert_allclose(each[word, : len(own)], own, atol=1e-12)
            assert not each[word, len(own) :].any()


def test_characters_of_a_word_that_is_not_favored_are_not_read():
    """With a word level that looks at one word alone, the others' characters change nothing."""
    net, (source, lengths, _) = made("both"), ragged()
    given, _ = spelled(source[:1], lengths[:1])
    with torch.no_grad():  # the softmax becomes a maximum
        net.encoder.words.score.out.weight.mul_(300)
    with watch(net) as seen:
        expected = net(given).logits
    best = int(seen["encoder.words"].weights[0, 0].argmax())
    assert seen["encoder.words"].weights[0, 0, best] > 1 - 1e-9
    for word in range(6):
        letters = given.extras["characters"].clone()
        letters[0, word, 0] = 4 + (letters[0, word, 0] - 3) % 5
        changed = net(Inputs(given.values, given.lengths, {"characters": letters})).logits
        assert torch.allclose(changed, expected, atol=1e-7) == (word != best)


@pytest.mark.parametrize(
    ("characters", "levels", "said"),
    [
        (9, "word", "no levels 'word': did you mean 'words'"),
        (0, "both", "there are none: give task.characters=true, or model.levels=words"),
    ],
)
def test_wrong_settings_are_refused(characters, levels, said):
    with pytest.raises(RequestError, match=said):
        AttentionViaAttention(12, 3, characters, **{**SIZES, "levels": levels})
