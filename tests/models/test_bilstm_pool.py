"""The pooled bidirectional LSTM against its equations in NumPy."""

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.models.bilstm_pool import BiLSTMPair, BiLSTMPool
from tests.models.slow import count, numbers, ragged, sentences, shaken
from tests.models.test_self_attentive import lstm

SIZES = {"embed": 5, "hidden": 4, "ffn_dim": 6}
POOLED = {"max": lambda h: h.max(0), "mean": lambda h: h.sum(0) / len(h)}


def model(made=BiLSTMPool, **changes):
    torch.manual_seed(1)
    return shaken(made(12, 5, **{**SIZES, **changes}))


def encoded(p, ids, pool):
    xs, path = p["encoder.embed.weight"][ids], "encoder.lstm"
    ahead, back = lstm(p, f"{path}.ahead", xs), lstm(p, f"{path}.back", xs[::-1])[::-1]
    return POOLED[pool](np.concatenate([ahead, back], 1))


def classified(p, s):
    hidden = np.tanh(p["head.hidden.0.weight"] @ s + p["head.hidden.0.bias"])
    return p["head.output.weight"] @ hidden + p["head.output.bias"]


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_it_computes_the_papers_equations(pool):
    net, pair = model(pool=pool), model(BiLSTMPair, pool=pool)
    source, lengths, _ = ragged()
    other = source.flip(0)
    logits, of_pairs = net(source, lengths).logits, pair(source, other, lengths).logits
    rows = [sentences(x, n) for x, n in ((source, lengths), (other, lengths.flip(0)))]
    for row, (one, two) in enumerate(zip(*rows, strict=True)):
        p = numbers(net)
        expected = classified(p, encoded(p, one, pool))
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        p = numbers(pair)
        u, v = encoded(p, one, pool), encoded(p, two, pool)
        expected = classified(p, np.concatenate([u, v, abs(u - v), u * v]))
        np.testing.assert_allclose(of_pairs[row].detach().numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_a_sentence_without_words_is_zero(pool):
    found = model(pool=pool).embedding(torch.tensor([[5, 6], [0, 0]]), torch.tensor([2, 0]))
    assert not found[1].any()
    assert found[0].all()


def test_the_papers_sizes():
    """4 gates, two directions, inputs of 300 and 2048 states; sentence vectors of 4096."""
    lstm = 2 * 4 * 2048 * (300 + 2048 + 2)
    with torch.device("meta"):
        assert BiLSTMPool(20, 3).encoder.size == 4096
    head = 4 * 4096 * 512 + 512 + 512 * 3 + 3
    assert count(BiLSTMPair, 20, 3) == 20 * 300 + lstm + head


def test_a_wrong_pool_is_refused():
    with pytest.raises(RequestError, match="no pool 'maks': valid: max, mean"):
        model(pool="maks")
