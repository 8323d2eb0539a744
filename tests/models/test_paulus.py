"""The summarizer of Paulus et al. against the paper's equations, written again in NumPy."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import Attention, Dot, IntraTemporal
from regard.decode import Beam, Greedy
from regard.errors import RequestError
from regard.models.paulus import Paulus
from regard.protocols import Inputs
from tests.models import slow

V, WORDS = 13, 16  # of the target, of the source
SIZES = {"embed": 5, "hidden": 3}
VARIANTS = [{}, {"tied": "output"}, {"tied": "none"}, {"intra_decoder": False}]
SOURCE = torch.tensor([[5, 15, 5, 14, 7, 2], [14, 6, 2, 0, 0, 0], [2, 0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 3, 1])
COPIES = torch.tensor([[5, 13, 5, 14, 7, 2], [13, 6, 2, 0, 0, 0], [2, 0, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 13, 5, 14, 3], [1, 13, 13, 6, 4], [1, 4, 5, 6, 7]])


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(Paulus(WORDS, V, **{**SIZES, **changes}))


def given(rows=slice(None)):
    return Inputs(SOURCE[rows], LENGTHS[rows], {"copies": COPIES[rows]})


def lstm(p, path, x, h, c, back=""):
    gates = sum(p[f"{path}.stack.{k}_l0"] for k in ("bias_ih", "bias_hh"))
    gates = gates + p[f"{path}.stack.weight_ih_l0"] @ x + p[f"{path}.stack.weight_hh_l0"] @ h
    i, f, g, o = np.split(gates, 4)
    c = slow.sigmoid(f) * c + slow.sigmoid(i) * np.tanh(g)
    return slow.sigmoid(o) * np.tanh(c), c


def run(p, path, xs, h, c):
    out = []
    for x in xs:
        h, c = lstm(p, path, x, h, c)
        out.append(h)
    return out


def by_hand(net, row):
    """Probabilities (T, V + W), attention to the source (T, S), of one example, all loops."""
    p, n = slow.numbers(net), int(LENGTHS[row])
    source, copies, target = (x[row].tolist() for x in (SOURCE, COPIES, TARGET))
    source, copies = source[:n], copies[:n]
    from_source = p["embed_source.weight"]
    into = p.get("embed_target.weight", from_source)
    zero, states = np.zeros(3), []
    xs = [from_source[i] for i in source]
    ahead, back = (run(p, f"encoder.{way}", part, zero, zero) for way, part in
                   (("ahead", xs), ("back", xs[::-1])))  # fmt: skip
    encoded = np.stack([np.concatenate(pair) for pair in zip(ahead, back[::-1], strict=True)])
    of_source = {c: s for c, s in zip(copies, source, strict=True)}
    out = np.tanh(into[:V] @ p["project.weight"].T) if net.output is None else p["output.weight"]
    probabilities, looks, scores = [], [], []
    h, c = encoded[-1], np.zeros(6)
    for t, y in enumerate(target):
        known = y if y < V else (of_source[y] if net.tied == "all" else 3)
        h, c = lstm(p, "decoder", into[known], h, c)
        scores.append(encoded @ p["attention.score.project.weight"] @ h)
        e = np.exp(scores[-1])
        if t:
            e = e / sum(np.exp(s) for s in scores[:-1])  # the printed form, equation 3
        look = e / e.sum()
        parts = [h, look @ encoded]
        if net.self_attention is not None:
            own = np.zeros(6)
            if states:
                before = np.stack(states)
                own = slow.softmax(before @ p["self_attention.score.project.weight"] @ h) @ before
            parts.append(own)
        states.append(h)
        q = np.concatenate(parts)
        u = slow.sigmoid(p["switch.weight"][0] @ q + p["switch.bias"][0])
        mixed = np.zeros(V + 2)
        mixed[:V] = (1 - u) * slow.softmax(out @ q + p["bias"])
        for word, share in zip(copies, look, strict=True):
            mixed[word] += u * share
        probabilities.append(mixed)
        looks.append(look)
    return np.stack(probabilities), np.stack(looks)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_it_computes_the_papers_equations(changes):
    net = model(**changes)
    with watch(net) as seen:
        found = net(given(), TARGET).logits.exp().detach().numpy()
    for row, n in enumerate(LENGTHS.tolist()):
        probabilities, looks = by_hand(net, row)
        np.testing.assert_allclose(found[row], probabilities, atol=1e-12)
        np.testing.assert_allclose(seen["attention"].weights[row, :, :n], looks, atol=1e-12)
        assert not seen["attention"].weights[row, :, n:].any()


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_step_by_step_with_words_of_the_examples_own(changes):
    net = model(**changes)
    whole = net(given(), TARGET)
    decoding = net.start(net.encode(given()))
    for t in range(5):
        scores, decoding = net.step(TARGET[:, t : t + 1], decoding)
        torch.testing.assert_close(scores[:, 0], whole.logits[:, t], rtol=0, atol=1e-12)
        decoding = decoding.select(torch.zeros(3, 1, dtype=torch.int64))
        if t == 2:  # a row leaves: ids stay what they are
            left = decoding.rows(torch.tensor([2, 1]))
            some, _ = net.step(TARGET[[2, 1], 3:4], left)
            torch.testing.assert_close(some[:, 0], whole.logits[[2, 1], 3], rtol=0, atol=1e-12)


def test_without_copies_it_writes_alone():
    net = model()
    output = net(SOURCE, TARGET.clamp(max=V - 1))
    assert output.logits.shape == (3, 5, V)
    assert not output.extra
    assert net(given(), TARGET).extra["copying"].shape == (3, 5)
    assert net.encode(SOURCE).extra == {}


def test_what_lies_behind_a_source_is_not_copied():
    net = model()
    rubbish = COPIES.where(COPIES != 0, torch.tensor(14))
    source = Inputs(SOURCE.where(SOURCE != 0, torch.tensor(9)), LENGTHS, {"copies": rubbish})
    expected = net(given(), TARGET).logits
    torch.testing.assert_close(net(source, TARGET).logits, expected, rtol=0, atol=1e-12)


def test_decoders_write_words_of_an_examples_own():
    net = model()
    with torch.no_grad():
        net.switch.weight.zero_()
        net.switch.bias.fill_(50.0)  # it copies, whatever comes
        net.bias[2] = -50.0
    found = Greedy(max_length=6)(net, given())
    assert {i for (h,) in found[:2] for i in h.tokens} & {13, 14}
    for decoder in (Greedy(max_length=9, no_repeat_ngram=1), Beam(max_length=9, no_repeat_ngram=1)):
        for hypotheses, own in zip(decoder(net, given()), COPIES.tolist(), strict=True):
            for h in hypotheses:
                words = [i for i in h.tokens if i != 2]
                assert len(set(words)) == len(words)
                # The text's words first; then, with a probability near zero, any others.
                there = len(set(own) - {0, 2})
                if h.log_prob > -40:
                    assert set(words[:there]) <= set(own)


def test_equal_scores_stay_uniform_and_a_dominant_one_falls_back():
    layer = Attention(Dot(), carry=IntraTemporal()).double()
    for scores, first in (([3.0, 0.0, 0.0], [0.909, 0.045, 0.045]), ([1.0] * 3, [1 / 3] * 3)):
        key, query = torch.tensor(scores).double()[:, None], torch.ones(1, 1).double()
        one = layer(query, key, key, need_weights=True)
        two = layer(query, key, key, need_weights=True, state=one.state)
        assert one.weights[0].tolist() == pytest.approx(first, abs=1e-3)
        assert two.weights[0].tolist() == pytest.approx([1 / 3] * 3, abs=1e-12)


def test_the_papers_number_of_parameters():
    """Those of the fact sheet, and a second bias vector for each of the three LSTM layers."""
    lstms, form = 481_600 + 801_600, 160_000
    expected = 15_000_000 + lstms + 2 * form + 120_000 + 50_000 + 1_201
    assert slow.count(Paulus, 150_000, 50_000) == expected + 2 * 800 + 1600
    alone = slow.count(Paulus, 150_000, 50_000, tied="none")
    assert alone - 5_000_000 - slow.count(Paulus, 150_000, 50_000) == 60_000_000 - 120_000


def test_what_cannot_be_is_said():
    with pytest.raises(RequestError, match="tied='all' reads both sides with one matrix"):
        Paulus(12, 13)
    with pytest.raises(RequestError, match="no tied of Paulus is called 'both'"):
        Paulus(13, 13, tied="both")
