"""Copying and reversing (the fact sheet's appendix A), and how it is trained and decoded there."""

import torch
from torch import nn
from torch.nn import functional as F

from regard import watch
from regard.decode import Greedy
from regard.layers.reverse import reverse
from regard.protocols import BOS, EOS, PAD

SYMBOLS = 4  # the first symbol's id, behind the four special ones


def strings(lengths, symbols, generator, flip=False):
    """Copies, or reversals: sources (B, S) ending in EOS and target_in, target_out (B, S)."""
    size = int(lengths.max())
    position = torch.arange(size + 1)
    source = torch.randint(
        SYMBOLS, SYMBOLS + symbols, (len(lengths), size + 1), generator=generator
    )
    source = source.masked_fill(position > lengths[:, None], PAD)
    source = source.masked_fill(position == lengths[:, None], EOS)
    target = reverse(source, lengths) if flip else source
    target_in = torch.cat([torch.full((len(lengths), 1), BOS), target[:, :-1]], 1)
    return source, lengths + 1, target_in.masked_fill(target_in == EOS, PAD), target


def train(
    model: nn.Module, updates, lengths, *, symbols, batch=64, lr=2e-3, clip=None, seed=1, flip=False
):
    """Adam on fresh strings; gives the mean loss a token of the last update."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    low, high = lengths
    model.train()
    for _ in range(updates):
        sizes = torch.randint(low, high + 1, (batch,), generator=generator)
        source, with_end, target_in, target_out = strings(sizes, symbols, generator, flip)
        logits = model(source, target_in, with_end).logits
        loss = F.cross_entropy(logits.flatten(0, 1), target_out.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    model.eval()
    return float(loss.detach())


@torch.no_grad()
def copies(model: nn.Module, length, *, symbols, strings_=200, seed=2, flip=False):
    """Exact match and token accuracy of greedy copies (reversals) of `length` symbols."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.full((strings_,), length)
    source, with_end, _, gold = strings(sizes, symbols, generator, flip)
    found = Greedy()(model, source, with_end)
    exact = right = 0
    for (hypothesis,), row in zip(found, gold.tolist(), strict=True):
        exact += hypothesis.tokens == row
        pairs = zip(hypothesis.tokens[:length], row[:length], strict=False)
        right += sum(a == b for a, b in pairs)
    return exact / strings_, right / (strings_ * length)


@torch.no_grad()
def alignment(model: nn.Module, length, *, symbols, seed=3):
    """Share of teacher-forced steps whose largest weight is on the word being copied."""
    generator = torch.Generator().manual_seed(seed)
    source, with_end, target_in, _ = strings(torch.full((100,), length), symbols, generator)
    with watch(model) as seen:
        model(source, target_in, with_end)
    looked = torch.cat(seen["attention"].steps, 1)[:, :length].argmax(-1)  # (B, length)
    return (looked == torch.arange(length)).float().mean().item()


@torch.no_grad()
def perplexity(model: nn.Module, length, *, symbols, seed=4):
    """Of held-out copies, a target token, EOS included."""
    generator = torch.Generator().manual_seed(seed)
    source, with_end, target_in, gold = strings(torch.full((500,), length), symbols, generator)
    logits = model(source, target_in, with_end).logits
    return F.cross_entropy(logits.flatten(0, 1), gold.flatten()).exp().item()
