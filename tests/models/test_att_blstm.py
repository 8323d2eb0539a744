"""The attention-based BLSTM against its equations in NumPy."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.models.att_blstm import AttBLSTM
from tests.models.slow import count, numbers, ragged, sentences, shaken, softmax
from tests.models.test_self_attentive import lstm


def model():
    torch.manual_seed(1)
    return shaken(AttBLSTM(12, 5, embed=5, hidden=4))


def test_it_computes_the_papers_equations():
    net = model()
    source, lengths, _ = ragged()
    with watch(net) as seen:
        logits = net(source, lengths).logits
    (record,) = seen.values()
    p = numbers(net)
    for row, ids in enumerate(sentences(source, lengths)):
        xs = p["encoder.embed.weight"][ids]
        ahead = lstm(p, "encoder.lstm.ahead", xs)
        back = lstm(p, "encoder.lstm.back", xs[::-1])[::-1]
        states = ahead + back
        weights = softmax(np.tanh(states) @ p["encoder.query"])
        s = np.tanh(weights @ states)
        expected = p["head.output.weight"] @ s + p["head.output.bias"]
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        told = record.weights[row, 0, : len(ids)].detach().numpy()
        np.testing.assert_allclose(told, weights, atol=1e-10)


def test_dropout_is_on_words_states_and_sentence():
    """With each of the three, alone, outputs of one sentence differ in training."""
    for one in ("embed_dropout", "lstm_dropout", "dropout"):
        rates = {"embed_dropout": 0.0, "lstm_dropout": 0.0, "dropout": 0.0, one: 0.5}
        net = AttBLSTM(12, 5, **rates).train()
        ids = torch.tensor([[5, 6, 7]] * 2)
        first, second = net(ids).logits
        assert not torch.equal(first, second), one
        first, second = net.eval()(ids).logits
        torch.testing.assert_close(first, second)


def test_a_sentence_without_words_has_the_logits_of_nothing():
    net = model()
    found = net(torch.tensor([[5, 6], [0, 0]]), torch.tensor([2, 0])).logits
    assert found[1].tolist() == pytest.approx(net.head.output.bias.tolist())


def test_the_number_of_parameters():
    """4 gates of 100 cells, two directions, words of 100 numbers; 19 classes."""
    lstm_size = 2 * 4 * 100 * (100 + 100 + 2)
    assert count(AttBLSTM, 50, 19) == 50 * 100 + lstm_size + 100 + 19 * 101
