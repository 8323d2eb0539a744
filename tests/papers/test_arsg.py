"""Location-aware attention holds on sounds that are longer than those of the training."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard import decode
from regard.metrics.distance import edit_distance
from regard.models.arsg import ARSG
from regard.protocols import BOS, EOS, PAD, Inputs

SYMBOLS = 6


def batch(random, sizes):
    """Symbols that last two to four noisy frames each, with a flag where one begins."""
    texts = [random.integers(0, SYMBOLS, size).tolist() for size in sizes]
    sounds = []
    for text in texts:
        rows = []
        for symbol in text:
            held = np.zeros((int(random.integers(2, 5)), SYMBOLS + 1))
            held[:, symbol] = 1.0
            held[0, SYMBOLS] = 1.0
            rows.append(held)
        sound = np.concatenate(rows)
        sounds.append(torch.from_numpy(sound + random.normal(0, 0.3, sound.shape)).float())
    frames = torch.nn.utils.rnn.pad_sequence(sounds, batch_first=True)
    return Inputs(frames, torch.tensor([len(one) for one in sounds])), texts


def pairs(texts):
    out = [torch.tensor([*(s + 4 for s in text), EOS]) for text in texts]
    out = torch.nn.utils.rnn.pad_sequence(out, batch_first=True, padding_value=PAD)
    into = torch.cat([torch.full((len(out), 1), BOS), out[:, :-1]], 1)
    return into.masked_fill(into == EOS, PAD), out


def trained(attention, updates):
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    model = ARSG(SYMBOLS + 1, SYMBOLS + 4, hidden=48, layers=1, state=64, align=64, maxout=32,
                 attention=attention, filters=10, width=21, scale=None)  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(updates):
        sounds, texts = batch(random, random.integers(5, 11, 32))
        into, out = pairs(texts)
        logits = model(sounds, into).logits
        loss = F.cross_entropy(logits.flatten(0, 1), out.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def error(model, size, count=24):
    """The share of symbols that are wrong in texts of one length."""
    sounds, texts = batch(np.random.default_rng(size), [size] * count)
    decoder = decode.build({"name": "greedy", "max_ratio": 0.0, "max_extra": 2 * size})
    found = decoder(model, sounds)
    wrong = sum(
        edit_distance([t - 4 for t in one[0].tokens if t != EOS], text)
        for one, text in zip(found, texts, strict=True)
    )
    return wrong / (size * count)


@pytest.mark.slow
def test_knowing_where_it_was_carries_attention_beyond_the_lengths_of_training():
    content, hybrid = (trained(kind, 1000) for kind in ("content", "hybrid"))
    short, longer = ([error(m, size) for m in (content, hybrid)] for size in (8, 20))
    assert short[1] < 0.03
    assert longer[1] < 0.15
    assert longer[0] > 2 * longer[1] + 0.05
