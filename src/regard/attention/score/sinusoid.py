"""Transformer-XL's score: content, distance, and a bias for each."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["RelativeSinusoid", "relative_shift"]


class RelativeSinusoid(nn.Module):
    r"""Dot products with keys and with sinusoids of the distance (Dai et al. 2019, section 3.3).

    .. math:: e_{ij} = \frac{1}{\sqrt d} \Big(
              \underbrace{q_i^\top k_j}_{(a)} + \underbrace{q_i^\top W R_{p_i - j}}_{(b)} +
              \underbrace{u^\top k_j}_{(c)} + \underbrace{v^\top W R_{p_i - j}}_{(d)} \Big),
              \quad p_i = at + i

    (b) and (d) are computed once for each of the Q + K distances and moved to the pairs by the
    relative shift of the paper's appendix B, so there is no vector per pair. R has all sines
    first and then all cosines, as in the authors' code. Distances are query minus key (Shaw's are
    key minus query); the paper's are never negative, under `Causal()`.

    Args:
        dim: d, the size of queries and keys (of one head).
        features: the size of R, d_model in the paper; `dim` times `heads` by default.
        heads: the number of heads with their own u, v and W, as in the paper; None shares them.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D) to (*batch, Q, K); u and v ([head,] D), W
        ([head,] D, features)
    """

    def __init__(self, dim: int, features: int | None = None, *, heads: int | None = None) -> None:
        super().__init__()
        own = () if heads is None else (heads,)
        size = dim * (1 if heads is None else heads) if features is None else features
        self.u = nn.Parameter(0.02 * torch.randn(*own, dim))
        self.v = nn.Parameter(0.02 * torch.randn(*own, dim))
        bound = math.sqrt(6 / (dim + size))  # Glorot, for each head
        self.weight = nn.Parameter(torch.empty(*own, dim, size).uniform_(-bound, bound))  # W

    @property
    def heads(self) -> int | None:
        """The number of heads with their own parameters."""
        return self.u.shape[0] if self.u.dim() == 2 else None

    def prepare(self, key: Tensor) -> Tensor:
        """The keys unchanged."""
        return key

    def forward(
        self,
        query: Float[Tensor, "*#batch q dim"],
        key: Float[Tensor, "*#batch k dim"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """The four terms: (a) and (c) in one product, (b) and (d) in another."""
        queries, keys = query.shape[-2], key.shape[-2]
        u, v, weight = (x.to(query.dtype) for x in (self.u, self.v, self.weight))
        if self.heads is not None:
            u, v = u[:, None], v[:, None]  # (head, 1, D)
        content = torch.matmul(query + u, key.transpose(-2, -1))
        # From the largest distance down, and one more, which the shift needs.
        steps = torch.arange(queries - 1, -keys - 1, -1, device=query.device)
        distance = steps + (at.to(query.device)[..., None] if isinstance(at, Tensor) else at)
        table = sinusoids(distance, weight.shape[-1]).to(query.dtype)  # ([*batch,] Q + K, features)
        places = torch.matmul(table, weight.transpose(-2, -1))  # ([*batch,] [head,] Q + K, D)
        position = relative_shift(torch.matmul(query + v, places.transpose(-2, -1)), keys)
        return (content + position) / math.sqrt(query.shape[-1])

    def extra_repr(self) -> str:
        """Say the shape of W."""
        return f"weight={tuple(self.weight.shape)}"


def sinusoids(distance: Tensor, size: int) -> Float[Tensor, "*batch n size"]:
    r"""R: :math:`\sin(d / 10000^{2k/n})` for all k, then the cosines (of odd sizes one fewer)."""
    wide = torch.float32 if distance.device.type == "mps" else torch.float64
    half = torch.arange(0, size, 2, device=distance.device, dtype=wide)
    angle = distance[..., None].to(wide) / 10000 ** (half / size)
    return torch.cat([angle.sin(), angle.cos()], -1)[..., :size]


def relative_shift(x: Float[Tensor, "*batch q n"], keys: int) -> Float[Tensor, "*batch q k"]:
    """Shift distances to pairs: row i starts at column Q - 1 - i (Dai et al., app. B).

    Shapes:
        x (*batch, Q, Q + K), distances falling from Q - 1 to -K, to (*batch, Q, K)

    Example:
        >>> relative_shift(torch.tensor([[1.0, 0.0, -1.0, -2.0]] * 2), 2).tolist()
        [[0.0, -1.0], [1.0, 0.0]]
    """
    queries, size = x.shape[-2:]
    if not queries:
        return x[..., :keys]
    flat = x.flatten(-2)[..., queries - 1 : queries - 1 + queries * (size - 1)]
    return flat.reshape(*x.shape[:-1], size - 1)[..., :keys]
