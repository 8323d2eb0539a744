"""ABS against the paper's equations in NumPy, its unit checks and its order of encoders."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard import watch
from regard.errors import RequestError
from regard.models.abs import ABS, smoothed
from regard.protocols import BOS, EOS, Constrained
from regard.tasks.generation.translation import Translation
from tests.models import slow

SIZES = {"embed": 5, "source_embed": 4, "hidden": 6, "window": 3, "reach": 1, "layers": 2}


def model(**changes):
    torch.manual_seed(1)
    return slow.shaken(ABS(12, 13, **{**SIZES, **changes}))


def neighbors(x, reach):
    """Of each row the sum of those around it; zeros stand outside of the sentence."""
    rows = range(len(x))
    return np.stack([sum(x[q] for q in rows if abs(q - j) <= reach) for j in rows])


class Slow:
    """The equations for one sentence without padding, one position after the other."""

    def __init__(self, net, encoder, code):
        self.p, self.name, self.code = slow.numbers(net), encoder, code

    def affine(self, name, x):
        return self.p[f"{name}.weight"] @ x + self.p.get(f"{name}.bias", 0.0)

    def logits(self, sentence, target):
        out, looks = [], []
        for t in range(len(target)):
            window = ([BOS] * 3 + target[: t + 1])[-3:]
            h = np.tanh(self.affine("hidden", self.p["embed.weight"][window].ravel()))
            read, look = getattr(self, self.name)(sentence, window)
            if self.code and self.name != "none":
                read = self.affine("encoder.affine", read)
            out.append(self.affine("output", np.concatenate([h, read])))
            looks.append(look)
        return np.stack(out), looks

    def words(self, sentence):
        return self.p["encoder.embed.weight"][sentence]

    def none(self, sentence, window):
        return np.zeros(0), None

    def bag(self, sentence, window):
        return self.words(sentence).mean(0), None

    def convolution(self, sentence, window):
        z = self.words(sentence)
        for layer in range(2):
            q = self.p[f"encoder.layers.{layer}.weight"]  # (out, in, 3)
            b = self.p.get(f"encoder.layers.{layer}.bias", 0.0)
            wide = np.concatenate([np.zeros((1, 4)), z, np.zeros((1, 4))])
            z = [b + np.einsum("oik,ki->o", q, wide[j : j + 3]) for j in range(len(z))]
            z = np.tanh([np.max(z[j : j + 2], 0) for j in range(0, len(z), 2)])
        return z.max(0), None

    def attention(self, sentence, window):
        x = self.words(sentence)
        context = self.p["encoder.context.weight"][window].ravel()
        p = slow.softmax(x @ self.affine("encoder.query", context))
        factor = self.p["encoder.smooth.factor"] if self.code else 1.0
        bias = self.p["encoder.smooth.bias"] if self.code else 0.0
        return p @ (neighbors(x, 1) * factor + bias), p


SLOW = {"bag-of-words": "bag"}


@pytest.mark.parametrize("reading", ["paper", "code"])
@pytest.mark.parametrize("encoder", ["none", "bag-of-words", "convolution", "attention"])
def test_it_computes_the_papers_equations(encoder, reading):
    net = model(encoder=encoder, reading=reading)
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        logits = net(source, target, lengths).logits
    assert list(seen) == ["encoder.attention"] * (encoder == "attention")
    by_hand = Slow(net, SLOW.get(encoder, encoder), reading == "code")
    for row, sentence in enumerate(slow.sentences(source, lengths)):
        expected, looks = by_hand.logits(sentence, target[row].tolist())
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        for record in seen.values():
            found = record.steps[0][row, :, : len(sentence)].detach().numpy()
            np.testing.assert_allclose(found, np.stack(looks), atol=1e-10)


@pytest.mark.parametrize("encoder", ["none", "bag-of-words", "convolution"])
def test_step_by_step_is_teacher_forcing(encoder):
    """With attention it is in the contract."""
    net = model(encoder=encoder)
    source, lengths, target = slow.ragged()
    logits = net(source, target, lengths).logits
    decoding = net.start(net.encode(source, lengths)).rows(torch.tensor([2, 0]))
    for t in range(target.shape[1]):
        found, decoding = net.step(target[[2, 0]][:, t : t + 1], decoding)
        torch.testing.assert_close(found[:, 0], logits[[2, 0], t], rtol=0, atol=1e-10)


def test_the_published_sizes():
    """The sizes of the released script's model, its vocabularies being 69 K and 110 K words."""
    sizes = {"embed": 64, "source_embed": 200, "hidden": 64, "reading": "code"}
    tables = 69_000 * 64 + 110_000 * 200 + 69_000 * 200  # E, F, G
    hidden = 5 * 64 * 64 + 64
    attending = (5 * 200 * 200 + 200) + 2 + (200 * 200 + 200)  # P, the smoothing, the affine layer
    assert slow.count(ABS, 110_000, 69_000, **sizes) == (
        tables + hidden + attending + (64 + 200 + 1) * 69_000
    )


def test_weights_add_up_over_real_words_alone():
    net = model()
    source, lengths, target = slow.ragged()
    with watch(net) as seen:
        net(source, target, lengths)
    weights = seen["encoder.attention"].weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 5).double())
    for row, length in enumerate(lengths.tolist()):
        assert not weights[row, :, length:].any()


def test_words_that_move_take_their_weights_along():
    net = model()
    source = torch.tensor([[4, 5, 6, 7, 8]])
    target = torch.tensor([[BOS, 5, 9]])
    looks = []
    for words in (source, source.roll(1, 1)):
        with watch(net) as seen:
            net(words, target)
        looks.append(seen["encoder.attention"].weights)
    torch.testing.assert_close(looks[1], looks[0].roll(1, -1))


def test_without_smoothing_it_is_bilinear_attention():
    net = model(reach=0)
    source, target = torch.tensor([[4, 5, 6]]), torch.tensor([[BOS, 5]])
    x = net.encoder.embed(source)
    context = net.encoder.context(torch.tensor([[[1, 1, 1], [1, 1, 5]]])).flatten(-2)
    expected = torch.softmax(net.encoder.query(context) @ x.mT, -1) @ x
    memory = net.encoder.remember(net.encode(source))
    windows = F.pad(target, (2, 0), value=BOS).unfold(1, 3, 1)
    torch.testing.assert_close(net.encoder(windows, memory), expected)


def test_smoothing_is_a_sum_of_neighbors_divided_by_their_reach():
    x = torch.arange(1.0, 5.0).reshape(1, 4, 1)
    assert smoothed(x, 2).flatten().tolist() == [3.0, 5.0, 5.0, 4.5]  # 6, 10, 10, 9 over Q = 2


def test_long_word_vectors_are_shortened_after_an_update():
    net = model(max_norm=0.5)
    before = net.encoder.context.weight.detach().clone()
    assert isinstance(net, Constrained)
    Translation().after_update(net)
    for table in (net.embed, net.encoder.embed, net.encoder.context):
        assert table.weight.norm(dim=1).max() <= 0.5 + 1e-12
    short = before.norm(dim=1) < 0.5
    assert 0 < short.sum() < len(short)
    torch.testing.assert_close(net.encoder.context.weight[short], before[short], rtol=0, atol=0)
    free = model(max_norm=0.0)
    free.constrain()
    torch.testing.assert_close(free.encoder.context.weight, before, rtol=0, atol=0)


def test_unknown_parts_get_the_nearest():
    with pytest.raises(RequestError, match="no encoder of ABS is called 'atention'; did you mean"):
        model(encoder="atention")
    with pytest.raises(RequestError, match="no reading of ABS is called 'print'"):
        model(reading="print")


# -- the small check: of 12 words, write the four with even ids in their order


def kept(count, generator):
    """Sources (n, 13) and targets: four even ids among eight odd ones."""
    keep = torch.rand(count, 12, generator=generator).argsort(1) < 4
    words = 4 + torch.randint(0, 20, (count, 12), generator=generator) * 2
    source = torch.where(keep, words, words + 1)
    gold = source[keep].reshape(count, 4)
    end = torch.full((count, 1), EOS)
    return torch.cat([source, end], 1), torch.cat([gold, end], 1)


def perplexity(encoder, pairs, epochs, lr):
    """Of 500 held-out pairs; and how many of the steps look at, or beside, the next kept word."""
    generator = torch.Generator().manual_seed(3)
    source, gold = kept(pairs + 500, generator)
    read = torch.cat([torch.full((len(gold), 1), BOS), gold[:, :-1]], 1)
    torch.manual_seed(1)
    net = ABS(44, 44, encoder=encoder, embed=32, source_embed=32, hidden=64, window=3, reach=1)
    optimizer = torch.optim.Adam(net.parameters(), lr)
    for _ in range(epochs):
        for at in torch.randperm(pairs, generator=generator).split(64):
            loss = F.cross_entropy(net(source[at], read[at]).logits.mT, gold[at])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            net.constrain()
    held_out, read, gold = source[pairs:], read[pairs:], gold[pairs:]
    with torch.no_grad(), watch(net) as seen:
        loss = F.cross_entropy(net(held_out, read).logits.mT, gold)
    near = 0.0
    if seen:
        look = seen["encoder.attention"].weights[:, :4].argmax(-1)
        places = (held_out[:, :12] % 2 == 0).nonzero()[:, 1].view(-1, 4)
        near = ((look - places).abs() <= 1).double().mean().item()
    return math.exp(loss), near


@pytest.mark.slow
def test_the_papers_order_of_encoders():
    """The fact sheet's check: attention at least two times below bag of words."""
    none, bag, conv, attention = (
        perplexity(encoder, 3000, 10, 5e-3)
        for encoder in ("none", "bag-of-words", "convolution", "attention")
    )
    assert none[0] > 1.1 * bag[0]
    assert bag[0] > conv[0]
    assert bag[0] > 2 * attention[0]
    assert attention[1] > 0.5
