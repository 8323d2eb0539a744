"""Luong's global and local attention against the paper's equations, written again in NumPy."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.models.luong import Luong
from tests.models import slow

SCORES = ["dot", "general", "concat", "location"]
SIZES = {"embed": 5, "hidden": 6, "layers": 2, "dropout": 0.0}


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(Luong(12, 13, **{**SIZES, "max_length": 8, **changes}))


def score(p, name, h, states):
    """Scores of all words: equation (8), and location with words past its table at -inf."""
    if name == "dot":
        return np.array([h @ s for s in states])
    if name == "general":
        w = p["attention.score.project.weight"].T  # h^T W_a s
        return np.array([h @ w @ s for s in states])
    if name == "concat":
        w = np.concatenate([p["attention.score.query.weight"], p["attention.score.key.weight"]], -1)
        v = p["attention.score.v"]
        return np.array([v @ np.tanh(w @ np.concatenate([h, s])) for s in states])
    table = p["attention.score.table.weight"] @ h
    return np.array([table[i] if i < len(table) else -np.inf for i in range(len(states))])


def windowed(p, attention, scores, h, t, reach):
    """Weights: equation (7) within the window, and (9) and (10) for local-p."""
    if attention == "global":
        return slow.softmax(scores)
    center = min(t, len(scores) - 1)  # the authors' code holds local-m there
    if attention == "local-p":
        w, v = p["attention.select.project.weight"], p["attention.select.v.weight"][0]
        center = len(scores) * slow.sigmoid(v @ np.tanh(w @ h))
    look = np.zeros(len(scores))
    middle = int(np.floor(center))
    seen = [s for s in range(middle - reach, middle + reach + 1) if 0 <= s < len(scores)]
    if seen:
        look[seen] = slow.softmax(scores[seen])
    if attention == "local-p":
        look *= [np.exp(-((s - center) ** 2) / (2 * (reach / 2) ** 2)) for s in range(len(scores))]
    return look


def by_hand(net, sentence, target, name, attention="global"):
    """Logits (T, V) and attention (T, S) of one sentence."""
    p = slow.numbers(net)
    words = sentence
    if net.reverse:
        words = sentence[:-1][::-1] + sentence[-1:]  # EOS stays at the end
    h, c = np.zeros((2, 6)), np.zeros((2, 6))
    states = np.stack([slow.lstm(p, "encoder", p["embed_source.weight"][w], h, c) for w in words])
    if net.reverse:  # positions are those of the sentence
        states = np.concatenate([states[:-1][::-1], states[-1:]])
    combined, logits, looks = np.zeros(6), [], []
    for t, y in enumerate(target):
        word = p["embed_target.weight"][y]
        top = slow.lstm(p, "decoder", np.concatenate([word, combined]) if net.feed else word, h, c)
        look = windowed(p, attention, score(p, name, top, states), top, t, reach=1)
        combined = np.tanh(p["combine.weight"] @ np.concatenate([look @ states, top]))
        logits.append(p["output.weight"] @ combined)
        looks.append(look)
    return np.stack(logits), np.stack(looks)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("feed", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_it_computes_the_papers_equations(name, feed, reverse):
    net = model(score=name, feed=feed, reverse=reverse)
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        logits = net(source, target, lengths).logits
    steps = seen["attention"].steps
    assert len(steps) == (5 if feed else 1)  # without feeding all steps are one call
    looked = torch.cat(steps, 1).detach().numpy()  # (B, T, S)
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, looks = by_hand(net, sentence, target[row].tolist(), name)
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        np.testing.assert_allclose(looked[row, :, : len(sentence)], looks, atol=1e-10)
        assert (looked[row, :, len(sentence) :] == 0).all()


@pytest.mark.parametrize("name", ["general", "concat"])
@pytest.mark.parametrize("attention", ["local-m", "local-p"])
@pytest.mark.parametrize("feed", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_local_attention_is_the_papers_too(name, attention, feed, reverse):
    net = model(score=name, attention=attention, reach=1, feed=feed, reverse=reverse)
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        logits = net(source, target, lengths).logits
    looked = torch.cat(seen["attention"].steps, 1).detach().numpy()
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, looks = by_hand(net, sentence, target[row].tolist(), name, attention)
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        np.testing.assert_allclose(looked[row, :, : len(sentence)], looks, atol=1e-10)


def test_thing_3_where_to_look_is_learned_through_the_gaussian_alone():
    net = model(attention="local-p", reach=1)
    source, lengths, target = slow.ragged()
    net(source, target, lengths).logits.square().sum().backward()
    assert net.attention.select.v.weight.grad.any()
    with watch(net) as seen:
        net(source, target, lengths)
    total = torch.cat(seen["attention"].steps, 1).sum(-1)
    assert (total < 1).all()  # not normalized again


def test_location_ignores_the_words_past_its_table():
    net = model(score="location", max_length=4)
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        logits = net(source, target, lengths).logits
    looked = torch.cat(seen["attention"].steps, 1)
    assert looked[0, :, 4:].eq(0).all()
    assert looked[0, :, :4].gt(0).all()
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, _ = by_hand(net, sentence, target[row].tolist(), "location")
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("feed", [True, False])
def test_thing_4_attention_comes_after_the_step_and_uses_the_current_state(feed):
    net = model(feed=feed)
    source, lengths, target = slow.ragged()
    other = target.clone()
    other[:, 2] = 4 + (other[:, 2] - 3) % 9
    with watch(net) as seen:
        net(source, target, lengths)
        net(source, other, lengths)
    steps = seen["attention"].steps
    half = len(steps) // 2
    first, second = torch.cat(steps[:half], 1), torch.cat(steps[half:], 1)
    assert torch.equal(first[:, :2], second[:, :2])
    assert not torch.allclose(first[0, 2], second[0, 2])  # the word read at step 2 is seen at 2


def test_thing_4_input_feeding_gives_h_tilde_to_the_next_step_of_layer_1():
    net = model()
    source, lengths, target = slow.ragged()
    decoding = net.start(net.encode(source, lengths))
    _, decoding = net.step(target[:, :1], decoding)
    plain, after = net.step(target[:, 1:2], decoding)
    fed = decoding.advance(combined=decoding.carried["combined"] + 0.1)
    moved, after_moved = net.step(target[:, 1:2], fed)
    assert (moved - plain).abs().amax(-1).min() > 1e-4
    # What is fed is h~, not c: the value that the readout takes.
    out, decoding = net.step(target[:, :1], net.start(net.encode(source, lengths)))
    torch.testing.assert_close(net.output(decoding.carried["combined"]), out)
    # Layer 1 reads 2n inputs, layer 2 only layer 1; the first step is fed zeros.
    assert net.decoder.stack.weight_ih_l0.shape == (24, 11)
    assert net.decoder.stack.weight_ih_l1.shape == (24, 6)
    assert net.start(net.encode(source, lengths)).carried["combined"].eq(0).all()
    with torch.no_grad():
        net.decoder.stack.weight_ih_l0[:, 5:].zero_()
    _, unfed = net.step(target[:, 1:2], fed)
    _, also = net.step(target[:, 1:2], fed.advance(combined=fed.carried["combined"] * 2))
    assert torch.equal(unfed.carried["h"], also.carried["h"])
    assert not torch.equal(after.carried["h"], after_moved.carried["h"])


def test_thing_5_concat_is_bahdanaus_function_as_printed_with_both_halves_learned():
    net = model(score="concat", feed=False)
    source, lengths, target = slow.ragged()
    net(source, target, lengths).logits.square().sum().backward()
    half = net.attention.score.key.weight
    assert half.shape == (6, 6)
    assert half.grad.any()
    # The crippled form of footnote 15 gives other numbers.
    logits = net(source, target, lengths).logits
    with torch.no_grad():
        half.copy_(torch.eye(6))
    assert not torch.allclose(net(source, target, lengths).logits, logits)


def test_a_reversed_source_is_another_reading_of_the_same_positions():
    forward, backward = model(reverse=False), model(reverse=True)
    source, lengths, target = slow.ragged()
    assert not torch.allclose(
        forward(source, target, lengths).logits[0], backward(source, target, lengths).logits[0]
    )
    turned = source.clone()
    turned[0, :5] = source[0, :5].flip(0)
    turned[1, :2] = source[1, :2].flip(0)
    ahead, back = forward.encode(turned, lengths), backward.encode(source, lengths)
    torch.testing.assert_close(ahead.final, back.final)
    torch.testing.assert_close(ahead.states[0, :5].flip(0), back.states[0, :5])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"feed": False, "score": "dot"}, 214_000_000 + 2_000_000),
        ({"feed": True, "score": "dot"}, 214_000_000 + 2_000_000 + 4_000_000),
        ({"feed": True, "score": "general"}, 214_000_000 + 2_000_000 + 4_000_000 + 1_000_000),
        ({"feed": True, "score": "concat"}, 220_000_000 + 2 * 1000**2 + 1000),
        ({"feed": True, "score": "location", "max_length": 50}, 220_000_000 + 50 * 1000),
        ({"attention": "local-p"}, 222_001_000),
    ],
)
def test_parameter_counts_at_the_papers_sizes(changes, expected):
    assert slow.count(Luong, 50_000, 50_000, **changes) == expected


def test_it_has_no_biases_and_starts_uniform():
    net = Luong(200, 200, embed=20, hidden=20)
    assert not [name for name, _ in net.named_parameters() if "bias" in name]
    for name, p in net.named_parameters():
        assert p.abs().max() <= 0.1
        assert abs(p.std().item() / (0.2 / 12**0.5) - 1) < 0.15, name


@pytest.mark.parametrize("feed", [True, False])
def test_dropout_acts_in_training_only(feed):
    net, plain = model(dropout=0.5, feed=feed), model(feed=feed)
    source, lengths, target = slow.ragged()
    expected = plain(source, target, lengths).logits
    assert torch.equal(net(source, target, lengths).logits, expected)
    net.train()
    assert not torch.equal(net(source, target, lengths).logits, expected)


def test_a_wrong_score_is_answered_with_the_right_one():
    with pytest.raises(RequestError, match="'generl'; did you mean 'general'"):
        Luong(12, 13, score="generl")
    with pytest.raises(RequestError, match="no attention of Luong is called 'local'"):
        Luong(12, 13, attention="local")
