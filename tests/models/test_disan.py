"""DiSAN against its equations in NumPy, its masks, and its sizes."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import explain
from regard.errors import RequestError
from regard.models.disan import DiSAN, DiSANPair
from tests.models.slow import count, numbers, ragged, sentences, shaken, sigmoid

SIZES = {"embed": 5, "hidden": 4, "ffn_dim": 6, "dropout": 0.0}
MASKS = {
    "forward": lambda i, j: i < j,
    "backward": lambda i, j: i > j,
    "none": lambda i, j: i != j,
}


def model(made=DiSAN, **changes):
    torch.manual_seed(1)
    return shaken(made(12, 5, **{**SIZES, **changes}))


def elu(x):
    return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)


def affine(p, path, x):
    return p[f"{path}.weight"] @ x + p.get(f"{path}.bias", 0.0)


def softmax_of_each(scores):
    """Over the first axis, for each feature by itself."""
    e = np.exp(scores - scores.max(0))
    return e / e.sum(0)


def scored(p, path, h, own, seen):
    """Scores of the words that one looks at: of each feature, or of the whole word."""
    w1, w2 = p[f"{path}.key.weight"], p[f"{path}.query.weight"]
    b = p.get(f"{path}.key.bias", 0.0)
    if f"{path}.v" in p:
        return np.array([p[f"{path}.v"] @ np.tanh(w1 @ h[i] + w2 @ own + b) for i in seen])[:, None]
    return np.array([5 * np.tanh((w1 @ h[i] + w2 @ own + b) / 5) for i in seen])


def block(p, path, xs, direction):
    """Every pair, every feature (section 4.1): s and u of each word."""
    h = [elu(affine(p, f"{path}.map", x)) for x in xs]
    sums, fused = [], []
    for j, own in enumerate(h):
        seen = [i for i in range(len(h)) if MASKS[direction](i, j)]
        s = np.zeros(len(own))
        if seen:
            f = scored(p, f"{path}.attention.score", h, own, seen)
            s = (softmax_of_each(f) * np.array([h[i] for i in seen])).sum(0)
        gate = sigmoid(affine(p, f"{path}.gate_sum", s) + affine(p, f"{path}.gate_map", own))
        sums.append(s)
        fused.append(gate * own + (1 - gate) * s)
    return np.array(sums), np.array(fused)


def encoded(p, ids, directions):
    xs = p["encoder.embed.weight"][ids]
    u = xs
    if directions:
        parts = [block(p, f"encoder.blocks.{n}", xs, d)[1] for n, d in enumerate(directions)]
        u = np.concatenate(parts, 1)
    path = "encoder.pool.attention.score"
    scores = [affine(p, f"{path}.out", elu(affine(p, f"{path}.key", word))) for word in u]
    return (softmax_of_each(np.array(scores)) * u).sum(0)


def classified(p, s):
    return affine(p, "head.output", elu(affine(p, "head.hidden.0", s)))


@pytest.mark.parametrize("weights", ["feature", "word"])
@pytest.mark.parametrize(
    "directions", [["forward", "backward"], ["backward"], ["none", "none"], []]
)
def test_it_computes_the_papers_equations(directions, weights):
    net = model(directions=directions, weights=weights)
    p, (source, lengths, _) = numbers(net), ragged()
    logits, vectors = net(source, lengths).logits, net.embedding(source, lengths)
    for row, ids in enumerate(sentences(source, lengths)):
        s = encoded(p, ids, directions)
        np.testing.assert_allclose(vectors[row].detach().numpy(), s, atol=1e-10)
        np.testing.assert_allclose(logits[row].detach().numpy(), classified(p, s), atol=1e-10)


def test_a_pair_is_compared_by_difference_and_product():
    net = model(DiSANPair)
    p, (source, lengths, _) = numbers(net), ragged()
    other = source.flip(0)[:, :5]
    logits = net(source, other, lengths, lengths.flip(0).clamp(max=5)).logits
    rows = zip(
        sentences(source, lengths), sentences(other, lengths.flip(0).clamp(max=5)), strict=True
    )
    for row, (one, two) in enumerate(rows):
        u, v = (encoded(p, ids, ["forward", "backward"]) for ids in (one, two))
        joined = np.concatenate([u, v, u - v, u * v])
        np.testing.assert_allclose(logits[row].detach().numpy(), classified(p, joined), atol=1e-10)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_block_looks_in_its_direction_only(direction):
    own = model(directions=[direction]).encoder.blocks[0]
    x, lengths = torch.randn(2, 6, 5, dtype=torch.float64), torch.tensor([6, 4])
    found = own(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        edge = length - 1 if direction == "forward" else 0  # which no other word looks at
        changed = x.clone()
        changed[row, edge] += 1.0
        same = (own(changed, lengths) == found).all(-1)[row, :length]
        assert same.tolist() == [place != edge for place in range(length)]
    with watch(own) as seen:
        own(x, lengths)
    weights = seen["attention"].weights  # (2, 6, 6, 4), a query's words on axis 2
    for row, length in enumerate(lengths.tolist()):
        blind = 0 if direction == "forward" else length - 1
        assert not weights[row, blind].any()
        places = torch.arange(length)
        there = (weights[row, :length, :length] > 0).all(-1)
        later = places[:, None] > places if direction == "forward" else places[:, None] < places
        assert torch.equal(there, later)
        total = weights[row, :length].sum(1)
        seeing = places != blind
        torch.testing.assert_close(total[seeing], torch.ones_like(total[seeing]))


def test_the_first_word_of_the_forward_block_sums_nothing():
    own = model(directions=["forward"]).encoder.blocks[0]
    x, lengths = torch.randn(1, 3, 5, dtype=torch.float64), torch.tensor([3])
    h = torch.nn.functional.elu(own.map(x))
    s = own.attention(h, h, h).context
    assert not s[:, 0].any()
    assert s[:, 1:].all()
    gate = torch.sigmoid(own.gate_map(h))
    torch.testing.assert_close(own(x, lengths)[:, 0], (gate * h)[:, 0])
    torch.testing.assert_close(s[:, 1], h[:, 0])  # the second sees the first alone


def test_without_directions_the_order_of_words_says_nothing():
    source = torch.tensor([[5, 9, 4, 7, 8]])
    turned = source[:, torch.tensor([3, 0, 4, 2, 1])]
    blind, sighted = model(directions=["none", "none"]), model()
    torch.testing.assert_close(blind(source).logits, blind(turned).logits, atol=1e-12, rtol=0)
    assert not torch.allclose(sighted(source).logits, sighted(turned).logits, atol=1e-3)


def test_a_sentence_without_words_is_zero():
    net = model()
    net.encoder.embed.weight.data[0] = 1.0
    found = net.embedding(torch.tensor([[5, 6], [0, 0]]), torch.tensor([2, 0]))
    assert not found[1].any()
    assert found[0].all()


def test_the_blocks_are_fused():
    with torch.device("meta"):
        found = explain(DiSAN(20, 5))
    assert {path: e.kernel for path, e in found.items()} == {
        "encoder.blocks.0.attention": "features",
        "encoder.blocks.1.attention": "features",
        "encoder.pool.attention": "reference",
    }


def test_dropout_is_on_what_is_scored_not_on_what_is_read(monkeypatch):
    """Each dropout is made a factor, 1 + p."""
    monkeypatch.setattr(
        "regard.models.disan.dropout", lambda x, p, training: x * (1 + p * training)
    )
    own = model(directions=["forward"], dropout=0.25).encoder.blocks[0].train()
    x, lengths = torch.randn(1, 2, 5, dtype=torch.float64), torch.tensor([2])
    h = torch.nn.functional.elu(own.map(1.25 * x))
    s = torch.stack([torch.zeros_like(h[:, 0]), h[:, 0]], 1)  # one word is read whole
    gate = torch.sigmoid(own.gate_sum(1.25 * s) + own.gate_map(1.25 * h))
    torch.testing.assert_close(own(x, lengths), gate * h + (1 - gate) * s)


@pytest.mark.parametrize(
    ("given", "known"),
    [  # of SNLI's pairs, beside word vectors of 300
        ({}, 2_344_203),
        ({"directions": ["none", "none"]}, 2_344_203),
        ({"directions": []}, 541_803),
    ],
)
def test_the_papers_sizes(given, known):
    assert count(DiSANPair, 20, 3, **given) == known + 20 * 300


def test_the_sizes_of_the_encoder():
    with torch.device("meta"):
        encoder = DiSAN(20, 5).encoder
    assert [sum(p.numel() for p in b.parameters()) for b in encoder.blocks] == [450_900] * 2
    assert sum(p.numel() for p in encoder.pool.parameters()) == 721_200
    assert sum(p.numel() for p in encoder.parameters()) == 1_623_000 + 20 * 300


def test_wrong_weights_are_refused():
    with pytest.raises(RequestError, match="no weights 'words': did you mean 'word'"):
        model(weights="words")


def test_a_wrong_direction_is_refused():
    with pytest.raises(RequestError, match="no direction 'foward': did you mean 'forward'"):
        model(directions=["foward"])
