"""In use a decoder reads its own labels (C43): errors by position, after own and true prefixes."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard import load
from regard.claims.claim import Measured
from regard.claims.experiments.seen import interval
from regard.data.files.registry import read
from regard.data.sources import find
from regard.decode import Greedy
from regard.protocols import BOS, EOS
from regard.views.charts import Chart

__all__ = ["own_labels"]

FIRST, LAST = (0, 1, 2), (5, 6, 7)
"""Places that are early and late in a word; words have 8 phonemes or more."""


@torch.no_grad()
def own_labels(seeds: Sequence[int]) -> Measured:
    """400 words of 8 to 12 phonemes, by `pronunciation-small`: is the phoneme at a place wrong?"""
    loaded = load("pronunciation-small")
    spelling, sounds = loaded.tokenizers["source"], loaded.tokenizers["target"]
    rows = list(read(find("pronunciation/test.tsv.gz"), {"word": 1, "sounds": 2}, header=False))
    pairs = [
        ([*spelling.encode(str(row.fields["word"])).ids, EOS], ids)
        for row in rows
        if 8 <= len(ids := sounds.encode(str(row.fields["sounds"])).ids) <= 12
    ][:400]
    source = pad_sequence([torch.tensor(word) for word, _ in pairs], batch_first=True)
    lengths = torch.tensor([len(word) for word, _ in pairs])
    gold = torch.tensor([target[:8] for _, target in pairs])
    true = wrong_after_true(loaded.model, source, lengths, gold)
    own = wrong_after_own(loaded.model, source, lengths, gold)
    gap = own - true  # (words, 8)
    late = gap[:, LAST].mean(1) - gap[:, FIRST].mean(1)
    lines = {
        name: [(n + 1.0, share) for n, share in enumerate(wrong.mean(0).tolist())]
        for name, wrong in (("own prefix", own), ("true prefix", true))
    }
    values = {
        "wrong after own": own.mean(0).tolist(),
        "wrong after true": true.mean(0).tolist(),
        "interval of the gap": interval(gap.mean(1)),
        "interval of late minus early": interval(late),
    }
    return Measured(values, [Chart("wrong phonemes", "place", "share", lines)])


def wrong_after_true(model: Any, source: Tensor, lengths: Tensor, gold: Tensor) -> Tensor:
    """1 where the likeliest phoneme after the true ones is wrong: (words, 8)."""
    target_in = torch.cat([torch.full((len(gold), 1), BOS), gold[:, :-1]], 1)
    best: Tensor = model(source, target_in, lengths).logits.argmax(-1)
    return (best != gold).float()


def wrong_after_own(model: Any, source: Tensor, lengths: Tensor, gold: Tensor) -> Tensor:
    """1 where greedy decoding has another phoneme, or has ended: (words, 8)."""
    found = [best.tokens[:8] for (best,) in Greedy()(model, source, lengths)]
    own = torch.tensor([[*tokens, *[EOS] * 8][:8] for tokens in found])
    return (own != gold).float()
