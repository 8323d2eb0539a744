"""Minimum risk training: the risk by hand, and that training takes it down."""

import math

import numpy as np
import pytest
import torch

from regard import tasks
from regard.data.batch import PairBatch
from regard.decode.sample import Sample
from regard.errors import RequestError
from regard.losses.minimum_risk import Risk, sentence_bleu
from regard.models.rnnsearch import RNNsearch
from regard.protocols import BOS, EOS, PAD
from tests.contract.battery import SIZE, build, mixed, pairs


def batch_of(made):
    count = int(made.target_lengths.sum())
    rows = list(range(len(made.source)))
    return PairBatch(made.source, made.lengths, made.target_in, made.target_out, rows, count)


def bleu_by_hand(output, right):
    """Precisions counted by crossing off; geometric mean of four; brevity penalty."""
    product = 1.0
    for n in (1, 2, 3, 4):
        left = [right[i : i + n] for i in range(len(right) - n + 1)]
        there = [output[i : i + n] for i in range(len(output) - n + 1)]
        hits = 0
        for gram in there:
            if gram in left:
                left.remove(gram)
                hits += 1
        one = 0 if n == 1 else 1
        product *= (hits + one) / (len(there) + one)
    short = math.exp(1 - len(right) / len(output)) if len(output) < len(right) else 1.0
    return short * product**0.25


def test_sentence_bleu_by_hand():
    random = np.random.default_rng(1)
    for _ in range(60):
        output, right = (random.integers(4, 8, random.integers(1, 9)).tolist() for _ in range(2))
        assert sentence_bleu(output, right) == pytest.approx(bleu_by_hand(output, right))
    assert sentence_bleu([], [4]) == sentence_bleu([4], []) == sentence_bleu([5], [4]) == 0.0
    assert sentence_bleu([], []) == 1.0


def test_the_risk_by_hand():
    model, batch = build("rnnsearch"), batch_of(mixed())
    right = [[i for i in row if i not in (EOS, PAD)] for row in batch.target_out.tolist()]
    spaces = [
        [(*gold, EOS), (5, 6, EOS), (4, 4, 4, 4)][: 2 + n % 2] for n, gold in enumerate(right)
    ]
    found = Risk(alpha=0.3).risks(model, batch, spaces, right)
    for row, space in enumerate(spaces):
        source = batch.source[row : row + 1, : batch.source_lengths[row]]
        powers, losses = [], []
        for y in space:
            scores = model(source, torch.tensor([[BOS, *y[:-1]]])).logits[0].log_softmax(-1)
            total = sum(float(scores[t, token]) for t, token in enumerate(y))
            powers.append(math.exp(0.3 * total))
            plain = [i for i in y if i != EOS]
            losses.append(1 - (bleu_by_hand(plain, right[row]) if plain and right[row] else
                               float(not plain and not right[row])))  # fmt: skip
        expected = sum(p * d for p, d in zip(powers, losses, strict=True)) / sum(powers)
        assert float(found[row]) == pytest.approx(expected, abs=1e-6)


def test_it_is_mixed_with_the_cross_entropy_and_counted_by_sentences():
    model, batch = build("rnnsearch"), batch_of(mixed())
    of = tasks.load("translation")
    plain, count = of().loss(model, batch, 0)
    risk, _ = of(risk={"weight": 1.0, "samples": 3}).loss(model, batch, 0)
    half, _ = of(risk={"weight": 0.25, "samples": 3}).loss(model, batch, 0)
    assert float(half) == pytest.approx(0.75 * float(plain) + 0.25 * float(risk), rel=1e-6)
    assert 0 < float(risk) / count < 1  # a mean of 1 - BLEU
    other, _ = of(risk={"weight": 1.0, "samples": 3}).loss(model, batch, 1)
    assert float(other) != float(risk)  # another update, other samples
    later, _ = of(risk={"samples": 3, "after": 5}).loss(model, batch, 4)
    assert torch.equal(later, plain)


def expected_bleu(model, batch, right):
    """The mean over 100 fresh samples of each sentence."""
    found = Sample(n_best=100, seed=999)(model, batch.source, batch.source_lengths)
    each = [
        sentence_bleu([i for i in h.tokens if i != EOS], gold)
        for hypotheses, gold in zip(found, right, strict=True)
        for h in hypotheses
    ]
    return sum(each) / len(each)


@pytest.mark.slow
def test_it_raises_the_expected_bleu_of_what_the_model_writes():
    torch.manual_seed(1)
    made = batch_of(pairs([4, 5, 6, 5], [5, 6, 5, 6]))
    right = [[i for i in row if i not in (EOS, PAD)] for row in made.target_out.tolist()]
    model = RNNsearch(SIZE, SIZE, embed=12, hidden=16, align=12, maxout=12, scale=None)
    task = tasks.load("translation")(risk={"samples": 20, "alpha": 0.5, "gold": False})
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(25):  # some way to where every sentence is known
        loss, count = task.loss(model, made)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    before = expected_bleu(model, made, right)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for update in range(40):
        loss, count = task.loss(model, made, update)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    after = expected_bleu(model, made, right)
    print(before, after)
    assert before < 0.85
    assert after > before + 0.1


def test_what_makes_no_sense_is_refused():
    of = tasks.load("translation")
    with pytest.raises(RequestError, match=r"task\.risk\.weight: expected a number from 0 to 1"):
        of(risk={"weight": 2.0})
    with pytest.raises(RequestError, match=r"task\.risk\.samples: expected a number from 1 to"):
        of(risk={"samples": 0})
