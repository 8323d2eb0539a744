"""Which sentence counts depends on its words (the fact sheet's small check of HAN)."""

import pytest
import torch
from torch.nn import functional as F

from regard import watch
from regard.models.han import HAN
from regard.protocols import Inputs

KEY, GOOD, BAD, OTHERS = 4, 5, 6, 20
"""The key word, the two words of polarity, and words that say nothing."""


def documents(count, sentences, words, generator):
    """One sentence has the key word and then the polarity that is the label; all others have a
    random polarity alone."""
    ids = 7 + torch.randint(OTHERS, (count, sentences, words), generator=generator)
    polarity = torch.randint(2, (count, sentences), generator=generator)
    at = torch.randint(1, words, (count, sentences), generator=generator)
    ids.scatter_(2, at[..., None], GOOD + polarity[..., None])
    key = torch.randint(sentences, (count,), generator=generator)
    rows = torch.arange(count)
    ids[rows, key, at[rows, key] - 1] = KEY
    return Inputs(ids), polarity[rows, key], key


def learned(read, updates, seed=1, count=2000, batch=40, rate=3e-3, sentences=6, words=8):
    """Accuracy on new documents, and how often the key sentence has the largest weight."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    model = HAN(7 + OTHERS, 2, embed=24, hidden=16, context=16, read=read)
    source, labels, _ = documents(count, sentences, words, generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(updates):
        rows = torch.randint(count, (batch,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(model(source.rows(rows)).logits, labels[rows]).backward()
        optimizer.step()
    source, labels, key = documents(500, sentences, words, generator)
    with torch.no_grad(), watch(model.eval()) as seen:
        right = model(source).logits.argmax(1) == labels
    found = seen["sentences.read.attention"].weights[:, 0].argmax(1) == key
    return right.double().mean().item(), found.double().mean().item()


@pytest.mark.slow
def test_attention_learns_faster_than_the_mean_and_finds_the_sentence_in_seconds():
    """100 updates, three seeds: right 1.00 and 0.72 to 0.93, found 0.53 to 1 and 0.14 to 0.19."""
    (right, found), (even, by_chance) = (learned(read, 100) for read in ("attention", "mean"))
    assert right > 0.98
    assert even < right
    assert found > 0.4
    assert by_chance < 0.25


@pytest.mark.slow
def test_attention_finds_the_sentence():
    """500 updates, three seeds: both are right, and found is 0.54, 0.58 and 1.00, by chance 0.15.

    Where it is 0.5, the key sentences of one polarity have the largest weight, and documents that
    look elsewhere are of the other. The fact sheet, not run, expected more than 0.90.
    """
    every = [learned("attention", 500, seed) for seed in (1, 2, 3)]
    print(every)
    assert min(right for right, _ in every) > 0.98
    assert min(found for _, found in every) > 0.4
    assert max(found for _, found in every) > 0.9
