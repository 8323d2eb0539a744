"""Masks of directional self-attention."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.mask.base import Mask, offsets
from regard.errors import RequestError

__all__ = ["Directional"]


@dataclass(frozen=True)
class Directional(Mask):
    r"""Only what comes before, or only what comes after; a token never looks at itself.

    .. math:: M^{fw}_{ij} = [\, j < p_i \,], \qquad M^{bw}_{ij} = [\, j > p_i \,],
              \qquad p_i = at + i

    The first token of the forward direction (the last of the backward one) has no allowed keys and
    reads zeros. To mask only the diagonal, use `~Window(0, 0)`.

    Args:
        direction: "forward" looks at earlier keys, "backward" at later ones.

    Shapes:
        the mask (Q, K), or (*batch, Q, K) where `at` has an axis for the batch

    Raises:
        RequestError: for another direction.

    Source: Shen et al. 2018 (DiSAN), section 3.2, where i is the key and j the query; Im and Cho
    2017, section 3.1, for dot products.

    Example:
        >>> mask = Directional("forward")
        >>> mask.dense(3, 3, at=0, device=torch.device("cpu")).int().tolist()
        [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    """

    direction: str

    def __post_init__(self) -> None:
        if self.direction not in ("forward", "backward"):
            raise RequestError(
                f'Directional expected "forward" or "backward", got {self.direction!r}; '
                "~Window(0, 0) blocks the diagonal alone"
            )

    def dense(
        self, queries: int, keys: int, *, at: int | Tensor, device: torch.device
    ) -> Bool[Tensor, "..."]:
        offset = offsets(queries, keys, at, device)  # j - p_i
        return offset < 0 if self.direction == "forward" else offset > 0
