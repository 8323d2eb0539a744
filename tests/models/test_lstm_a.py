"""LSTM+A against its equations in NumPy, plain and following the words."""

import numpy as np
import pytest
import torch

from regard import decode, tasks
from regard.data.problems import Problems
from regard.data.text.tokenizer import Tokenizer
from regard.datasets.data import Data
from regard.errors import RequestError
from regard.fields.sets import as_fields
from regard.models.lstm_a import LSTMA
from tests.models import slow

SIZES = {"embed": 5, "hidden": 6, "layers": 2, "decoder_layers": 3, "align": 4}
READS = [0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0]


def model(**changes):
    torch.manual_seed(1)
    net = slow.shaken(LSTMA(12, 13, **{**SIZES, **changes}))
    net.reads.copy_(torch.tensor(READS))
    return net


def lstm(p, path, layers, inputs, h=None, c=None):
    """All states of a stack with biases; h and c (L, H), where given, are changed in place."""
    h = np.zeros((layers, 6)) if h is None else h
    c, found = np.zeros((layers, 6)) if c is None else c, []
    for value in inputs:
        for k in range(layers):
            w, u, b, d = (
                p[f"{path}.stack.{kind}_l{k}"]
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            i, f, g, o = np.split(w @ value + u @ h[k] + b + d, 4)
            c[k] = slow.sigmoid(f) * c[k] + slow.sigmoid(i) * np.tanh(g)
            h[k] = slow.sigmoid(o) * np.tanh(c[k])
            value = h[k].copy()
        found.append(value)
    return found


def encoded(p, sentence):
    states = [p["embed_source.weight"][w] for w in sentence]
    for layer in range(2):
        ahead = lstm(p, f"encoder.{layer}.ahead", 1, states)
        back = lstm(p, f"encoder.{layer}.back", 1, states[::-1])[::-1]
        states = [np.concatenate(both) for both in zip(ahead, back, strict=True)]
    return states


PRINTED = {"encoder": "reversed", "start": "encoder", "readout": "linear", "feed": True}


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("name", ["printed", "forward", "handed", "linear", "fed"])
def test_it_can_be_built_as_printed(name, follow):
    """All of the paper's choices together, and each that goes alone."""
    changes = {
        "printed": PRINTED,
        "forward": {**PRINTED, "encoder": "forward"},
        "handed": {**PRINTED, "feed": False},
        "linear": {"readout": "linear"},
        "fed": {"feed": True},
    }[name]
    both = changes.get("encoder", "both") == "both"
    net = model(follow=follow, decoder_layers=3 if both else 2, **changes)
    p = slow.numbers(net)
    source, lengths, target = slow.ragged()
    logits = net(source, target, lengths).logits.detach().numpy()
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        deep = 3 if both else 2
        h, c = np.zeros((deep, 6)), np.zeros((deep, 6))
        if both:
            states = encoded(p, sentence)
        else:
            words = sentence
            if changes["encoder"] == "reversed":
                words = sentence[:-1][::-1] + sentence[-1:]
            first = np.zeros((2, 6)), np.zeros((2, 6))
            read = [p["embed_source.weight"][w] for w in words]
            states = lstm(p, "encoder", 2, read, *first)
            h, c = first  # changed in place: after the last word
            if changes["encoder"] == "reversed":
                states = states[:-1][::-1] + states[-1:]
        context, place = np.zeros_like(states[0]), 0
        for t, y in enumerate(target[row].tolist()):
            place += READS[y]
            following = states[min(place, len(states) - 1)] if follow else np.zeros(0)
            fed = context if net.feed else np.zeros(0)
            value = np.concatenate([p["embed_target.weight"][y], following, fed])
            (d,) = lstm(p, "decoder", deep, [value], h, c)
            query = p["attention.score.query.weight"] @ d
            u = [
                p["attention.score.v"] @ np.tanh(query + p["attention.score.key.weight"] @ x)
                for x in states
            ]
            context = slow.softmax(np.array(u)) @ np.array(states)
            top = np.concatenate([d, context, following])
            if "combine.weight" in p:
                top = np.tanh(p["combine.weight"] @ top + p["combine.bias"])
            wanted = p["output.weight"] @ top + p["output.bias"]
            np.testing.assert_allclose(logits[row, t], wanted, atol=1e-10)


def test_senseless_choices_are_refused():
    with pytest.raises(RequestError, match="'revresed'; did you mean 'reversed'"):
        LSTMA(12, 13, encoder="revresed")
    with pytest.raises(RequestError, match="reads in one direction"):
        LSTMA(12, 13, start="encoder")
    with pytest.raises(RequestError, match="as many layers as the decoder"):
        LSTMA(12, 13, start="encoder", encoder="forward", decoder_layers=1)


@pytest.mark.parametrize("follow", [False, True])
def test_it_computes_the_equations(follow):
    net = model(follow=follow)
    p = slow.numbers(net)
    source, lengths, target = slow.ragged()
    logits = net(source, target, lengths).logits.detach().numpy()
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        h, place, inputs, following = encoded(p, sentence), 0, [], []
        for y in target[row].tolist():
            place += READS[y]
            following.append(h[min(place, len(h) - 1)] if follow else np.zeros(0))
            inputs.append(np.concatenate([p["embed_target.weight"][y], following[-1]]))
        for t, d in enumerate(lstm(p, "decoder", 3, inputs)):
            query = p["attention.score.query.weight"] @ d
            u = [p["attention.score.v"] @ np.tanh(query + p["attention.score.key.weight"] @ x)
                 for x in h]  # fmt: skip
            context = slow.softmax(np.array(u)) @ np.array(h)
            joined = np.concatenate([d, context, following[t]])
            top = np.tanh(p["combine.weight"] @ joined + p["combine.bias"])
            wanted = p["output.weight"] @ top + p["output.bias"]
            np.testing.assert_allclose(logits[row, t], wanted, atol=1e-10)


def test_step_by_step_beams_have_places_of_their_own():
    net = model(follow=True)
    source, lengths, target = slow.ragged()
    whole = net(source, target, lengths).logits
    decoding = net.start(net.encode(source, lengths))
    for t in range(target.shape[1]):
        tokens = target[:, t : t + 1]
        if t:  # the second slot reads something else
            tokens = torch.cat([tokens, torch.full_like(tokens, 4)], 1)
        logits, decoding = net.step(tokens, decoding)
        torch.testing.assert_close(logits[:, 0], whole[:, t])
        decoding = decoding.select(torch.zeros(3, 2, dtype=torch.int64))


def test_the_next_word_is_what_it_is_told():
    """Another next word changes the logits; without `follow` what symbols read changes nothing."""
    source, lengths, target = slow.ragged()
    for follow in (True, False):
        net = model(follow=follow)
        told = net(source, target, lengths).logits
        net.reads.zero_()
        same = torch.equal(net(source, target, lengths).logits, told)
        assert same != follow


def tokenizers(kind):
    return {
        "source": Tokenizer.train(["a b", "b c"] * 3, kind=kind),
        "target": Tokenizer.train(["(S XX . )S"], kind="words"),
    }


def test_the_task_tells_it_which_symbols_are_words():
    own = tokenizers("shapes")
    task = tasks.load("parsing")()
    net = LSTMA(**task.model_arguments(own), **SIZES, follow=True)
    task.prepare(net, Data(None, None, None, as_fields(own, {}), Problems()))
    told = {own["target"].vocabulary[i] for i in net.reads.nonzero()[:, 0].tolist()}
    assert told == {"XX", "."}
    found = task.predict(net, ["a b c"], decode.build({"name": "greedy"}), own)
    assert found[0].tokens[-1] == "</s>"
    plain = LSTMA(**task.model_arguments(own), **SIZES)
    task.prepare(plain, Data(None, None, None, as_fields(own, {}), Problems()))
    assert not plain.reads.any()
    with pytest.raises(RequestError, match=r"data\.tokenizer\.source\.kind=characters"):
        task.prepare(
            net, Data(None, None, None, as_fields(tokenizers("characters"), {}), Problems())
        )
