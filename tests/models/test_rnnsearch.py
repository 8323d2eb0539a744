"""RNNsearch against the paper's equations, written again in NumPy, and against its claims."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.models.rnnsearch import RNNencdec, RNNsearch
from tests.models import slow

SIZES = {"embed": 5, "hidden": 6, "maxout": 4}


def model(made=RNNsearch, **changes):
    torch.manual_seed(1)
    extra = {"align": 7} if made is RNNsearch else {}
    return slow.shaken(made(12, 13, **SIZES, **extra, **changes))


def unit(a, recurrent, s, reset):
    """(1 - z) s + z s~ with a = [a_r, a_z, a_n]: Bahdanau's z."""
    (a_r, a_z, a_n), (u_r, u_z, u) = slow.thirds(a), slow.thirds(recurrent)
    r, z = slow.sigmoid(a_r + u_r @ s), slow.sigmoid(a_z + u_z @ s)
    new = np.tanh(a_n + u @ (r * s)) if reset == "before" else np.tanh(a_n + r * (u @ s))
    return (1 - z) * s + z * new


def read(p, path, words, reset):
    """The states of one GRU of the encoder over words (T, m) from zero."""
    s, states = np.zeros(SIZES["hidden"]), []
    for word in words:
        a = p[f"{path}.input.weight"] @ word + p[f"{path}.input.bias"]
        s = unit(a, p[f"{path}.recurrent.weight"], s, reset)
        states.append(s)
    return np.stack(states)


def by_hand(net, sentence, target, reset="before"):
    """Logits (T, V) and attention (T, S) of one sentence, as the appendix prints them."""
    p = slow.numbers(net)
    words = p["embed_source.weight"][sentence]
    searching = isinstance(net, RNNsearch)
    if searching:
        ahead = read(p, "encoder.ahead", words, reset)
        back = read(p, "encoder.back", words[::-1], reset)[::-1]
        h, first = np.concatenate([ahead, back], -1), back[0]
    else:
        h = read(p, "encoder", words, reset)
        first = h[-1]
    s = np.tanh(p["initial.weight"] @ first + p["initial.bias"])
    logits, looks = [], []
    for y in target:
        e = p["embed_target.weight"][y]
        if searching:
            energy = np.array(
                [
                    p["attention.score.v"]
                    @ np.tanh(
                        p["attention.score.query.weight"] @ s
                        + p["attention.score.key.weight"] @ h_j
                    )
                    for h_j in h
                ]
            )
            alpha = slow.softmax(energy)
            looks.append(alpha)
            c = alpha @ h
        else:
            c = first
        t = p["readout.linear.weight"] @ np.concatenate([s, e, c]) + p["readout.linear.bias"]
        t = t.reshape(-1, 2).max(-1)
        logits.append(p["output.weight"] @ t + p["output.bias"])
        a = p["word.weight"] @ e + p["word.bias"] + p["context.weight"] @ c
        s = unit(a, p["recurrent.weight"], s, reset)
    return np.stack(logits), np.stack(looks) if looks else None


@pytest.mark.parametrize("reset", ["before", "after"])
@pytest.mark.parametrize("made", [RNNsearch, RNNencdec])
def test_it_computes_the_papers_equations(made, reset):
    net = model(made, reset=reset)
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        logits = net(source, target, lengths).logits
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, looks = by_hand(net, sentence, target[row].tolist(), reset)
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        for t, look in enumerate([] if looks is None else looks):
            found = seen["attention"].steps[t][row, 0].detach().numpy()
            np.testing.assert_allclose(found[: len(look)], look, atol=1e-10)
            assert (found[len(look) :] == 0).all()  # padding gets exactly nothing


def test_the_resets_are_two_different_functions():
    source, lengths, target = slow.ragged()
    before, after = (model(reset=reset) for reset in ("before", "after"))
    after.load_state_dict(before.state_dict())
    difference = before(source, target, lengths).logits - after(source, target, lengths).logits
    assert difference.abs().max() > 1e-3


def test_thing_2_attention_and_readout_use_the_state_before_the_step():
    net = model()
    source, lengths, target = slow.ragged()
    other = target.clone()
    other[:, 2] = 4 + (other[:, 2] - 3) % 9  # another word is read at step 2
    with watch(net) as seen:
        net(source, target, lengths)
        net(source, other, lengths)
    steps = seen["attention"].steps
    first, second = steps[:5], steps[5:]
    for t in range(3):
        assert torch.equal(first[t], second[t])  # alpha_2 is from s_1, which has not read it
    assert not torch.allclose(first[3][0], second[3][0])
    # The readout sees the word read and the state before it: when the recurrence no longer reads
    # words, the first step is as it was (its state has read none), and the second is not.
    logits = net(source, target, lengths).logits
    with torch.no_grad():
        net.word.weight.zero_()
    deaf = net(source, target, lengths).logits
    torch.testing.assert_close(deaf[:, 0], logits[:, 0])
    assert (deaf[:, 1] - logits[:, 1]).abs().amax(-1).min() > 1e-3


def test_thing_2_the_decoder_starts_from_the_backward_state_at_the_first_word():
    net = model()
    source, lengths, _ = slow.ragged()
    encoded = net.encode(source, lengths)
    back = encoded.states[:, 0, SIZES["hidden"] :]
    state = net.start(encoded).carried["state"]
    torch.testing.assert_close(state[:, 0], torch.tanh(net.initial(back)))


def test_attention_starts_exactly_uniform():
    net = RNNsearch(12, 13, **SIZES, align=7)
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        net(source, target, lengths)
    for step in seen["attention"].steps:
        for row, n in enumerate(lengths.tolist()):
            assert torch.equal(step[row, 0, :n], torch.full((n,), 1 / n))
            assert step[row, 0, n:].eq(0).all()


def test_the_start_is_the_papers():
    torch.manual_seed(2)
    net = RNNsearch(40, 40, embed=60, hidden=80, align=70, maxout=30)
    assert net.attention.score.v.eq(0).all()
    biases = [p for name, p in net.named_parameters() if name.endswith("bias")]
    assert len(biases) == 6
    assert all(bias.eq(0).all() for bias in biases)
    for weight, std in (
        (net.attention.score.query.weight, 0.001),
        (net.attention.score.key.weight, 0.001),
        (net.word.weight, 0.01),
        (net.readout.linear.weight, 0.01),
        (net.embed_source.weight[1:], 0.01),
    ):
        assert abs(weight.std().item() / std - 1) < 0.05
    for unit_ in (net.recurrent, net.encoder.ahead.recurrent, net.encoder.back.recurrent):
        for u in unit_.weight.detach().chunk(3):
            torch.testing.assert_close(u @ u.T, torch.eye(80), atol=1e-4, rtol=0)


def test_without_a_scale_the_start_is_glorots_and_attention_is_not_uniform():
    torch.manual_seed(3)
    net = RNNsearch(40, 40, embed=60, hidden=80, align=70, maxout=30, scale=None)
    weight = net.word.weight
    assert abs(weight.std().item() / (2 / sum(weight.shape)) ** 0.5 - 1) < 0.05
    assert net.attention.score.v.ne(0).all()
    assert net.embed_source.weight[0].eq(0).all()


def test_parameter_counts_at_the_papers_sizes():
    assert slow.count(RNNsearch, 30_000, 30_000) == 80_442_000
    assert slow.count(RNNencdec, 30_000, 30_000) == 68_578_000


@pytest.mark.parametrize("made", [RNNsearch, RNNencdec])
def test_dropout_acts_in_training_only(made):
    net = model(made, dropout=0.5)
    source, lengths, target = slow.ragged()
    plain = model(made)(source, target, lengths).logits
    assert torch.equal(net(source, target, lengths).logits, plain)
    net.train()
    assert not torch.equal(net(source, target, lengths).logits, plain)


def test_rnnencdec_steps_are_teacher_forcing_and_all_parameters_learn():
    net = model(RNNencdec)
    source, lengths, target = slow.ragged()
    logits = net(source, target, lengths).logits
    decoding = net.start(net.encode(source, lengths)).select(torch.zeros(3, 2, dtype=torch.long))
    for t in range(5):
        step, decoding = net.step(target[:, t : t + 1].expand(-1, 2), decoding)
        torch.testing.assert_close(step, logits[:, t : t + 1].expand(-1, 2, -1))
    logits.square().sum().backward()
    assert all(p.grad.any() for p in net.parameters())
