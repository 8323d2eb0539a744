"""Positions at lengths that training never had (C32): sinusoids and relative vectors."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.claims.claim import Measured
from regard.claims.experiments.fitting import fit, over_seeds, points
from regard.models.transformer import Transformer
from regard.protocols import UNK
from regard.views.charts import Chart

__all__ = ["longer_sums"]

DIGITS, FIRST, DIM = 10, UNK + 1, 48
LENGTHS = (5, 10, 15, 20)
"""Of training."""
ASKED = (20, 40, 80)
UPDATES = 800


def sums(length: int, rows: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Digits x as ids (rows, length), and y_i = x_i + x_{i-1} mod 10."""
    x = torch.randint(DIGITS, (rows, length), generator=draw)
    return x + FIRST, (x + F.pad(x, (1, 0))[:, :-1]) % DIGITS


class Adder(nn.Module):
    """The encoder of a Transformer, which says a digit at each place."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        size = FIRST + DIGITS
        position = {"kind": kind, "clip": 4} if kind == "shaw" else {"kind": kind}
        self.encoder = Transformer(
            size,
            size,
            dim=DIM,
            heads=4,
            layers=2,
            decoder_layers=1,
            ffn_dim=2 * DIM,
            dropout=0.0,
            position=position,
        )
        self.out = nn.Linear(DIM, DIGITS)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) to logits (B, T, DIGITS)."""
        logits: Tensor = self.out(self.encoder.encode(ids).states)
        return logits


def longer_sums(seeds: Sequence[int]) -> Measured:
    """The share of right sums at the longest length of training, at twice and at four times it."""
    kinds = {"sinusoids": "sinusoid", "relative": "shaw"}

    def one(seed: int) -> dict[str, float]:
        found = {}
        for name, kind in kinds.items():
            torch.manual_seed(seed)
            model = Adder(kind)

            def loss(draw: torch.Generator, model: Adder = model) -> Tensor:
                length = LENGTHS[int(torch.randint(len(LENGTHS), (), generator=draw))]
                ids, gold = sums(length, 32, draw)
                return F.cross_entropy(model(ids).flatten(0, 1), gold.flatten())

            fit(model, loss, updates=UPDATES, lr=2e-3, seed=seed, warmup=150)
            draw = torch.Generator().manual_seed(99)
            for length in ASKED:
                ids, gold = sums(length, 50, draw)
                with torch.no_grad():
                    said = model(ids).argmax(-1)
                found[f"{name}, {length}"] = float((said == gold).float().mean())
        return found

    values = over_seeds(one, seeds)
    lines = {kind: points(values, {f"{kind}, {n}": n for n in ASKED}) for kind in kinds}
    chart = Chart("sums of neighbors", "length", "share right", lines, shaded=(5, 20))
    return Measured(values, [chart])
