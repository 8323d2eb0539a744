"""The small check of copying: write the marked words of a text, most of which have no id.

    source   12 words of 30, four of them behind a mark
    target   these four in order; 20 of the 30 words are outside the output's vocabulary

Fact sheet `perception-and-reading`, section 5 (b).
"""

import torch
from torch import nn

from regard.data.batch import PairBatch
from regard.losses.smoothed_cross_entropy import smoothed_cross_entropy
from regard.protocols import BOS, EOS, PAD, UNK, Inputs

MARK, KNOWN, WORDS = UNK + 1, 10, 30
SOURCE, TARGET = UNK + 2 + WORDS, UNK + 2 + KNOWN
"""Sizes of both vocabularies: specials, the mark, then words."""


def batch_of(size: int, generator: torch.Generator, words: int = 12, marked: int = 4) -> PairBatch:
    """Texts with marks in front of some words."""
    sources, copies, targets = [], [], []
    for _ in range(size):
        text = torch.randint(WORDS, (words,), generator=generator).tolist()
        chosen = set(torch.randperm(words, generator=generator)[:marked].tolist())
        own: dict[int, int] = {}
        source, copied, target = [], [], []
        for place, word in enumerate(text):
            known = UNK + 2 + word
            if word >= KNOWN:
                known = own.setdefault(word, TARGET + len(own))
            if place in chosen:
                source.append(MARK)
                copied.append(MARK)
                target.append(known)
            source.append(UNK + 2 + word)
            copied.append(known)
        sources.append([*source, EOS])
        copies.append([*copied, EOS])
        targets.append([*target, EOS])
    source, copied, out = (torch.tensor(rows) for rows in (sources, copies, targets))
    lengths = torch.full((size,), source.shape[1])
    start = torch.full((size, 1), BOS)
    return PairBatch(
        Inputs(source, lengths, {"copies": copied}), lengths,
        torch.cat([start, out[:, :-1]], 1), out, list(range(size)), out.numel(),
    )  # fmt: skip


def accuracy(model: nn.Module, batch: PairBatch) -> float:
    """Share of target tokens that greedy reading of right ones gives."""
    with torch.no_grad():
        found = model(batch.source, batch.target_in, batch.source_lengths).logits.argmax(-1)
    real = batch.target_out != PAD
    return float((found == batch.target_out)[real].float().mean())


def train(
    model: nn.Module, updates: int, *, size: int = 32, lr: float = 3e-3, words: int = 12,
    marked: int = 4,
) -> float:  # fmt: skip
    """Train on fresh texts; the accuracy on 256 others."""
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, updates + 1)
    for _ in range(updates):
        batch = batch_of(size, generator, words, marked)
        logits = model(batch.source, batch.target_in, batch.source_lengths).logits
        loss = smoothed_cross_entropy(logits, batch.target_out, normalized=True) / batch.count
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        schedule.step()
    return accuracy(model.eval(), batch_of(256, generator, words, marked))
