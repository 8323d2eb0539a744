"""Deep encoders that reverse strings, with and without residual connections (C34)."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHead
from regard.claims.claim import Measured
from regard.claims.experiments.fitting import fit, over_seeds
from regard.layers.feedforward import FeedForward
from regard.layers.norm import PreNorm, Residual
from regard.layers.positional_encoding import Sinusoid
from regard.views.charts import Chart

__all__ = ["residuals"]

SYMBOLS, LENGTH, DIM = 16, 12, 32
UPDATES, LAST = 200, 20
"""Updates, and those at the end whose mean loss counts."""


class Straight(Residual):
    """A sub-layer without a residual connection: F(LN(x))."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Normalize; nothing is added."""
        return sublayer(self.norm(x))


class Reverser(nn.Module):
    """An encoder that says at each place the symbol of the place mirrored."""

    def __init__(self, layers: int, residual: type[Residual]) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(SYMBOLS, DIM), Sinusoid(DIM)
        self.attention = nn.ModuleList(MultiHead(DIM, 4) for _ in range(layers))
        self.feed = nn.ModuleList(FeedForward(DIM, 64) for _ in range(layers))
        self.around = nn.ModuleList(residual(DIM) for _ in range(2 * layers))
        self.out = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, SYMBOLS))

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) to logits (B, T, SYMBOLS)."""
        x = self.place(self.embed(ids))
        around = iter(self.around)
        for attention, feed in zip(self.attention, self.feed, strict=True):
            x = next(around)(x, partial(_look, attention))
            x = next(around)(x, feed)
        logits: Tensor = self.out(x)
        return logits


def _look(attention: nn.Module, x: Tensor) -> Tensor:
    context: Tensor = attention(x, x).context
    return context


def losses(layers: int, residual: type[Residual], seed: int) -> list[float]:
    """The loss of each update."""
    torch.manual_seed(seed)
    model = Reverser(layers, residual)

    def loss(draw: torch.Generator) -> Tensor:
        ids = torch.randint(SYMBOLS, (32, LENGTH), generator=draw)
        return F.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())

    return fit(model, loss, updates=UPDATES, lr=2e-3, seed=seed)


def residuals(seeds: Sequence[int]) -> Measured:
    """The training loss of 2 and of 12 layers, with and without residual connections."""
    forms = {
        "2 with": (2, PreNorm),
        "12 with": (12, PreNorm),
        "2 without": (2, Straight),
        "12 without": (12, Straight),
    }
    lines: dict[str, list[tuple[float, float]]] = {}

    def one(seed: int) -> dict[str, float]:
        found = {}
        for name, (layers, residual) in forms.items():
            each = losses(layers, residual, seed)
            found[name] = fmean(each[-LAST:])
            if seed == seeds[0]:
                means = [fmean(each[n : n + LAST]) for n in range(0, UPDATES, LAST)]
                lines[name] = [(LAST * (n + 1), mean) for n, mean in enumerate(means)]
        return found

    values = over_seeds(one, seeds)
    title = "training loss by layers, with and without residual connections"
    return Measured(values, [Chart(title, "updates", "cross-entropy", lines)])
