"""The perceptron score with features of the previous weights."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.score.additive import Additive
from regard.errors import RequestError

__all__ = ["LocationAware"]


class LocationAware(Additive):
    r"""The hybrid score of speech recognition (Chorowski et al. 2015, eq. 8-9).

    .. math:: e_{ij} = v^\top \tanh(W q_i + U k_j + V f_{ij} + b), \qquad f_i = F * \alpha_{i-1}

    The filters F are convolved with the previous weights, so the score needs a carry:
    `PreviousWeights(first=0)` as in the paper (all-zero weights would give no features at the first
    step), or `Coverage()`.

    Args:
        filters: the number of filters, k (10 in the paper).
        width: their odd width in keys (201 in the authors' code); the ends are padded with zeros.
        bias: b inside the tanh; F, V and W have none.
        heads: as `Additive`; filters are shared.

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, key_dim), weights as features
        (*batch, Q, K, 1), to (*batch, Q, K)

    Raises:
        RequestError: for an even width.
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        hidden: int,
        *,
        filters: int = 10,
        width: int = 201,
        bias: bool = True,
        heads: int = 1,
    ) -> None:
        if width < 1 or width % 2 == 0:
            raise RequestError(
                f"LocationAware expected an odd width, as many keys on both sides, got {width}"
            )
        super().__init__(query_dim, key_dim, hidden, bias=bias, features=filters, heads=heads)
        self.filters = nn.Conv1d(1, filters, width, padding=width // 2, bias=False)

    @property
    def feature_dim(self) -> int:
        """One number per key: its weight."""
        return 1

    def shown(self, features: Tensor) -> Tensor:
        """Filters over the weights, projected: (*batch, Q, K, 1) to (*batch, Q, K, hidden)."""
        *rows, keys, _ = features.shape
        assert self.features is not None
        if features.numel() == 0:
            return features.new_zeros(*rows, keys, self.features.out_features)
        weight, middle = self.filters.weight, self.filters.kernel_size[0] // 2
        reach = middle
        if not torch.compiler.is_exporting():  # a graph is for any number of keys
            reach = min(middle, keys - 1)  # what lies further out only ever meets zeros
        weight = weight[..., middle - reach : middle + reach + 1]
        signal = features.reshape(math.prod(rows), 1, keys).to(weight.dtype)
        found = F.conv1d(signal, weight, padding=reach)  # (rows, filters, K)
        added: Tensor = self.features(found.transpose(1, 2))
        return added.reshape(*rows, keys, -1)
