"""Penalties that grow with the distance."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.constant_tables import ConstantTables
from regard.attention.mask import offsets
from regard.errors import RequestError

__all__ = ["DistanceMask"]


class _Distance(ConstantTables):
    """A penalty of slope times distance, with one slope () or one per head (head,)."""

    @property
    @abstractmethod
    def slopes(self) -> Tensor:
        """The penalty per unit of distance: () or (head,)."""

    def before(self, query: Tensor, key: Tensor, *, at: int | Tensor = 0) -> tuple[Tensor, Tensor]:
        """Return queries and keys unchanged."""
        return query, key

    def bias(
        self, scores: Float[Tensor, "*batch q k"], query: Tensor, *, at: int | Tensor = 0
    ) -> Float[Tensor, "*batch q k"]:
        """Subtract slope times distance."""
        distance = offsets(scores.shape[-2], scores.shape[-1], at, scores.device).abs()
        slopes = self.slopes.to(scores)
        return scores - slopes[..., None, None] * distance.to(scores.dtype)


class DistanceMask(_Distance):
    r"""The distance mask (Im & Cho 2017, section 3): a penalty for distant keys.

    .. math:: e_{ij} \leftarrow e_{ij} - \alpha\, |j - p_i|

    Args:
        alpha: :math:`\alpha \ge 0`, a hyper-parameter of the paper.
        learned: make it a parameter with this initial value; the paper's is fixed.

    Shapes:
        scores (*batch, Q, K)

    Raises:
        RequestError: for a negative alpha.
    """

    def __init__(self, alpha: float = 1.5, *, learned: bool = False) -> None:
        super().__init__()
        if not alpha >= 0:
            raise RequestError(
                f"DistanceMask expected alpha >= 0 (0 is plain attention), got {alpha}"
            )
        self.alpha: Tensor
        self._first = float(alpha)
        if learned:
            self.alpha = nn.Parameter(torch.tensor(self._first))
        else:
            self.register_buffer("alpha", torch.tensor(self._first), persistent=False)

    def constant(self, name: str, like: Tensor) -> Tensor:
        """Alpha, as it was given."""
        return torch.tensor(self._first)

    @property
    def slopes(self) -> Tensor:
        """Alpha."""
        return self.alpha

    def extra_repr(self) -> str:
        """Say alpha, and whether it is learned."""
        learned = ", learned=True" if isinstance(self.alpha, nn.Parameter) else ""
        return f"alpha={self._first if self.alpha.is_meta else self.alpha.item():g}{learned}"
