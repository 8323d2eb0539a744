"""How far convolutions see, by the number of their layers (C24)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.claims.claim import Measured
from regard.claims.experiments.far_recall import DIM, SYMBOLS, Recall
from regard.claims.experiments.fitting import fit, over_seeds
from regard.models.bytenet import ResidualBlock
from regard.views.charts import Chart

__all__ = ["reach_by_layers"]

LAYERS = (1, 2, 4, 10)
DISTANCES = (2, 4, 8, 16)
UPDATES = 200


def stack(layers: int) -> nn.Module:
    """Convolutions of width 3 without dilation: n layers see 2 n symbols back."""
    return nn.Sequential(*(ResidualBlock(DIM // 2, 3, 1, 0.0) for _ in range(layers)))


def share_right(layers: int, distance: int, seed: int) -> float:
    """Accuracy on the first symbol at the last place, after training for this distance."""
    torch.manual_seed(seed)
    model = Recall(stack(layers))

    def batch(draw: torch.Generator, size: int = 32) -> Tensor:
        return torch.randint(SYMBOLS, (size, distance + 1), generator=draw)

    def loss(draw: torch.Generator) -> Tensor:
        ids = batch(draw)
        return F.cross_entropy(model(ids), ids[:, 0])

    fit(model, loss, updates=UPDATES, lr=3e-3, seed=seed)
    ids = batch(torch.Generator().manual_seed(99), 200)
    with torch.no_grad():
        return float((model(ids).argmax(-1) == ids[:, 0]).float().mean())


def reach_by_layers(seeds: Sequence[int]) -> Measured:
    """The longest distance at which 90 % are right, of 1 to 10 layers."""
    lines: dict[str, list[tuple[float, float]]] = {f"{n} layers": [] for n in LAYERS}

    def one(seed: int) -> dict[str, float]:
        found = {}
        for layers in LAYERS:
            name, longest = f"{layers} layers", 0.0
            for distance in DISTANCES:
                share = share_right(layers, distance, seed)
                lines[name].append((distance, share))
                longest = float(distance) if share > 0.9 else longest
            found[name] = longest
        return found

    values = over_seeds(one, seeds)
    title = "recall of the first symbol by convolutions of width 3"
    return Measured(values, [Chart(title, "symbols between", "share right", lines, log="x")])
