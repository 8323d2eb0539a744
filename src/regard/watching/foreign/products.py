"""The weights of a softmax of scaled products, computed again from what a fused kernel was given.

w_ij = softmax_j(s q_i · k_j + b_ij)          rows that may look at nothing are zeros
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.lazy_weights import LazyWeights

__all__ = ["LazyProducts", "Products", "spread"]

_COMPARED = 32
"""Rows that are compared with the real output at least."""
_SAMPLED = 16
"""Rows that are compared with the real output where weights are not kept."""


@dataclass(frozen=True)
class Products:
    """What scaled dot-product attention was called with.

    Args:
        mask: bool, true where a query may look, or numbers to add to the scores.
        causal: query i looks at keys 0 to i, as PyTorch's `is_causal` means it.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), value (*batch, K, V), mask broadcasts to
        (*batch, Q, K); keys and values may have fewer heads, each for a group of queries
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None = None
    causal: bool = False
    scale: float | None = None

    @property
    def shape(self) -> torch.Size:
        """That of the weights."""
        lead = torch.broadcast_shapes(
            self.query.shape[:-2], spread(self.key, self.query).shape[:-2]
        )
        return torch.Size((*lead, self.query.shape[-2], self.key.shape[-2]))

    @property
    def hides(self) -> bool:
        """Whether there may be a row that looks at nothing."""
        return self.mask is not None or not self.key.shape[-2]

    def weights(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Rows of the weights, in float32 or what is more precise."""
        exact = torch.promote_types(self.query.dtype, torch.float32)
        query = self.query[..., start:stop, :].to(exact)
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        scores = (query * scale) @ spread(self.key, self.query).to(exact).mT
        if self.causal:
            rows, columns = scores.shape[-2:]
            hidden = torch.ones(rows, columns, dtype=torch.bool, device=scores.device)
            scores = scores.masked_fill_(hidden.triu_(start + 1), -math.inf)
        if self.mask is not None:
            mask = self.mask if self.mask.shape[-2] == 1 else self.mask[..., start:stop, :]
            if mask.dtype == torch.bool:
                scores = scores.masked_fill(~mask, -math.inf)
            else:
                scores = scores + mask
        # In place: a second matrix of this size costs more than the softmax does.
        made = torch.softmax(scores, -1, out=None if scores.requires_grad else scores)
        return made.nan_to_num_(0.0) if self.hides else made

    def read(self, weights: Tensor) -> Tensor:
        """Weights times values."""
        return weights @ spread(self.value, self.query).to(weights.dtype)

    def error(self, weights: Tensor, output: Tensor) -> float:
        """The largest difference between weights times values and what the kernel gave.

        Of long texts, of some rows alone, from the first to the last.
        """
        if not output.numel():
            return 0.0
        every = max(weights.shape[-2] // _COMPARED, 1)
        if every > 1:
            weights, output = weights[..., ::every, :], output[..., ::every, :]
        return float((self.read(weights) - output.to(weights.dtype)).abs().max())

    def sampled_error(self, output: Tensor) -> float:
        """The same of some rows alone, from the first to the last."""
        count = self.query.shape[-2]
        rows = torch.linspace(0, count - 1, min(count, _SAMPLED)).long().unique().tolist()
        errors = [self.error(self.weights(r, r + 1), output[..., r : r + 1, :]) for r in rows]
        return max(errors, default=0.0)

    def kept(self) -> "Products":
        """Without the values, and safe from what is written into a cache of keys later."""
        mask = None if self.mask is None else _own(self.mask)
        hollow = self.value.new_zeros(()).expand(self.value.shape)
        return replace(self, query=_own(self.query), key=_own(self.key), value=hollow, mask=mask)


class LazyProducts(LazyWeights):
    """The weights of one call, recomputed tile by tile on demand."""

    def __init__(self, products: Products) -> None:
        self._products = products.kept()
        self.shape = products.shape

    @torch.no_grad()
    def rows(self, start: int, stop: int) -> Tensor:
        """A block of rows: (*batch, stop - start, K)."""
        part = self._products.weights(start, stop)
        return part.expand(*self.shape[:-2], stop - start, self.shape[-1])

    @torch.no_grad()
    def tile(self, index: tuple[int, ...], rows: slice, columns: slice) -> Tensor:
        """A tile of one matrix of the batch (and head): (rows, columns)."""
        whole, lead = self._products, self.shape[:-2]
        query = whole.query.expand(*lead, *whole.query.shape[-2:])[index]
        keys = spread(whole.key, whole.query)
        mask = whole.mask
        if mask is not None:
            mask = mask.expand(*lead, *mask.shape[-2:])[index]
        one = replace(
            whole, query=query, key=keys.expand(*lead, *keys.shape[-2:])[index], mask=mask
        )
        return one.weights(rows.start, rows.stop)[:, columns]


def spread(grouped: Tensor, query: Tensor) -> Tensor:
    """Keys or values for every head, where one serves a group of heads."""
    if grouped.dim() < 3 or query.dim() < 3:
        return grouped
    heads, groups = query.shape[-3], grouped.shape[-3]
    if heads == groups or groups <= 1 or heads % groups:
        return grouped
    return grouped.repeat_interleave(heads // groups, -3)


def _own(tensor: Tensor) -> Tensor:
    """A copy: a cache of keys is written again at the next step, and says so to nobody."""
    return tensor.detach().clone()
