"""Deep-Att against its equations in NumPy."""

import numpy as np
import torch

from regard import watch
from regard.models.deep_att import DeepAtt
from tests.models import slow

H = 4
SIZES = {"embed": 5, "hidden": H, "layers": 3, "decoder_layers": 3, "align": 7, "dropout": 0.0}


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(DeepAtt(12, 13, **{**SIZES, **changes}))


def recurrent(weight, f, h, c):
    i, forget, g, o = np.split(f + weight @ h, 4)
    c = slow.sigmoid(forget) * c + slow.sigmoid(i) * np.tanh(g)
    return slow.sigmoid(o) * np.tanh(c), c


def read(weight, fs):
    h = c = np.zeros(H)
    out = []
    for f in fs:
        h, c = recurrent(weight, f, h, c)
        out.append(h)
    return out


def column(p, number, words, back_first):
    """The top layer's f and h; directions alternate from layer to layer."""
    x = words
    for k in range(SIZES["layers"]):
        path = f"columns.{number}.{k}"
        w, b = p[f"{path}.forward_part.weight"], p[f"{path}.forward_part.bias"]
        fs = [w @ one + b for one in x]
        back = (k % 2 == 1) != back_first
        hs = read(p[f"{path}.recurrent"], fs[::-1] if back else fs)
        hs = hs[::-1] if back else hs
        x = [np.concatenate([f[: 2 * H], h]) for f, h in zip(fs, hs, strict=True)]
    return fs, hs


def by_hand(net, sentence, target):
    p = slow.numbers(net)
    words = [p["embed_source.weight"][i] for i in sentence]
    (fa, ha), (fb, hb) = column(p, 0, words, False), column(p, 1, words, True)
    e = [p["summary.weight"] @ np.concatenate(four) for four in zip(ha, hb, fa, fb, strict=True)]
    states = [(np.zeros(H), np.zeros(H)) for _ in range(3)]
    logits, looks = [], []
    for y in target:
        query = p["attention.score.query.weight"] @ states[0][0]
        energy = [
            p["attention.score.v"] @ np.tanh(query + p["attention.score.key.weight"] @ one)
            for one in e
        ]
        alpha = slow.softmax(np.array(energy))
        context = sum(a * one for a, one in zip(alpha, e, strict=True))
        f = p["word.weight"] @ p["embed_target.weight"][y] + p["word.bias"]
        f = f + p["context.weight"] @ context
        states[0] = recurrent(p["first"], f, *states[0])
        for k in (1, 2):
            path = f"above.{k - 1}"
            below = np.concatenate([f[: 2 * H], states[k - 1][0]])
            f = p[f"{path}.forward_part.weight"] @ below + p[f"{path}.forward_part.bias"]
            states[k] = recurrent(p[f"{path}.recurrent"], f, *states[k])
        top = np.concatenate([f[: 2 * H], states[2][0]])
        logits.append(p["output.weight"] @ top + p["output.bias"])
        looks.append(alpha)
    return np.stack(logits), np.stack(looks)


def test_it_computes_the_papers_equations():
    net = model()
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        logits = net(source, target, lengths).logits
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, looks = by_hand(net, sentence, target[row].tolist())
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        for t, look in enumerate(looks):
            found = seen["attention"].steps[t][row, 0].detach().numpy()
            np.testing.assert_allclose(found[: len(look)], look, atol=1e-10)


def test_fast_forward_connections_are_linear_all_the_way_up(monkeypatch):
    """With deaf recurrent parts (h = 0) what is left of the encoder is a linear map of words."""
    net = model()
    monkeypatch.setattr("regard.models.deep_att.cell", lambda f, u, h, c: (h * 0, c * 0))
    for tower in net.columns:
        for layer in tower:
            torch.nn.init.zeros_(layer.forward_part.bias)
    source, lengths, _ = slow.ragged()

    def states(table):
        with torch.no_grad():
            net.embed_source.weight.copy_(table)
            return net.encode(source, lengths).states

    one, two = torch.randn(2, 12, 5).double()
    found = states(3 * one + two)
    torch.testing.assert_close(found, 3 * states(one) + states(two))
    real = torch.arange(source.shape[1]) < lengths[:, None]
    assert found[real].any(-1).all()  # every word has come through


def test_the_papers_depth_and_widths():
    with torch.device("meta"):
        paper = DeepAtt(30_000, 30_000)
    assert len(paper.columns[0]) + len(paper.above) + 1 == 16  # 9 + 7
    assert paper.summary.weight.shape == (1280, 5120)
    assert paper.embed_source.weight.shape == (30_000, 256)
