"""The weighted sum."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RequestError
from regard.native.dropout import dropout

__all__ = ["WeightedSum"]

_POWERS = {None: 0.0, "root length": 0.5, "length": 1.0}


class WeightedSum(nn.Module):
    r"""The expected value under the weights: :math:`c_i = m_i^p \sum_j w_{ij} v_j`.

    Args:
        dropout: probability of dropping a weight in training (the attention dropout of Transformer
            toolkits; the Transformer paper has none). Returned and watched weights are those before
            dropout.
        scale: a factor of the context, for :math:`m_i` allowed keys: none (p = 0); "root length",
            :math:`m \sqrt{1/m} = \sqrt m` (Gehring et al. 2017, ConvS2S, section 3.5: a mean of m
            has 1/m of the variance); "length", m: a sum instead of a mean. `attend` applies it
            after any kernel.

    Shapes:
        weights (*batch, Q, K), value (*batch, K, Dv) to context (*batch, Q, Dv)

    Raises:
        RequestError: for another scale.
    """

    def __init__(
        self, dropout: float = 0.0, *, scale: Literal["root length", "length"] | None = None
    ) -> None:
        super().__init__()
        if scale not in _POWERS:
            raise RequestError(
                f'WeightedSum expected scale="root length", "length" or None, got {scale!r}'
            )
        self.dropout, self.scale = dropout, scale

    def forward(
        self,
        weights: Float[Tensor, "*batch query key"],
        value: Float[Tensor, "*#batch key value_dim"],
        *,
        at: int | Tensor = 0,
    ) -> Float[Tensor, "*batch query value_dim"]:
        """Average the values."""
        if self.dropout and self.training:
            weights = dropout(weights, self.dropout)
        if weights.dtype != value.dtype and not torch.is_autocast_enabled(weights.device.type):
            weights = weights.to(value.dtype)
        return torch.matmul(weights, value)

    def rescale(
        self, context: Float[Tensor, "*batch query value_dim"], counts: int | Tensor
    ) -> Float[Tensor, "*batch query value_dim"]:
        """Multiply a context by the power of its number of allowed keys.

        Shapes:
            counts: a number, or a tensor that broadcasts to (*batch, Q, 1)
        """
        power = _POWERS[self.scale]
        if not isinstance(counts, Tensor):
            return context * float(counts**power)
        wide = torch.promote_types(context.dtype, torch.float32)  # a root of integers is float32
        factor: Tensor = counts.to(wide) ** power
        return context * factor.to(context.dtype)

    def extra_repr(self) -> str:
        """Say the dropout and the scale where there are some."""
        said = [f"dropout={self.dropout}"] if self.dropout else []
        return ", ".join(said + ([f"scale={self.scale!r}"] if self.scale else []))
