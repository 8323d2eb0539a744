"""Who learns far dependencies (C20): the first symbol is asked for after n others."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHead
from regard.claims.claim import Measured
from regard.claims.experiments.fitting import fit, over_seeds
from regard.layers.feedforward import FeedForward
from regard.layers.positional_encoding import Sinusoid
from regard.models.bytenet import ResidualBlock
from regard.views.charts import Chart

__all__ = ["far_recall"]

SYMBOLS, DIM = 8, 32
DISTANCES = (8, 64)


class Recurrent(nn.Module):
    """A GRU: the path to the first symbol has n steps."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(DIM, DIM, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, DIM) to the same."""
        states: Tensor = self.gru(x)[0]
        return states


class Dilated(nn.Module):
    """ByteNet's blocks, of dilations 1 to 64: the path has log n steps."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(ResidualBlock(DIM // 2, 3, 2**n, 0.0) for n in range(7)))

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, DIM) to the same."""
        out: Tensor = self.blocks(x)
        return out


class Attending(nn.Module):
    """Two layers of self-attention: the path has one step."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Sinusoid(DIM)
        self.attention = nn.ModuleList(MultiHead(DIM, 4) for _ in range(2))
        self.feed = nn.ModuleList(FeedForward(DIM, 64) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, DIM) to the same; pre-norm."""
        x = self.place(x)
        for attention, feed in zip(self.attention, self.feed, strict=True):
            normed = F.layer_norm(x, (DIM,))
            x = x + attention(normed, normed).context
            x = x + feed(F.layer_norm(x, (DIM,)))
        return x


class Recall(nn.Module):
    """Reads symbols, and says the first at the last place."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.embed, self.body, self.out = nn.Embedding(SYMBOLS, DIM), body, nn.Linear(DIM, SYMBOLS)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) to logits (B, SYMBOLS)."""
        logits: Tensor = self.out(self.body(self.embed(ids))[:, -1])
        return logits


def far_recall(seeds: Sequence[int]) -> Measured:
    """Accuracy after 200 updates, by distance; and the longest distance with 90 % right."""
    kinds = {"GRU": Recurrent, "dilated": Dilated, "attention": Attending}
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}

    def one(seed: int) -> dict[str, float]:
        found = {}
        for name, make in kinds.items():
            longest = 0.0
            for n in DISTANCES:
                torch.manual_seed(seed)
                model = Recall(make())

                def batch(draw: torch.Generator, size: int = 32, n: int = n) -> Tensor:
                    return torch.randint(SYMBOLS, (size, n + 1), generator=draw)

                def loss(draw: torch.Generator, model: Recall = model) -> Tensor:
                    ids = batch(draw)
                    return F.cross_entropy(model(ids), ids[:, 0])

                fit(model, loss, updates=200, lr=3e-3, seed=seed)
                ids = batch(torch.Generator().manual_seed(99), 200)
                with torch.no_grad():
                    share = float((model(ids).argmax(-1) == ids[:, 0]).float().mean())
                lines[name].append((n, share))
                longest = float(n) if share > 0.9 else longest
            found[f"longest by {name}"] = longest
        return found

    values = over_seeds(one, seeds)
    chart = Chart("recall of the first symbol", "symbols between", "share right", lines, log="x")
    return Measured(values, [chart])
