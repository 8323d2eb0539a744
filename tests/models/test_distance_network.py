"""The distance-based self-attention network against its equations in NumPy."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.models.distance_network import DistanceClassifier, DistancePair
from tests.layers.test_distance import by_hand
from tests.models.slow import count, numbers, ragged, sentences, shaken, softmax

SIZES = {"embed": 6, "heads": 2, "hidden": 7, "ffn_dim": 5, "dropout": 0.0}


def made(kind, **changes):
    torch.manual_seed(1)
    return shaken(kind(12, 3, **{**SIZES, **changes}))


def vector(net, ids, alpha):
    """s and P of one sentence."""
    p, blocks = numbers(net.encoder), net.encoder.blocks
    x = p["embed.weight"][ids]
    u = np.concatenate(
        [by_hand(blocks.forth, x, "forward", alpha), by_hand(blocks.back, x, "backward", alpha)], 1
    )
    hidden = u @ p["words.score.key.weight"].T + p["words.score.key.bias"]
    hidden = np.where(hidden > 0, hidden, np.exp(hidden) - 1)
    f = hidden @ p["words.score.out.weight"].T + p["words.score.out.bias"]
    weights = np.stack([softmax(column) for column in f.T], 1)  # (T, feature)
    return np.concatenate([(weights * u).sum(0), u.max(0)]), weights


def classified(net, x):
    p = numbers(net.head)
    hidden = np.maximum(0, p["hidden.0.weight"] @ x + p["hidden.0.bias"])
    return p["output.weight"] @ hidden + p["output.bias"]


@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_it_computes_the_papers_equations(alpha):
    net, (first, lengths, _) = made(DistancePair, alpha=alpha), ragged()
    second, others = first.flip(0)[:, :5], lengths.flip(0).clamp(max=5)
    with watch(net) as seen:
        logits = net(first, second, lengths, others).logits
    pairs = zip(sentences(first, lengths), sentences(second, others), strict=True)
    for row, (a, b) in enumerate(pairs):
        (u, weights), (v, _) = vector(net, a, alpha), vector(net, b, alpha)
        found = seen["encoder.words"].steps[0][row, 0].detach().numpy()
        np.testing.assert_allclose(found[: len(a)], weights, atol=1e-10)
        assert not found[len(a) :].any()
        expected = classified(net, np.concatenate([u, v, abs(u - v), u * v]))
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-9)


def test_the_classifier_of_one_sentence_reads_the_same_vector():
    net, (source, lengths, _) = made(DistanceClassifier), ragged()
    logits = net(source, lengths).logits.detach().numpy()
    for row, ids in enumerate(sentences(source, lengths)):
        expected = classified(net, vector(net, ids, 1.5)[0])
        np.testing.assert_allclose(logits[row], expected, atol=1e-9)


def test_the_papers_size():
    """4.7 million; exactly that of the public re-implementation with its additional terms."""
    vocabulary, d = 20, 300
    found = count(DistancePair, vocabulary, 3) - vocabulary * d
    blocks = 2 * 1_263_000
    source_to_token = 2 * (600 * 600 + 600)
    classifier = 4 * 4 * d * 300 + 300 + 300 * 3 + 3
    assert found == blocks + source_to_token + classifier == 4_688_403
    assert round(found / 1e6, 1) == 4.7
    more_in_blocks = 2 * (d + 2 * (d // 5) + 2 * d)  # see DistanceBlock
    two_norms = 2 * 600 + 2 * 300  # in the two terms that the sheet counts 1200 and 600 higher
    assert found + more_in_blocks + two_norms == 4_692_243


def test_word_order_is_known_by_distance_and_direction():
    """With alpha = 0 the words after a word are a set to it; with a penalty they are not."""
    source = torch.tensor([[4, 5, 6, 7], [4, 6, 5, 7]])
    for alpha, same in ((0.0, True), (1.5, False)):
        net = made(DistancePair, alpha=alpha)
        u = net.encoder.blocks.back(net.encoder.embed(source))
        assert torch.allclose(u[0, 0], u[1, 0], atol=1e-12) == same
