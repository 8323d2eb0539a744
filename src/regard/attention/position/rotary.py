"""Rotary position embeddings."""

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import RequestError

__all__ = ["Rotary"]


class Rotary:
    r"""Rotary positions (Su et al. 2021, eq. 13-16): pairs of features are rotated by the position.

    .. math:: q_i \leftarrow R_{p_i} q_i, \quad k_j \leftarrow R_j k_j, \qquad
              \begin{pmatrix} x_{2t} \\ x_{2t+1} \end{pmatrix} \leftarrow
              \begin{pmatrix} \cos p\theta_t & -\sin p\theta_t \\
                              \sin p\theta_t & \cos p\theta_t \end{pmatrix}
              \begin{pmatrix} x_{2t} \\ x_{2t+1} \end{pmatrix}, \quad \theta_t = b^{-2t/d}

    Because :math:`R_p^\top R_j = R_{j-p}`, products (and distances) depend only on the offset
    :math:`j - p_i`. Keys are rotated by their position in the memory, once, when they enter it, and
    queries by `at` + i. Only queries and keys change, so every kernel of the score supports it.

    Args:
        dim: d, the number of leading features to rotate; None for all.
        base: b.
        pairs: which features form a pair: "interleaved" (2t, 2t + 1), as in the paper; "half"
            (t, t + d/2), as in GPT-NeoX, Llama and their successors.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), D >= d, to the same

    Raises:
        RequestError: for an odd d, or an unknown pairing.
    """

    biases: ClassVar[bool] = False
    turns: ClassVar[bool] = True

    def __init__(
        self,
        dim: int | None = None,
        *,
        base: float = 10000.0,
        pairs: Literal["interleaved", "half"] = "interleaved",
    ) -> None:
        if dim is not None and (dim < 2 or dim % 2):
            raise RequestError(f"Rotary expected an even number of features, got dim={dim}")
        if pairs not in ("interleaved", "half"):
            raise RequestError(f'Rotary expected pairs="interleaved" or "half", got {pairs!r}')
        self.dim, self.base, self.pairs = dim, base, pairs

    def before(
        self,
        query: Float[Tensor, "... q dim"],
        key: Float[Tensor, "... k dim"],
        *,
        at: int | Tensor = 0,
    ) -> tuple[Float[Tensor, "... q dim"], Float[Tensor, "... k dim"]]:
        """Rotate both."""
        return self.turn(query, at), self.turn(key, 0)

    def turn(
        self, x: Float[Tensor, "... n dim"], first: int | Tensor, *, back: bool = False
    ) -> Float[Tensor, "... n dim"]:
        """Rotate rows that are at the positions `first`, `first` + 1, …; or `back` from there."""
        # Angles grow with the position: in fp32 they would be off by 0.004 at 100 000.
        wide = torch.float32 if x.device.type == "mps" else torch.float64
        if isinstance(first, Tensor):
            place = torch.arange(x.shape[-2], device=x.device, dtype=wide)
            place = place + first.to(place)[..., None]
        else:
            place = torch.arange(first, first + x.shape[-2], device=x.device, dtype=wide)
        return self._turned(x, -place if back else place)

    def bias(self, scores: Tensor, query: Tensor, *, at: int | Tensor = 0) -> Tensor:
        """Return the scores unchanged."""
        return scores

    def _turned(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate the features of each row by its position."""
        dim = x.shape[-1] if self.dim is None else self.dim
        if dim % 2 or dim > x.shape[-1]:
            raise RequestError(
                f"Rotary expected an even number of features, at least {dim}, got "
                f"{x.shape[-1]}; dim= says how many turn"
            )
        powers = torch.arange(0, dim, 2, device=x.device, dtype=positions.dtype) / -dim
        angles = positions[..., None] * self.base**powers  # (*batch, N, d / 2)
        dtype = torch.promote_types(x.dtype, torch.float32)
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        whole = dim == x.shape[-1]
        turning = (x if whole else x[..., :dim]).to(dtype)
        if self.pairs == "interleaved":
            a, b = turning[..., 0::2], turning[..., 1::2]
            turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        else:
            a, b = turning.chunk(2, dim=-1)
            turned = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
        turned = turned.to(x.dtype)
        return turned if whole else torch.cat([turned, x[..., dim:]], -1)

    def __eq__(self, other: object) -> bool:
        """Whether it rotates in the same way: a memory of the one serves the other."""
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.dim, self.base, self.pairs))

    def __repr__(self) -> str:
        return f"Rotary(dim={self.dim}, base={self.base}, pairs={self.pairs!r})"
