"""The encoder of the distance-based self-attention network."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention, Directional, DistanceMask, Mask, MultiHead, WeightedSum
from regard.layers.dropout import dropout
from regard.layers.feedforward import FeedForward

__all__ = ["DistanceBlock", "DistanceEncoder"]


class DistanceBlock(nn.Module):
    r"""Directional self-attention with a distance penalty (Im and Cho 2017, section 3).

    .. math:: H &= \mathrm{LN}(\mathrm{MultiHead}(S)), \quad head = \mathrm{softmax}\Big(
                  \frac{Q K^\top}{\sqrt{d_k}} + M_{dir} - \alpha |i - j|\Big) V \\
              F &= \sigma(W^S S + W^H H + b), \qquad
                  G = F \odot W^S S + (1 - F) \odot W^H H \\
              S' &= \mathrm{LN}(G + \mathrm{FFN}(G))

    The fusion gate replaces a residual. The first token of the forward direction (the last of the
    backward one) has no allowed keys: its attention is zero. No positions are added; without the
    distance penalty a block knows which tokens come earlier, but not how far away they are.

    At the paper's size, 300 and 5 heads, a block has 1,263,000 parameters. A public
    re-implementation (SAN4NLI-pytorch) has 1,264,020, because of terms that are not in the
    equations: a bias after the heads (300), a LayerNorm of queries, keys and values (2 · 60) and
    one in the gate (2 · 300). With either, the whole model has the 4.7 million that the paper
    reports.

    Args:
        dim: of the tokens.
        heads: how many; each of size dim / heads.
        direction: "forward" looks at earlier tokens, "backward" at later ones; never at itself.
        hidden: of the feed-forward layer; 4 dim where not given.
        alpha: the penalty per unit of distance.
        dropout: on the attention's and the feed-forward layer's output.

    Shapes:
        x (*batch, T, dim) to the same
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        direction: str,
        *,
        hidden: int | None = None,
        alpha: float = 1.5,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        inner = Attention(
            position=DistanceMask(alpha), mask=Directional(direction), read=WeightedSum()
        )
        self.attention = MultiHead(dim, heads, inner, role="self")
        self.attention_norm = nn.LayerNorm(dim)
        self.stay = nn.Linear(dim, dim, bias=False)  # W^S
        self.change = nn.Linear(dim, dim, bias=False)  # W^H
        self.bias = nn.Parameter(torch.zeros(dim))
        self.feedforward = FeedForward(dim, 4 * dim if hidden is None else hidden)
        self.norm = nn.LayerNorm(dim)

    def forward(
        self, x: Float[Tensor, "*batch t dim"], mask: Mask | None = None
    ) -> Float[Tensor, "*batch t dim"]:
        """One block; `mask` masks the padding."""
        found = self._drop(self.attention(x, x, mask=mask).context)
        stay, change = self.stay(x), self.change(self.attention_norm(found))
        gate = torch.sigmoid(stay + change + self.bias).to(change.dtype)
        fused = torch.lerp(change, stay, gate)
        out: Tensor = self.norm(fused + self._drop(self.feedforward(fused)))
        return out

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class DistanceEncoder(nn.Module):
    """A forward and a backward block, concatenated.

    Args:
        dim, heads, hidden, alpha, dropout: of both blocks, see `DistanceBlock`.

    Shapes:
        x (*batch, T, dim) to (*batch, T, 2 * dim), the forward direction first

    Example:
        >>> from regard.attention import Lengths
        >>> encoder = DistanceEncoder(8, 2)
        >>> encoder(torch.randn(2, 5, 8), Lengths(torch.tensor([5, 3]))).shape
        torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        dim: int = 300,
        heads: int = 5,
        *,
        hidden: int | None = None,
        alpha: float = 1.5,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.forth, self.back = (
            DistanceBlock(dim, heads, way, hidden=hidden, alpha=alpha, dropout=dropout)
            for way in ("forward", "backward")
        )

    def forward(
        self, x: Float[Tensor, "*batch t dim"], mask: Mask | None = None
    ) -> Float[Tensor, "*batch t both"]:
        """Both directions."""
        return torch.cat([self.forth(x, mask), self.back(x, mask)], -1)
