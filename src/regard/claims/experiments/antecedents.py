"""Does a head know what *its* refers to (C68)? Two nouns before it, and the nearer one is wrong."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from regard import load, watch
from regard.claims.claim import Measured
from regard.claims.experiments.seen import interval
from regard.protocols import EOS
from regard.views.charts import Chart, Matrix

__all__ = ["antecedents"]

OWNERS = tuple(
    """program computer window printer file server device camera user package system
    application""".split()
)
PLACES = ("folder", "office", "list", "network", "menu", "house", "picture", "page", "book", "city")


def antecedents(seeds: Sequence[int]) -> Measured:
    """120 sentences "The OWNER in the PLACE has lost its name.", by `en-de-small`.

    A head is right where *its* gives the owner more weight than the nearer noun. The best head is
    chosen on the sentences of six owners and tried on those of the others.
    """
    loaded = load("en-de-small")
    tokenizer = loaded.tokenizers["source"]
    model: Any = loaded.model
    rows = []
    for owner, place in product(OWNERS, PLACES):
        encoding = tokenizer.encode(f"The {owner} in the {place} has lost its name.")
        with torch.no_grad(), watch(model) as seen:
            model.encode(torch.tensor([[*encoding.ids, EOS]]))
        weights = torch.cat([seen[layer].weights[0] for layer in seen])  # (layers × heads, S, S)
        rows.append(torch.stack([by_word(weights, encoding.words, word) for word in (1, 4)], -1))
    both = torch.stack(rows)  # (sentences, heads, 2): on the owner, on the nearer noun
    right = (both[..., 0] > both[..., 1]).float()
    half = len(PLACES) * len(OWNERS) // 2
    best = int(right[:half].mean(0).argmax())
    values = {
        "right where chosen": [float(right[:half, best].mean())],
        "right": [float(right[half:, best].mean())],
        "all heads": [float(right[half:].mean())],
        "interval": interval(right[half:, best]),
    }
    heads = [str(n + 1) for n in range(right.shape[1])]
    by_owner = right.view(len(OWNERS), len(PLACES), -1).mean(1).tolist()
    shares = Matrix("share right: owners down, heads across", OWNERS, heads, by_owner)
    bars = {"best head": values["right"], "all heads": values["all heads"]}
    return Measured(values, [Chart("the owner has more weight", y="share", bars=bars), shares])


def by_word(weights: Tensor, words: Sequence[int], noun: int) -> Tensor:
    """The weight that *its*, word 7, gives to all pieces of a noun, for each head."""
    its = [n for n, word in enumerate(words) if word == 7]
    pieces = [n for n, word in enumerate(words) if word == noun]
    return weights[:, its].mean(1)[:, pieces].sum(-1)
