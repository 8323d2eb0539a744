"""The weights are the output."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

__all__ = ["Pointer"]


class Pointer:
    r"""Point at keys instead of averaging values (Vinyals et al. 2015, eq. 3).

    .. math:: p(j \mid i) = w_{ij}, \qquad \texttt{log\_prob}_{ij} = \log w_{ij}

    The context is the weights, and `Attended.log_prob` their logarithm, computed from the scores in
    log space: finite where weights underflow to zero, minus infinity (without gradient) only for
    masked keys. Losses use the logarithm:
    `nll_loss(log_prob.flatten(0, -2), gold.flatten())`.

    Shapes:
        weights (*batch, Q, K) to context (*batch, Q, K); values are not read
    """

    log_space: ClassVar[bool] = True

    def __call__(
        self,
        weights: Float[Tensor, "*batch query key"],
        value: Tensor,
        *,
        at: int | Tensor = 0,
    ) -> Float[Tensor, "*batch query key"]:
        """Return the weights."""
        return weights

    def __repr__(self) -> str:
        return "Pointer()"
