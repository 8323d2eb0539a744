"""The small check of the fact sheet: copy marked words, most of them outside of the vocabulary."""

import pytest
import torch

from regard.layers.deferred_logits import deferring
from regard.losses.smoothed_cross_entropy import smoothed_cross_entropy
from regard.models.paulus import Paulus
from regard.protocols import BOS, EOS, Inputs

MARK, FIRST, WORDS, KNOWN = 4, 5, 30, 10
V = FIRST + KNOWN  # the other 20 words are outside


def some(rows, size, marked, generator):
    """Texts of `size` different words, some of them behind a mark, and what is to be written."""
    words = torch.stack([torch.randperm(WORDS, generator=generator)[:size] for _ in range(rows)])
    flags = torch.stack(
        [torch.randperm(size, generator=generator)[:marked].sort()[0] for _ in range(rows)]
    )
    copies = torch.full((rows, size + marked + 1), MARK)
    copies[:, -1] = EOS
    shift = torch.zeros(rows, size, dtype=torch.int64).scatter(1, flags, 1).cumsum(1)
    words = FIRST + words
    source = copies.scatter(1, torch.arange(size) + shift, words)
    own = torch.where(words < V, words, V + (words >= V).cumsum(1) - 1)  # in order of occurrence
    copies = copies.scatter(1, torch.arange(size) + shift, own)
    right = own.gather(1, flags)
    out = torch.cat([right, right.new_full((rows, 1), EOS)], 1)
    into = torch.cat([right.new_full((rows, 1), BOS), right], 1)
    lengths = torch.full((rows,), source.shape[1])
    return Inputs(source, lengths, {"copies": copies}), into, out


@pytest.mark.parametrize(
    ("size", "marked", "hidden", "updates"),
    [(6, 2, 16, 60), pytest.param(12, 4, 32, 250, marks=pytest.mark.slow)],
)
def test_it_copies_what_is_marked(size, marked, hidden, updates):
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    model = Paulus(FIRST + WORDS, V, embed=hidden, hidden=hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for update in range(updates):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * (1 - update / updates)
        source, into, out = some(32, size, marked, generator)
        optimizer.zero_grad()
        with deferring():
            logits = model(source, into).logits
        loss = smoothed_cross_entropy(logits, out, normalized=True) / out.numel()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
    source, into, out = some(300, size, marked, torch.Generator().manual_seed(99))
    with torch.no_grad():
        right = (model(source, into).logits.argmax(-1) == out)[:, :marked]
        alone = model(source.values, into.clamp(max=V - 1)).logits.argmax(-1) == out
    assert right.float().mean() > 0.98
    # Without the pointer it cannot write more than what its vocabulary has.
    inside = (out[:, :marked] < V).float().mean()
    assert alone[:, :marked].float().mean() <= inside < 0.5
