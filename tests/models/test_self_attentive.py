"""The self-attentive sentence embedding against its equations in NumPy."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import kernels
from regard.errors import RequestError
from regard.models.self_attentive import (
    Pruned,
    SelfAttentive,
    SelfAttentivePair,
    penalization,
)
from regard.protocols import Inputs
from tests.models.slow import count, numbers, ragged, sentences, shaken, sigmoid, softmax

SIZES = {"embed": 5, "hidden": 4, "attention": 7, "hops": 3, "ffn_dim": 6, "dropout": 0.0}


def model(**changes):
    torch.manual_seed(1)
    return shaken(SelfAttentive(12, 5, **{**SIZES, **changes}))


def lstm(p, path, xs):
    w, u = p[f"{path}.stack.weight_ih_l0"], p[f"{path}.stack.weight_hh_l0"]
    b = p[f"{path}.stack.bias_ih_l0"] + p[f"{path}.stack.bias_hh_l0"]
    h = c = np.zeros(u.shape[1])
    states = []
    for x in xs:
        i, f, g, o = np.split(w @ x + u @ h + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states)


def embedding(p, ids):
    """A, M and P of one sentence (equations 1 to 8)."""
    xs = p["embed.weight"][ids]
    states = np.concatenate([lstm(p, "lstm.ahead", xs), lstm(p, "lstm.back", xs[::-1])[::-1]], 1)
    scores = p["queries"] @ np.tanh(p["key.weight"] @ states.T)
    a = np.stack([softmax(row) for row in scores])
    p_term = 0.0
    for i, one in enumerate(a):
        for j, other in enumerate(a):
            p_term += (sum(x * y for x, y in zip(one, other, strict=True)) - (i == j)) ** 2
    return a, a @ states, p_term


def classified(p, m):
    hidden = np.maximum(0, p["ffn.weight"] @ m.flatten() + p["ffn.bias"])
    return p["output.weight"] @ hidden + p["output.bias"]


def classified_pruned(p, m):
    """Every hidden unit by itself: those of the rows first, then those of the columns."""
    units = [m[i] @ p["ffn.rows"][i, :, k] for i in range(m.shape[0]) for k in range(4)]
    units += [m[:, j] @ p["ffn.columns"][j, :, k] for j in range(m.shape[1]) for k in range(2)]
    hidden = np.maximum(0, np.array(units) + p["ffn.bias"])
    return p["output.weight"] @ hidden + p["output.bias"]


@pytest.mark.parametrize(
    ("pruned", "by_hand"), [(None, classified), ([4, 2], classified_pruned)], ids=["all", "pruned"]
)
def test_it_computes_the_papers_equations(pruned, by_hand):
    net = model(pruned=pruned, penalty=0.7)
    p, (source, lengths, _) = numbers(net), ragged()
    with watch(net) as seen:
        logits = net(source, lengths).logits
    read = net.embedding(source, lengths)
    penalties = []
    for row, ids in enumerate(sentences(source, lengths)):
        a, m, penalty = embedding(p, ids)
        found = seen["hops"].weights[row].detach().numpy()
        np.testing.assert_allclose(found[:, : len(ids)], a, atol=1e-12)
        assert not found[:, len(ids) :].any()
        np.testing.assert_allclose(read.context[row].detach().numpy(), m, atol=1e-12)
        np.testing.assert_allclose(logits[row].detach().numpy(), by_hand(p, m), atol=1e-10)
        penalties.append(penalty)
    output = net.train()(source, lengths)
    torch.testing.assert_close(output.logits, logits)
    expected = 0.7 * np.mean(penalties)
    np.testing.assert_allclose(output.extra["penalty"].item(), expected, rtol=1e-12)
    net.reduction = "mean"  # the released code's
    np.testing.assert_allclose(net(source, lengths).extra["penalty"].item(), expected / 9)


def test_there_is_a_penalty_where_it_is_trained_with():
    source, lengths, _ = ragged()
    assert model().eval()(source, lengths).extra == {}
    assert model(penalty=0.0).train()(source, lengths).extra == {}


def test_the_penalty_knows_good_hops_from_bad():
    """Zero for hops at words of their own; r (r - 1) for hops all at one word."""
    apart, same = torch.eye(3, 5).double(), torch.eye(1, 5).double().repeat(3, 1)
    even = torch.full((3, 5), 0.2).double()
    # all entries of A A^T are 1/5: 3 (1/5 - 1)² + 6 (1/5)²
    found = penalization(torch.stack([apart, same, even, torch.zeros(3, 5).double()]))
    torch.testing.assert_close(found, torch.tensor([0.0, 6.0, 2.16, 3.0]).double())
    torch.testing.assert_close(penalization(even, "mean"), torch.tensor(0.24).double())
    with torch.autocast("cpu", torch.bfloat16):
        assert penalization(even.float()).item() == pytest.approx(2.16, abs=1e-6)


def test_every_kernel_for_dot_products_gives_the_same():
    net, (source, lengths, _) = model(), ragged()
    lengths[1] = 0
    expected = net(source, lengths).logits
    gradients = []
    for name in ("reference", "sdpa"):
        net.zero_grad()
        with kernels(name):
            logits = net(source, lengths).logits
        torch.testing.assert_close(logits, expected, atol=1e-12, rtol=0)
        logits.square().sum().backward()
        gradients.append([p.grad.clone() for p in net.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=0)


def test_a_sentence_without_words_is_an_empty_matrix():
    net = model()
    net.embed.weight.data[0] = 1.0  # even where padding had a vector
    read = net.embedding(torch.tensor([[5, 6], [0, 0]]), torch.tensor([2, 0]), need_weights=True)
    assert not read.context[1].any()
    assert not read.weights[1].any()
    assert read.context[0].any()


def test_dropout_is_where_the_released_code_has_it(monkeypatch):
    """Each dropout is made a factor, 1 + p, which shows where it is applied and where it is not."""
    where = "regard.models.self_attentive"
    monkeypatch.setattr(f"{where}.dropout", lambda x, p, training: x * (1 + p * training))
    monkeypatch.setattr(
        f"{where}.dropout_relu", lambda x, p, training: torch.relu(x) * (1 + p * training)
    )
    net = model(dropout=0.25, score_dropout=0.5)
    p, ids = numbers(net), [5, 9, 4, 7]
    xs = p["embed.weight"][ids]
    states = np.concatenate([lstm(p, "lstm.ahead", xs), lstm(p, "lstm.back", xs[::-1])[::-1]], 1)
    scores = p["queries"] @ (1.5 * np.tanh(p["key.weight"] @ (1.5 * states.T)))
    m = np.stack([softmax(row) for row in scores]) @ states
    hidden = np.maximum(0, p["ffn.weight"] @ (1.25 * m.flatten()) + p["ffn.bias"])
    expected = p["output.weight"] @ (1.25 * hidden) + p["output.bias"]
    found = net.train()(torch.tensor([ids])).logits[0].detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-10)
    calm = net.eval()(torch.tensor([ids])).logits[0].detach().numpy()
    np.testing.assert_allclose(calm, classified(p, embedding(p, ids)[1]), atol=1e-10)


@pytest.mark.parametrize(
    ("given", "known"),
    [  # the paper's sizes with word vectors of 300, derived: an LSTM with one bias vector a gate
        ({"ffn_dim": 2000}, 37_674_905),  # Age
        ({"ffn_dim": 3000}, 55_680_905),  # Yelp
    ],
)
def test_the_papers_sizes(given, known):
    second_biases = 2 * 4 * 300
    assert count(SelfAttentive, 20, 5, embed=300, **given) == known + second_biases + 20 * 300
    with torch.device("meta"):
        net = SelfAttentive(20, 5, embed=300, **given)
    assert sum(p.numel() for p in net.lstm.parameters()) == 1_442_400 + second_biases
    assert net.key.weight.numel() + net.queries.numel() == 220_500
    assert net.ffn.weight.shape == (given["ffn_dim"], 18_000)


def test_a_pruned_layer_has_a_fraction_of_the_connections():
    with torch.device("meta"):
        layer = Pruned(30, 600, 150, 10)
    assert layer.rows.numel() + layer.columns.numel() == 30 * 600 * (150 + 10)
    assert layer.bias.shape == (30 * 150 + 600 * 10,)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"reduction": "men"}, "no reduction 'men': did you mean 'mean'"),
        ({"pruned": [4]}, r"pruned: expected two numbers, .* got \[4\]"),
        ({"hops": 0}, "expected a class and a hop or more, got num_classes=5 and hops=0"),
    ],
)
def test_wrong_settings_are_refused(wrong, said):
    with pytest.raises(RequestError, match=said):
        SelfAttentive(12, 5, **{**SIZES, **wrong})


@pytest.mark.parametrize(
    "source", [Inputs(torch.ones(2, 3, 4, dtype=torch.int64)), torch.zeros(2, 3)]
)
def test_only_sentences_of_ids_are_read(source):
    with pytest.raises(RequestError, match="expected sentences as ids"):
        model()(source)


def test_a_pair_is_read_by_a_gated_encoder():
    torch.manual_seed(1)
    net = shaken(SelfAttentivePair(12, 5, **{**SIZES, "penalty": 0.7}))
    source, lengths, _ = ragged()
    other, other_lengths = source.flip(0), lengths.flip(0)
    logits = net(source, other, lengths, other_lengths).logits
    everything = numbers(net)
    p = {k.removeprefix("sentence."): v for k, v in everything.items()}
    penalties = []
    rows = zip(sentences(source, lengths), sentences(other, other_lengths), strict=True)
    for row, (one, two) in enumerate(rows):
        (_, m, of_one), (_, n, of_two) = embedding(p, one), embedding(p, two)
        f = [(m[i] @ p["gate.first"][i]) * (n[i] @ p["gate.second"][i]) for i in range(len(m))]
        np.testing.assert_allclose(
            logits[row].detach().numpy(), classified(p, np.array(f)), atol=1e-10
        )
        penalties += [of_one, of_two]
    found = net.train()(source, other, lengths, other_lengths).extra["penalty"].item()
    np.testing.assert_allclose(found, 0.7 * np.mean(penalties), rtol=1e-12)


def test_features_of_a_pair_join_the_hidden_units():
    torch.manual_seed(1)
    net = shaken(SelfAttentivePair(12, 5, 2, **SIZES))
    source, lengths, _ = ragged()
    features = torch.randn(3, 2, dtype=torch.float64)
    without = net(source, source, lengths, lengths).logits
    given = Inputs(source, lengths, {"features": features})
    added = net(given, source, second_lengths=lengths).logits - without
    torch.testing.assert_close(added, features @ net.sentence.output.weight[:, -2:].T)


def test_the_sizes_of_a_pair():
    """The paper's for SNLI: a reader and a classifier of 4000 units, and 2 x 30 matrices."""
    lstm, attention = 1_442_400 + 2 * 4 * 300, 600 * 150 + 150 * 30
    classifier = 18_000 * 4000 + 4000 + 4000 * 3 + 3
    expected = 20 * 300 + lstm + attention + 2 * 30 * 600 * 600 + classifier
    assert count(SelfAttentivePair, 20, 3) == expected
