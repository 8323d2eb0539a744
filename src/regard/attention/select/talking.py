"""Talking heads: scores and weights are mixed between heads."""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.select.base import OverAllKeys, Select, is_over_all_keys
from regard.attention.select.softmax import Softmax
from regard.errors import RequestError

__all__ = ["TalkingHeads"]


class TalkingHeads(OverAllKeys, nn.Module):
    r"""Heads exchange scores before the softmax and weights after it (Shazeer et al. 2020, fig. 1).

    .. math:: w_{h} = \sum_{g} P^w_{gh}\, \mathrm{select}\Big(\sum_{f} P^l_{fg}\, e_{f}\Big)

    Both matrices begin as the identity: the layer begins as plain attention of many heads. The
    paper's layers may also have different numbers of heads before, within and after the softmax;
    here all three are H.

    Args:
        heads: H, the size of the head axis of the scores; with one head no axis is needed.
        select: what makes weights of the mixed scores; the softmax by default.

    Shapes:
        scores (*batch, head, Q, K) to weights (*batch, head, Q, K) with arbitrary sums, zero for
        masked keys; the two matrices (head, head)

    Raises:
        RequestError: for fewer than one head, or a select that does not give weights over all keys.
    """

    sums: ClassVar[str] = "free"

    def __init__(self, heads: int, select: Select | None = None) -> None:
        super().__init__()
        self.select: Select = Softmax() if select is None else select
        if heads < 1:
            raise RequestError(f"TalkingHeads expected at least one head, got {heads}")
        if not is_over_all_keys(self.select):
            raise RequestError(
                "TalkingHeads expected a selection that gives weights over all keys, such as "
                f"Softmax or Sparsemax, got {type(self.select).__name__}"
            )
        self.before = nn.Parameter(torch.eye(heads))
        self.after = nn.Parameter(torch.eye(heads))

    @property
    def heads(self) -> int:
        """The number of heads."""
        return len(self.before)

    def forward(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Mix, select, mix."""
        weights, _ = self.select(self._mixed(self.before, scores), mask=mask)
        return self._mixed(self.after, weights), None

    def _mixed(self, matrix: Tensor, x: Tensor) -> Tensor:
        matrix = matrix.to(x.dtype)
        if self.heads == 1:
            return matrix[0, 0] * x
        if x.dim() < 3 or x.shape[-3] != self.heads:
            raise RequestError(
                f"TalkingHeads({self.heads}) expected scores (*batch, {self.heads}, query, key), "
                f"got {tuple(x.shape)}"
            )
        return torch.einsum("fh,...fqk->...hqk", matrix, x)

    def extra_repr(self) -> str:
        """Say the number of heads and the select."""
        return f"{self.heads}, {self.select}"
