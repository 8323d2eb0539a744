"""One head averages (C28): a query has to fetch two marked values in one layer."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHead
from regard.claims.claim import Measured
from regard.claims.experiments.fitting import fit, over_seeds
from regard.views.charts import Chart, Matrix

__all__ = ["two_facts"]

WORDS, LENGTH = 8, 8
A, B = 1, 2
"""The marks; 0 is no mark."""


class TwoFacts(nn.Module):
    """One attention over eight words; both the word marked A and the word marked B are wanted."""

    def __init__(self, heads: int, dim: int = 32) -> None:
        super().__init__()
        self.words, self.marks = nn.Embedding(WORDS, dim), nn.Embedding(3, dim)
        self.query = nn.Parameter(torch.randn(dim))
        self.attention = MultiHead(dim, heads)
        self.out = nn.Linear(dim, 2 * WORDS)

    def forward(self, words: Tensor, marks: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, 2, WORDS) of both facts, and the weights (B, heads, LENGTH)."""
        x = self.words(words) + self.marks(marks)
        read = self.attention(self.query.expand(len(x), 1, -1), x, need_weights=True)
        assert read.weights is not None
        return self.out(read.context[:, 0]).unflatten(-1, (2, WORDS)), read.weights[:, :, 0]


def batch(draw: torch.Generator, size: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """Words, marks at two random places, and the two marked words (A's first)."""
    words = torch.randint(WORDS, (size, LENGTH), generator=draw)
    at = torch.rand(size, LENGTH, generator=draw).argsort(1)[:, :2]
    marks = torch.zeros_like(words).scatter(1, at, torch.tensor([A, B]).expand(size, 2))
    return words, marks, words.gather(1, at)


def two_facts(seeds: Sequence[int]) -> Measured:
    """Accuracy of both facts together with one and with two heads of the same total width."""
    pictures: dict[int, Matrix] = {}

    def one(seed: int) -> dict[str, float]:
        found = {}
        for heads in (1, 2):
            torch.manual_seed(seed)
            model = TwoFacts(heads)

            def loss(draw: torch.Generator, model: TwoFacts = model) -> Tensor:
                words, marks, gold = batch(draw)
                return F.cross_entropy(model(words, marks)[0].flatten(0, 1), gold.flatten())

            fit(model, loss, updates=500, lr=0.01, seed=seed)
            words, marks, gold = batch(torch.Generator().manual_seed(99), 1000)
            with torch.no_grad():
                logits, weights = model(words, marks)
            right = (logits.argmax(-1) == gold).all(1).float().mean()
            found["one head" if heads == 1 else "two heads"] = float(right)
            labels = [f"{w}{' AB'[m]}".strip() for w, m in zip(words[0], marks[0], strict=True)]
            rows = [f"head {n + 1}" for n in range(heads)]
            pictures[heads] = Matrix(f"{heads} head(s)", rows, labels, weights[0].tolist())
            if heads == 1:
                on_a, on_b = (weights[:, 0][marks == mark] for mark in (A, B))
                found["larger weight of one head"] = float(torch.maximum(on_a, on_b).mean())
                found["smaller weight of one head"] = float(torch.minimum(on_a, on_b).mean())
        return found

    values = over_seeds(one, seeds)
    shares = {name: values[name] for name in ("one head", "two heads")}
    bars = Chart("both facts right", y="share", bars=shares)
    return Measured(values, [bars, pictures[1], pictures[2]])
