"""ARSG against the paper's equations, written again in NumPy, and against its claims."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.models.arsg import ARSG
from regard.models.ctc import CTC
from regard.protocols import Inputs
from tests.models import slow

SIZES = {
    "hidden": 5, "layers": 2, "state": 6, "align": 7, "maxout": 4, "filters": 3, "width": 5,
}  # fmt: skip


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(ARSG(4, 13, **{**SIZES, **changes})).eval()


def sounds(lengths=(9, 4, 6), dim=4, seed=2):
    frames = torch.randn(
        len(lengths), max(lengths), dim, generator=torch.Generator().manual_seed(seed)
    )
    return Inputs(frames.double(), torch.tensor(lengths))


TARGET = torch.tensor([[1, 5, 6, 7], [1, 4, 0, 0], [1, 8, 9, 0]])


def unit(p, path, a, s):
    """(1 - z) s + z s~, the reset gate before the product."""
    (a_r, a_z, a_n), (u_r, u_z, u) = slow.thirds(a), slow.thirds(p[path])
    r, z = slow.sigmoid(a_r + u_r @ s), slow.sigmoid(a_z + u_z @ s)
    return (1 - z) * s + z * np.tanh(a_n + u @ (r * s))


def read(p, path, frames):
    s, states = np.zeros(SIZES["hidden"]), []
    for frame in frames:
        a = p[f"{path}.input.weight"] @ frame + p[f"{path}.input.bias"]
        s = unit(p, f"{path}.recurrent.weight", a, s)
        states.append(s)
    return np.stack(states)


def encoded(p, frames, layers=2):
    for layer in range(layers):
        path = f"encoder.layers.{layer}"
        ahead, back = read(p, f"{path}.ahead", frames), read(p, f"{path}.back", frames[::-1])[::-1]
        frames = np.concatenate([ahead, back], -1)
    return frames


def by_hand(net, frames, target, attention="hybrid", select="softmax", beta=1.0):
    """Logits (U, V) and weights (U, T) of one sound."""
    p = slow.numbers(net)
    h = encoded(p, frames)
    score = "attention.score"
    alpha = np.zeros(len(h))
    alpha[0] = 1.0
    s, g, logits, looks = p["first"], None, [], []
    for i, y in enumerate(target):
        if i:
            a = p["word.weight"] @ p["embed_target.weight"][y] + p["word.bias"]
            s = unit(p, "recurrent.weight", a + p["context.weight"] @ g, s)
        inner = np.tile(p[f"{score}.query.weight"] @ s, (len(h), 1))
        if attention == "location":
            inner = inner + p[f"{score}.key.weight"][:, 0]
        else:
            inner = inner + h @ p[f"{score}.key.weight"].T + p[f"{score}.key.bias"]
        if attention != "content":
            kernels = p[f"{score}.filters.weight"][:, 0]  # (k, r)
            half = kernels.shape[1] // 2
            wide = np.pad(alpha, half)
            f = np.array([kernels @ wide[j : j + 2 * half + 1] for j in range(len(h))])
            inner = inner + f @ p[f"{score}.features.weight"].T
        e = np.tanh(inner) @ p[f"{score}.v"]
        if select == "smooth":
            alpha = slow.sigmoid(e) / slow.sigmoid(e).sum()
        else:
            alpha = slow.softmax(beta * e)
        looks.append(alpha)
        g = alpha @ h
        t = p["readout.linear.weight"] @ np.concatenate([s, g]) + p["readout.linear.bias"]
        logits.append(p["output.weight"] @ t.reshape(-1, 2).max(-1) + p["output.bias"])
    return np.stack(logits), np.stack(looks)


@pytest.mark.parametrize("select", ["softmax", "smooth"])
@pytest.mark.parametrize("attention", ["content", "location", "hybrid"])
def test_it_computes_the_papers_equations(attention, select):
    net, batch = model(attention=attention, select=select), sounds()
    with watch(net) as seen:
        logits = net(batch, TARGET).logits
    for row, length in enumerate(batch.lengths.tolist()):
        frames = batch.values[row, :length].numpy()
        expected, looks = by_hand(net, frames, TARGET[row].tolist(), attention, select)
        real = TARGET[row].ne(0).sum()
        np.testing.assert_allclose(logits[row].detach()[:real], expected[:real], atol=1e-10)
        for t in range(real):
            found = seen["attention"].steps[t][row, 0].detach().numpy()
            np.testing.assert_allclose(found[:length], looks[t], atol=1e-10)


def test_weights_are_sharper_where_the_model_is_used_and_not_where_it_learns():
    plain, sharp = model(), model(sharpen=2.5)
    sharp.load_state_dict(plain.state_dict())
    batch = sounds((9,))
    expected, _ = by_hand(plain, batch.values[0].numpy(), TARGET[0].tolist(), beta=2.5)
    np.testing.assert_allclose(sharp(batch, TARGET[:1]).logits[0].detach(), expected, atol=1e-10)
    other = sharp.train()(batch, TARGET[:1]).logits
    torch.testing.assert_close(other, plain(batch, TARGET[:1]).logits, rtol=0, atol=1e-12)


def test_only_the_best_frames_or_those_near_the_last_ones_have_weight():
    batch = sounds((9, 4))
    for changes, allowed in (({"keep": 2}, 2), ({"reach": 1}, 3)):
        net = model(**changes)
        with watch(net) as seen_model:
            net(batch, TARGET[:2])
        for step, weights in enumerate(seen_model["attention"].steps):
            if step or "keep" in changes:
                assert ((weights > 0).sum(-1) <= allowed).all()
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_the_window_follows_the_median_of_the_last_weights():
    net = model(reach=1)
    batch = sounds((9,))
    with watch(net) as seen:
        net(batch, TARGET[:1])
    steps = [one[0, 0].detach().numpy() for one in seen["attention"].steps]
    for before, after in pairwise(steps):
        middle = int((before.cumsum() >= 0.5).argmax())
        assert set(np.flatnonzero(after)) <= {middle - 1, middle, middle + 1}


def test_joined_frames_are_read_as_one():
    net = model(join=2)
    batch = sounds((9, 4))
    frames = np.concatenate([batch.values[0].numpy(), np.zeros((1, 4))]).reshape(5, 8)
    expected, _ = by_hand(net, frames, TARGET[0].tolist())
    np.testing.assert_allclose(net(batch, TARGET[:2]).logits[0].detach(), expected, atol=1e-10)


def test_parameters_at_the_papers_sizes():
    """The fact sheet's counts: encoder 2,946,048; attention 401,370."""
    with torch.device("meta"):
        net = ARSG(123, 62)
    assert sum(p.numel() for p in net.encoder.parameters()) == 2_946_048
    assert sum(p.numel() for p in net.attention.parameters()) == 401_370


def test_ctc_beside_is_the_mean_negative_log_likelihood_of_the_frames():
    net = model(ctc=0.5).train()
    batch = sounds()
    found = net(batch, TARGET).extra["penalty"]
    states = net.encode(batch).states
    logs = net.frames(states).log_softmax(-1)
    total = 0.0
    for row, size in enumerate(batch.lengths.tolist()):
        target = TARGET[row, 1:][TARGET[row, 1:] > 0]
        one = torch.nn.functional.ctc_loss(
            logs[row, :size], target, torch.tensor(size), torch.tensor(len(target)), reduction="sum"
        )
        total += one
    torch.testing.assert_close(found, 0.5 * total / 9)  # 6 symbols and 3 ends
    assert not net.eval()(batch, TARGET).extra


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attention": "hybird"}, "no attention of ARSG is called 'hybird'"),
        ({"select": "hard"}, "no select of ARSG is called 'hard'"),
        ({"sharpen": 2.0, "keep": 3}, "expected one of the two"),
        ({"select": "smooth", "keep": 3}, "are of the softmax"),
        ({"width": 4}, "expected an odd width"),
    ],
)
def test_settings_that_mean_nothing_are_refused(changes, said):
    with pytest.raises(RequestError, match=said):
        model(**changes)


@pytest.mark.parametrize("made", [ARSG, CTC])
def test_what_is_no_frames_is_refused(made):
    net = made(4, 13, hidden=5, layers=1).double()
    for source in (torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3, 5).double()):
        with pytest.raises(RequestError, match=r"reads frames \(batch, time, 4\)"):
            net(source, TARGET[:2]) if made is ARSG else net(source)


def test_ctc_scores_every_frame():
    torch.manual_seed(1)
    net, batch = slow.shaken(CTC(4, 13, hidden=5, layers=2)).eval(), sounds()
    output = net(batch)
    p = slow.numbers(net)
    for row, length in enumerate(batch.lengths.tolist()):
        h = encoded(p, batch.values[row, :length].numpy())
        expected = h @ p["output.weight"].T + p["output.bias"]
        np.testing.assert_allclose(output.logits[row, :length].detach(), expected, atol=1e-10)
    assert output.extra["lengths"].tolist() == [9, 4, 6]
