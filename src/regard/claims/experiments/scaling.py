"""Why scores are divided by the root of d (C16, C17): variance, saturation, and a training."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Dot, MultiHead, ScaledDot, Score
from regard.claims.claim import Measured
from regard.claims.experiments.fitting import fit, over_seeds
from regard.views.charts import Chart

__all__ = ["saturation", "variance"]

SIZES = (4, 16, 64, 256, 1024)


def variance(seeds: Sequence[int]) -> Measured:
    """Variance of 10,000 scores of unit-variance queries and keys, by d."""
    ways: dict[str, Score] = {"q·k": Dot(), "q·k / √d": ScaledDot()}
    found: dict[str, list[float]] = {}
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for seed in seeds:
        draw = torch.Generator().manual_seed(seed)
        for name, score in ways.items():
            layer, each = Attention(score=score), []
            for d in SIZES:
                query, key = (torch.randn(10_000, 1, d, generator=draw) for _ in range(2))
                each.append(layer.scores(query, key).var().item())
            lines[name] += zip(SIZES, each, strict=True)
            found.setdefault(f"slope of {name}", []).append(slope(SIZES, each))
    chart = Chart("variance of a score", "d", "variance", lines=lines, log="xy")
    return Measured(found, [chart])


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent b of y = a x^b, by least squares of the logarithms."""
    logs = torch.tensor([x, y], dtype=torch.float64).log()
    centered = logs - logs.mean(1, keepdim=True)
    return float((centered[0] @ centered[1]) / (centered[0] @ centered[0]))


class Lookup(nn.Module):
    """Finds the value beside the key that equals the query: 8 keys of 32 words, 8 values."""

    def __init__(self, score: Score, dim: int = 512) -> None:
        super().__init__()
        self.words = nn.Embedding(32, dim)  # N(0, 1), so that scores have variance d
        self.values = nn.Embedding(8, dim)
        self.attention = MultiHead(dim, 1, Attention(score=score))
        self.out = nn.Linear(dim, 8)

    def loss(self, draw: torch.Generator, batch: int = 32) -> Tensor:
        """Cross-entropy on fresh tables."""
        keys = torch.rand(batch, 32, generator=draw).argsort(1)[:, :8]  # none twice
        values = torch.randint(8, (batch, 8), generator=draw)
        at = torch.randint(8, (batch, 1), generator=draw)
        query = self.words(keys.gather(1, at))
        read = self.attention(query, self.words(keys), self.values(values)).context
        return F.cross_entropy(self.out(read[:, 0]), values.gather(1, at)[:, 0])


def saturation(seeds: Sequence[int]) -> Measured:
    """The softmax's Jacobian; its size by d; then one model trained with and without the root."""
    ways: dict[str, Score] = {"unscaled": Dot(), "scaled": ScaledDot()}
    curves: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    sizes: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}

    def one(seed: int) -> dict[str, float]:
        found = {"error of a(δ − a)": jacobian(torch.randn(16))[1]}
        for name, score in ways.items():
            for d in SIZES:
                rows = Attention(score=score).scores(torch.randn(50, d), torch.randn(16, d))
                sizes[name].append((d, sum(jacobian(row)[0] for row in rows) / 50))
            torch.manual_seed(seed)
            model = Lookup(score)
            losses = fit(model, model.loss, updates=120, lr=1e-3, seed=seed)
            curves[name] += [(n, sum(losses[n : n + 10]) / 10) for n in range(0, 120, 10)]
            found[f"loss {name}"] = sum(losses) / len(losses)
            found[f"Jacobian {name}"] = sizes[name][-2][1]  # at d = 256
        return found

    values = over_seeds(one, seeds)
    charts = [
        Chart("norm of the Jacobian of 16 weights", "d", lines=sizes, log="xy"),
        Chart("training at d = 512", "updates", "loss", lines=curves),
    ]
    return Measured(values, charts)


def jacobian(scores: Tensor) -> tuple[float, float]:
    """The norm of the softmax's Jacobian, and how far autograd's is from a_i (δ_ij − a_j)."""
    a = scores.softmax(-1)
    said = torch.diag(a) - a[:, None] * a
    true = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    return float(true.norm()), float((said - true).abs().max())
