"""LSTMN against its equations in NumPy: a slot, a word and a step at a time."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.layers.tape import TapeLSTM, TapeRead
from regard.models.lstmn import LSTMNClassifier, LSTMNPair
from regard.models.lstmn_lm import LSTMNLanguage
from regard.protocols import LanguageModel
from tests.models.slow import numbers, ragged, sentences, shaken, sigmoid, softmax

SIZES = {"embed": 5, "hidden": 4, "ffn_dim": 6, "dropout": 0.0}
H = 4


def made(kind, *data, **changes):
    torch.manual_seed(1)
    return shaken(kind(12, *data, **{**SIZES, **changes}))


def additive(p, path, query, keys):
    """The softmax of v^T tanh(W q + U k) over the keys."""
    inner = [p[f"{path}.query.weight"] @ query + p[f"{path}.key.weight"] @ k for k in keys]
    return softmax(np.array([p[f"{path}.v"] @ np.tanh(x) for x in inner]))


def tape(p, path, xs, slot, more=None):
    """h, c and s of every step; `more(x)` gives what is added to a cell."""
    hidden, cells, weights, summary = [slot[0]], [slot[1]], [], np.zeros(H)
    for x in xs:
        s = additive(p, f"{path}.tape.score", np.concatenate([x, summary]), hidden)
        summary, cell = s @ np.array(hidden), s @ np.array(cells)
        gates = p[f"{path}.input.weight"] @ x + p[f"{path}.input.bias"]
        i, f, g, o = np.split(gates + p[f"{path}.recurrent.weight"] @ summary, 4)
        c = sigmoid(f) * cell + sigmoid(i) * np.tanh(g) + (0 if more is None else more(x))
        cells.append(c)
        hidden.append(sigmoid(o) * np.tanh(c))
        weights.append(s)
    return np.array(hidden[1:]), np.array(cells[1:]), weights


def headed(p, x):
    hidden = np.maximum(0, p["head.hidden.0.weight"] @ x + p["head.hidden.0.bias"])
    return p["head.output.weight"] @ hidden + p["head.output.bias"]


NOTHING = np.zeros(H), np.zeros(H)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_sentence_is_read_as_in_the_paper(layers):
    net, (source, lengths, _) = made(LSTMNClassifier, 3, layers=layers), ragged()
    p = numbers(net)
    with watch(net) as seen:
        logits = net(source, lengths).logits.detach().numpy()
    for row, ids in enumerate(sentences(source, lengths)):
        states = p["encoder.embed.weight"][ids]
        for k in range(layers):
            states, _, weights = tape(p, f"encoder.layers.{k}", states, NOTHING)
            for t, step in enumerate(seen[f"encoder.layers.{k}.tape"].steps):
                found = step[row, 0].detach().numpy()
                assert found.shape == (t + 1,)
                if t < len(ids):
                    np.testing.assert_allclose(found, weights[t], atol=1e-10)
                else:
                    assert not found.any()  # nothing is read behind the end
        np.testing.assert_allclose(logits[row], headed(p, states.mean(0)), atol=1e-9)


@pytest.mark.parametrize("fusion", ["shallow", "deep"])
def test_pairs_are_read_as_in_the_paper(fusion):
    net, (first, lengths, _) = made(LSTMNPair, 3, fusion=fusion), ragged()
    second, others = first.flip(0)[:, :5], lengths.flip(0).clamp(max=5)
    p = numbers(net)
    logits = net(first, second, lengths, others).logits.detach().numpy()
    pairs = zip(sentences(first, lengths), sentences(second, others), strict=True)
    for row, (a, b) in enumerate(pairs):
        a, b = p["embed.weight"][a], p["embed.weight"][b]
        y, alphas, _ = tape(p, "encoder", a, NOTHING)
        end = y[-1], alphas[-1]
        if fusion == "shallow":
            states, _, _ = tape(p, "fusion.decoder", b, end)
            each = [additive(p, "fusion.cross.score", h, y) @ y for h in states]
            joined = np.concatenate([states, each], 1)
            states = np.tanh(joined @ p["fusion.join.weight"].T + p["fusion.join.bias"])
        else:
            gamma = [np.zeros(H)]

            def more(x, y=y, alphas=alphas, gamma=gamma):
                s = additive(p, "fusion.cross.score", np.concatenate([x, gamma[-1]]), y)
                gamma.append(s @ y)
                r = p["fusion.input.weight"] @ x + p["fusion.input.bias"]
                return sigmoid(r + p["fusion.found.weight"] @ gamma[-1]) * (s @ alphas)

            states, _, _ = tape(p, "fusion.decoder", b, end, more)
        expected = headed(p, np.concatenate([y.mean(0), states.mean(0)]))
        np.testing.assert_allclose(logits[row], expected, atol=1e-9)


def test_without_v_the_summaries_are_plain_means():
    layer = shaken(TapeLSTM(5, H))
    torch.nn.init.zeros_(layer.tape.score.v)
    x, tape = torch.randn(2, 6, 5).double(), layer.start(*torch.randn(2, 2, H).double())
    for t in range(6):
        slots = tape.memory.value.mean(-2)
        torch.testing.assert_close(torch.cat(layer.look(x[:, t], tape), -1), slots)
        *_, tape = layer.step(layer.input(x[:, t]), x[:, t], tape)
    assert len(tape.memory) == 7


def test_of_one_slot_a_step_is_an_lstms():
    layer, cell = shaken(TapeLSTM(5, H)), torch.nn.LSTMCell(5, H).double()
    with torch.no_grad():
        cell.weight_ih.copy_(layer.input.weight)
        cell.weight_hh.copy_(layer.recurrent.weight)
        cell.bias_ih.copy_(layer.input.bias)
        cell.bias_hh.zero_()
    x, h, c = torch.randn(3, 5).double(), *torch.randn(2, 3, H).double()
    found = layer.step(layer.input(x), x, layer.start(h, c))[:2]
    for one, other in zip(found, cell(x, (h, c)), strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_gradients_are_those_of_differences():
    layer, lengths = shaken(TapeLSTM(3, 2)), torch.tensor([4, 2])

    def states(x):
        h, c = layer(x, TapeRead.right(lengths, 4))
        return h[0], c[0], h[1, :2]

    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(states, (x,))


# -- the language model


def language(**changes):
    torch.manual_seed(2)
    return shaken(LSTMNLanguage(12, **{"embed": 5, "hidden": H, "layers": 2, **changes}))


def test_the_language_model_is_the_papers():
    net, tokens = language(layers=1), torch.randint(1, 12, (2, 7))
    assert isinstance(net, LanguageModel)
    p, logits = numbers(net), net(tokens).logits.detach().numpy()
    for row in range(2):
        states, _, _ = tape(p, "layers.0", p["embed.weight"][tokens[row]], NOTHING)
        expected = states @ p["out.weight"].T + p["out.bias"]
        np.testing.assert_allclose(logits[row], expected, atol=1e-10)
    np.testing.assert_allclose(net(tokens, 3).logits.detach().numpy(), logits[:, -3:], atol=1e-12)


def test_padding_on_the_left_is_never_looked_at():
    net, tokens = language(), torch.randint(1, 12, (3, 6))
    padded = torch.nn.functional.pad(tokens, (2, 0))
    padded[1, :4] = 0  # of this text the last four words alone are left
    with watch(net) as seen:
        logits = net(padded).logits
    torch.testing.assert_close(logits[[0, 2], 2:], net(tokens).logits[[0, 2]])
    torch.testing.assert_close(logits[1, 4:], net(tokens[1:2, 2:]).logits[0])
    assert not seen["layers.0.tape"].steps[7][1, 0, 1:5].any()
    assert net(torch.zeros(2, 3, dtype=torch.int64)).logits.isfinite().all()


def test_the_language_model_step_by_step_and_under_beams():
    net, tokens = language(), torch.randint(1, 12, (3, 9))
    logits, decoding = net(tokens).logits, net.start(3)
    with torch.no_grad():
        for t in range(9):
            step, decoding = net.step(tokens[:, t : t + 1], decoding)
            torch.testing.assert_close(step[:, 0], logits[:, t])
            assert decoding.step == t + 1
        wide = decoding.select(torch.zeros(3, 2, dtype=torch.long)).rows(torch.tensor([2, 0]))
        step, _ = net.step(torch.tensor([[5, 6], [7, 8]]), wide)
    for row, (text, words) in enumerate([(2, (5, 6)), (0, (7, 8))]):
        for slot, word in enumerate(words):
            whole = torch.cat([tokens[text], torch.tensor([word])])[None]
            torch.testing.assert_close(step[row, slot], net(whole).logits[0, -1])


def test_the_language_model_learns_a_text_by_heart():
    torch.manual_seed(3)
    net, tokens = LSTMNLanguage(12, embed=8, hidden=12), torch.randint(1, 12, (4, 8))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(
            net(tokens[:, :-1]).logits[:, 1:].flatten(0, 1), tokens[:, 2:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    assert all(p.grad.any() for p in net.parameters())


@pytest.mark.parametrize(
    ("kind", "data", "wrong", "said"),
    [
        (LSTMNPair, (3,), {"fusion": "dep"}, "no fusion 'dep': did you mean 'deep'"),
        (LSTMNClassifier, (3,), {"layers": 0}, "expected a layer or more, got layers=0"),
        (LSTMNLanguage, (), {"layers": 0}, "expected a layer or more, got layers=0"),
    ],
)
def test_wrong_settings_are_refused(kind, data, wrong, said):
    with pytest.raises(RequestError, match=said):
        kind(12, *data, **wrong)
