"""Encoders that reverse strings, with and without a warm-up of the learning rate (C38)."""

from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.claims.claim import Measured
from regard.claims.experiments.depth import LENGTH, SYMBOLS, Reverser
from regard.claims.experiments.fitting import fit, over_seeds
from regard.layers.norm import PostNorm, PreNorm, Residual
from regard.views.charts import Chart

__all__ = ["warm_up"]

LAYERS, UPDATES, LAST = 12, 400, 20
"""Layers and updates, and those at the end whose mean loss counts."""
RATES = (0.001, 0.003)
"""Of Adam; the better one counts, of each form and seed."""
WARMUP = 100

FORMS: dict[str, tuple[type[Residual], int]] = {
    "post-norm": (PostNorm, 0),
    "post-norm, warmed up": (PostNorm, WARMUP),
    "pre-norm": (PreNorm, 0),
    "pre-norm, warmed up": (PreNorm, WARMUP),
}


def losses(residual: type[Residual], warmup: int, rate: float, seed: int) -> list[float]:
    """The loss of each update."""
    torch.manual_seed(seed)
    model = Reverser(LAYERS, residual)

    def loss(draw: torch.Generator) -> Tensor:
        ids = torch.randint(SYMBOLS, (32, LENGTH), generator=draw)
        return F.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())

    return fit(model, loss, updates=UPDATES, lr=rate, seed=seed, warmup=warmup)


def warm_up(seeds: Sequence[int]) -> Measured:
    """The training loss of twelve layers, post-norm and pre-norm, at the better rate of two."""
    lines: dict[str, list[tuple[float, float]]] = {}

    def one(seed: int) -> dict[str, float]:
        found = {}
        for name, (residual, warmup) in FORMS.items():
            tried = [losses(residual, warmup, rate, seed) for rate in RATES]
            each = min(tried, key=lambda curve: fmean(curve[-LAST:]))
            found[name] = fmean(each[-LAST:])
            if seed == seeds[0]:
                means = [fmean(each[n : n + LAST]) for n in range(0, UPDATES - LAST + 1, LAST)]
                lines[name] = [(LAST * (n + 1), mean) for n, mean in enumerate(means)]
        return found

    values = over_seeds(one, seeds)
    title = "training loss with and without warm-up"
    return Measured(values, [Chart(title, "updates", "cross-entropy", lines)])
