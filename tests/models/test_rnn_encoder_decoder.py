"""The RNN Encoder-Decoder against appendix A, written again in NumPy."""

import numpy as np
import torch

from regard.models.rnn_encoder_decoder import RNNEncoderDecoder
from tests.models import slow

SIZES = {"embed": 5, "hidden": 6, "maxout": 4, "rank": 3}


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(RNNEncoderDecoder(12, 13, **SIZES, **changes))


def by_hand(net, sentence, target):
    """Logits (T, V) of one sentence."""
    p = slow.numbers(net)
    h = np.zeros(6)
    for w in sentence:
        a = p["encoder.input.weight"] @ p["embed_source.weight"][w] + p["encoder.input.bias"]
        (a_r, a_z, a_n), (u_r, u_z, u) = slow.thirds(a), slow.thirds(p["encoder.recurrent.weight"])
        r, z = slow.sigmoid(a_r + u_r @ h), slow.sigmoid(a_z + u_z @ h)
        h = z * h + (1 - z) * np.tanh(a_n + u @ (r * h))  # the reset inside
    c = np.tanh(p["summary.weight"] @ h + p["summary.bias"])
    h = np.tanh(p["initial.weight"] @ c + p["initial.bias"])
    logits = []
    for t, y in enumerate(target):
        e = p["embed_target.weight"][y] if t else np.zeros(5)  # e(y_0) = 0
        w_r, w_z, w = slow.thirds(p["word.weight"] @ e + p["word.bias"])
        c_r, c_z, c_n = slow.thirds(p["context.weight"] @ c)
        u_r, u_z, u = slow.thirds(p["recurrent.weight"])
        r, z = slow.sigmoid(w_r + u_r @ h + c_r), slow.sigmoid(w_z + u_z @ h + c_z)
        h = z * h + (1 - z) * np.tanh(w + r * (u @ h + c_n))  # the reset outside, gating C c too
        s = p["readout.linear.weight"] @ np.concatenate([h, e, c]) + p["readout.linear.bias"]
        s = s.reshape(-1, 2).max(-1)
        logits.append(p["output.1.weight"] @ p["output.0.weight"] @ s + p["output.1.bias"])
    return np.stack(logits)


def test_it_computes_the_papers_equations():
    net = model()
    source, lengths, target = slow.ragged()
    logits = net(source, target, lengths).logits
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected = by_hand(net, sentence, target[row].tolist())
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)


def test_the_start_symbol_is_the_zero_vector_and_stays_it():
    net = model()
    source, lengths, target = slow.ragged()
    expected = net(source, target, lengths).logits
    with torch.no_grad():
        net.embed_target.weight[1] = 5.0  # BOS
    assert torch.equal(net(source, target, lengths).logits, expected)


def test_the_summary_enters_every_step():
    net = model()
    source, lengths, target = slow.ragged()
    decoding = net.start(net.encode(source, lengths))
    for t in range(4):
        plain, after = net.step(target[:, t : t + 1], decoding)
        for name in ("summary", "context"):  # the readout, and the gates and the candidate
            moved = {**decoding.memories, name: decoding.memories[name] + 0.1}
            other, _ = net.step(target[:, t : t + 1], type(decoding)(moved, decoding.carried, t))
            assert (other - plain).abs().amax(-1).min() > 1e-5
        decoding = after


def test_parameter_count_at_the_papers_sizes():
    n, words, rank, units = 1000, 15_000, 100, 500
    expected = (
        2 * words * rank  # input matrices
        + 3 * n * rank + 3 * n**2 + 3 * n  # encoder
        + 2 * (n**2 + n)  # V, V'
        + 3 * n * rank + 3 * n + 3 * n**2 + 3 * n**2  # decoder: words, state, context
        + 2 * units * (2 * n + rank) + 2 * units  # readout
        + rank * units + words * rank + words  # G = G_l G_r
    )  # fmt: skip
    assert slow.count(RNNEncoderDecoder, words, words) == expected


def test_dropout_acts_in_training_only():
    net, plain = model(dropout=0.5), model()
    source, lengths, target = slow.ragged()
    expected = plain(source, target, lengths).logits
    assert torch.equal(net(source, target, lengths).logits, expected)
    net.train()
    assert not torch.equal(net(source, target, lengths).logits, expected)
