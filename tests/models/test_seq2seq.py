"""Seq2Seq against the equations in NumPy, and its 384 M parameters."""

import numpy as np
import pytest
import torch

from regard.models.seq2seq import Seq2Seq
from tests.models import slow

SIZES = {"embed": 5, "hidden": 6, "layers": 3}


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(Seq2Seq(12, 13, **SIZES, **changes))


@pytest.mark.parametrize("reverse", [True, False])
def test_it_computes_the_papers_equations(reverse):
    net = model(reverse=reverse)
    p = slow.numbers(net)
    source, lengths, target = slow.ragged()
    logits = net(source, target, lengths).logits
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        if reverse:
            sentence = sentence[:-1][::-1] + sentence[-1:]  # c b a EOS
        h, c = np.zeros((3, 6)), np.zeros((3, 6))
        for w in sentence:
            slow.lstm(p, "encoder", p["embed_source.weight"][w], h, c)
        for t, y in enumerate(target[row].tolist()):
            top = slow.lstm(p, "decoder", p["embed_target.weight"][y], h, c)
            found = logits[row, t].detach().numpy()
            np.testing.assert_allclose(found, p["output.weight"] @ top, atol=1e-11)


def test_the_whole_state_of_all_layers_starts_the_decoder():
    net = model()
    source, lengths, target = slow.ragged()
    encoded = net.encode(source, lengths)
    plain, _ = net.step(target[:, :1], net.start(encoded))
    for part in range(2):  # h and c
        for layer in range(3):
            final = [x.clone() for x in encoded.final]
            final[part][:, layer] += 0.1
            moved, _ = net.step(target[:, :1], net.start(encoded._replace(final=tuple(final))))
            assert (moved - plain).abs().amax(-1).min() > 1e-6
    assert net.start(encoded).memories == {}  # and nothing else of the source stays


def test_the_384_million_parameters():
    assert slow.count(Seq2Seq, 160_000, 80_000) == 384_000_000
    assert slow.count(Seq2Seq, 160_000, 80_000, bias=True) == 384_144_000


@pytest.mark.parametrize("scale", [0.08, 0.16])
def test_it_starts_uniform(scale):
    net = Seq2Seq(200, 200, embed=20, hidden=20, scale=scale)
    for name, p in net.named_parameters():
        assert p.abs().max() <= scale
        assert abs(p.std().item() / (2 * scale / 12**0.5) - 1) < 0.15, name


def test_the_forget_gates_can_start_open():
    torch.manual_seed(1)
    plain = Seq2Seq(12, 13, **SIZES, bias=True)
    torch.manual_seed(1)
    opened = Seq2Seq(12, 13, **SIZES, bias=True, forget_bias=1.0)
    moved = dict(opened.named_parameters())
    for name, p in plain.named_parameters():
        difference = (moved[name] - p).detach()
        if "bias_ih" in name:  # i, f, g, o of 6 cells each
            expected = torch.zeros(24)
            expected[6:12] = 1.0
            torch.testing.assert_close(difference, expected, atol=1e-6, rtol=0)
        else:
            assert not difference.any(), name


def test_open_forget_gates_ask_for_biases():
    with pytest.raises(ValueError, match="forget_bias is 1, but the model has no biases: set bias"):
        Seq2Seq(12, 13, **SIZES, forget_bias=1.0)


def test_dropout_acts_in_training_only():
    net, plain = model(dropout=0.5), model()
    source, lengths, target = slow.ragged()
    expected = plain(source, target, lengths).logits
    assert torch.equal(net(source, target, lengths).logits, expected)
    net.train()
    assert not torch.equal(net(source, target, lengths).logits, expected)


def test_biases_take_part():
    net = model(bias=True)
    source, lengths, target = slow.ragged()
    net(source, target, lengths).logits.square().sum().backward()
    assert all(p.grad.any() for p in net.parameters())
