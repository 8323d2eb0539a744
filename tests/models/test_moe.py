"""The mixture of experts' translator: its attention, its penalty, its size."""

import numpy as np
import pytest
import torch

from regard import tasks, watch
from regard.errors import RequestError
from regard.models.moe import MoE
from tests.contract.battery import build, mixed
from tests.losses.test_minimum_risk import batch_of
from tests.models import slow

SIZES = {
    "dim": 4,
    "hidden": 6,
    "experts": 4,
    "k": 2,
    "ffn_dim": 5,
    "align": 3,
    "dropout": 0.0,
}


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(MoE(12, 13, **{**SIZES, **changes}))


def read(p, path, rows):
    """An LSTM with PyTorch's two biases, its output projected: what it says of each row."""
    stack = {name: p[f"{path}.stack.{name}_l0"] for name in KINDS}
    h, c, out = np.zeros(SIZES["dim"]), np.zeros(SIZES["hidden"]), []
    for x in rows:
        h, c = cell(stack, x, h, c)
        out.append(h)
    return out


KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")


def cell(stack, x, h, c):
    gates = stack["weight_ih"] @ x + stack["bias_ih"] + stack["weight_hh"] @ h + stack["bias_hh"]
    i, f, g, o = np.split(gates, 4)
    c = slow.sigmoid(f) * c + slow.sigmoid(i) * np.tanh(g)
    return stack["weight_hr"] @ (slow.sigmoid(o) * np.tanh(c)), c


def mixture(p, path, x):
    """σ(Σ_i G(x)_i max(0, x A_i) B_i) over the k = 2 best experts, without noise."""
    scores = x @ p[f"{path}.gates.gate"]
    best = np.argsort(-scores)[:2]
    total = np.zeros(SIZES["dim"])
    for expert, weight in zip(best, slow.softmax(scores[best]), strict=True):
        hidden = np.maximum(x @ p[f"{path}.into"][expert], 0)
        total += weight * (hidden @ p[f"{path}.out"][expert])
    return slow.sigmoid(total)


def by_hand(net, sentence, target, keep=1.0):
    """Logits (T, V) and attention (T, S) of one sentence; `keep` stands where dropout would."""
    p = slow.numbers(net)
    x = [keep * p["embed_source.weight"][w] for w in sentence]
    ahead, back = read(p, "both.ahead", x), read(p, "both.back", x[::-1])[::-1]
    x = [one + keep * (a + b) for one, a, b in zip(x, ahead, back, strict=True)]
    x = [one + keep * new for one, new in zip(x, read(p, "second", x), strict=True)]
    x = [one + keep * mixture(p, "encoder_experts", one) for one in x]
    x = [one + keep * new for one, new in zip(x, read(p, "third", x), strict=True)]
    first = {name: p[f"first.stack.{name}_l0"] for name in KINDS}
    last = {name: p[f"last.stack.{name}_l0"] for name in KINDS}
    low = high = (np.zeros(SIZES["dim"]), np.zeros(SIZES["hidden"]))
    logits, looks = [], []
    for y in target:
        word = keep * p["embed_target.weight"][y]
        ask = np.tanh(p["query.weight"] @ low[0])
        energy = [np.sum(p["v"] * np.tanh(p["key.weight"] @ one) * ask) for one in x]
        look = slow.softmax(np.array(energy))
        context = sum(a * one for a, one in zip(look, x, strict=True))
        low = cell(first, np.concatenate([word, context]), *low)
        state = word + keep * low[0]
        state = state + keep * mixture(p, "decoder_experts", state)
        high = cell(last, state, *high)
        logits.append(p["output.weight"] @ (state + keep * high[0]) + p["output.bias"])
        looks.append(look)
    return np.stack(logits), np.stack(looks)


def test_it_computes_the_papers_equations():
    net = model()
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        logits = net(source, target, lengths).logits.detach().numpy()
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, looks = by_hand(net, sentence, target[row].tolist())
        np.testing.assert_allclose(logits[row], expected, atol=1e-10)
        for t, look in enumerate(looks):
            found = seen["attention"].steps[t][row, 0].detach().numpy()
            np.testing.assert_allclose(found[: len(look)], look, atol=1e-10)


def test_dropout_is_on_the_output_of_every_embedding_lstm_and_mixture(monkeypatch):
    """A factor in dropout's place shows where it stands; inside the experts there is none."""

    def halve(x, p, training):
        assert p == (0.4 if training else p)
        return x * 0.5 if training else x

    monkeypatch.setattr("regard.models.moe.dropout", halve)
    monkeypatch.setattr("regard.layers.embed.drop", halve)
    net = model(dropout=0.4).train()
    with torch.no_grad():
        for mixed_in in (net.encoder_experts, net.decoder_experts):
            mixed_in.gates.noise.zero_()
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)  # the gates' noise
    source, lengths, target = slow.ragged()
    logits = net(source, target, lengths).logits.detach().numpy()
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, _ = by_hand(net, sentence, target[row].tolist(), keep=0.5)
        np.testing.assert_allclose(logits[row], expected, atol=1e-10)


def test_what_attention_read_enters_the_first_decoder_layer_alone():
    net = MoE(12, 13, **SIZES)
    assert net.first.stack.weight_ih_l0.shape == (24, 8)
    assert net.last.stack.weight_ih_l0.shape == (24, 4)


def test_its_attention_is_the_papers_product():
    """A(x, y) = Σ_d V_d tanh(x U)_d tanh(y W)_d."""
    net = model()
    source, lengths, target = slow.ragged()
    states = net.encode(source, lengths).states.detach().numpy()
    with watch(net) as seen:
        decoding = net.start(net.encode(source, lengths))
        for t in range(3):
            asking = decoding.carried["h"][:, 0, 0].detach().numpy()
            _, decoding = net.step(target[:, t : t + 1], decoding)
            p = slow.numbers(net)
            for row, n in enumerate(lengths.tolist()):
                y = np.tanh(p["query.weight"] @ asking[row])
                energy = []
                for x in states[row, :n]:
                    u = np.tanh(p["key.weight"] @ x)
                    energy.append(sum(p["v"][d] * u[d] * y[d] for d in range(3)))
                found = seen["attention"].steps[t][row, 0, :n].detach()
                np.testing.assert_allclose(found, slow.softmax(np.array(energy)), atol=1e-10)


def test_every_layer_adds_to_its_input():
    """Layers that say nothing leave a word as it is, up to the experts' sigmoid of 0."""
    net = model()
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if "weight_hr" in name or name.endswith("experts.out"):
                weight.zero_()
    source, lengths, _ = slow.ragged()
    found = net.encode(source, lengths).states
    torch.testing.assert_close(found[0], net.embed_source(source)[0] + 0.5)


def test_the_penalty_counts_while_training_alone():
    model, batch = build("moe"), batch_of(mixed())
    task = tasks.load("translation")()
    assert not model(batch.source, batch.target_in).extra
    _, count = task.loss(model, batch)
    model.train()
    torch.manual_seed(5)
    output = model(batch.source, batch.target_in, batch.source_lengths)
    torch.manual_seed(5)
    total, _ = task.loss(model, batch, 0)
    torch.manual_seed(5)
    without, _ = task.loss(model, batch)
    penalty = float(output.extra["penalty"])
    assert penalty > 0
    assert float(total) == pytest.approx(float(without) + penalty * count)


def test_the_papers_sizes_come_to_its_8_7_billion_parameters():
    found = slow.count(MoE, 32_000, 32_000)
    assert found == pytest.approx(8.7e9, rel=0.01)
    small = slow.count(MoE, 32_000, 32_000, experts=4)
    assert found - small == 2 * 2044 * (2 * 512 * 2048 + 2 * 512)


def test_fewer_cells_than_features_are_refused():
    with pytest.raises(RequestError, match="dim=4 cells or more, got 3"):
        MoE(12, 13, **{**SIZES, "hidden": 3})


def test_start_of_the_weights_can_be_chosen():
    torch.manual_seed(3)
    net = MoE(200, 200, **{**SIZES, "dim": 16, "hidden": 16}, scale=0.3, forget_bias=1.0)
    kept = {"v", *(name for name, _ in net.named_parameters() if "experts" in name)}
    for name, weight in net.named_parameters():
        start = weight.detach().clone()
        if "bias_ih" in name:
            start[16:32] -= 1.0
        if name not in kept:
            assert float(start.abs().max()) <= 0.3 + 1e-6, name
        if weight.numel() > 200 and name not in kept:
            assert float(start.std()) == pytest.approx(0.3 / 3**0.5, rel=0.15), name
    assert net.v.tolist() == pytest.approx([SIZES["align"] ** -0.5] * SIZES["align"])
    assert not net.embed_source.weight[0].any()
    for gates in (net.encoder_experts.gates, net.decoder_experts.gates):
        assert not gates.gate.any()


def test_only_forget_gates_are_opened():
    torch.manual_seed(3)
    plain = MoE(12, 13, **SIZES)
    torch.manual_seed(3)
    opened = MoE(12, 13, **SIZES, forget_bias=2.0)
    cells, moved = SIZES["hidden"], 0
    for (name, before), after in zip(plain.named_parameters(), opened.parameters(), strict=True):
        added = torch.zeros_like(before)
        if "bias_ih" in name:
            added[cells : 2 * cells] = 2.0
            moved += 1
        torch.testing.assert_close(after, before + added, msg=name)
    assert moved == 6  # both directions of the first layer, two more, two of the decoder
