"""Masks by the structure of a sequence: blocks, and documents packed into one row."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.mask.base import FAR, Mask, integers, take, whole
from regard.errors import RequestError

__all__ = ["Block", "Documents"]


@dataclass(frozen=True)
class Block(Mask):
    r"""Only keys of the query's own block, and of `left` blocks before and `right` after it.

    .. math:: M_{ij} = \Big[\, \lfloor p_i/s \rfloor - left \le \lfloor j/s \rfloor
                               \le \lfloor p_i/s \rfloor + right \,\Big], \quad p_i = at + i

    `Block(s)` is block-diagonal (local attention by blocks: Liu et al. 2018, section 4.2.4; Shen et
    al. 2018, Bi-BloSAN); `Block(s) & Causal()` is the same without the future;
    `Block(s, left=None)` is block-causal, where a block sees itself and all previous blocks;
    `Block(s, left=1) & Causal()` is the local attention of a decoder, with a look-back of one
    block.

    Args:
        size: s, the number of positions of a block.
        left, right: the number of additional blocks on each side; None for all.

    Shapes:
        the mask (Q, K), or (*batch, Q, K) where `at` has an axis for the batch

    Raises:
        RequestError: for a size below 1, or a side below 0.
    """

    size: int
    left: int | None = 0
    right: int | None = 0

    def __post_init__(self) -> None:
        for name in ("size", "left", "right"):
            whole(f"Block expected {name}", getattr(self, name))
        if self.size < 1:
            raise RequestError(f"Block expected a size of at least 1, got {self.size}")
        for name, value in (("left", self.left), ("right", self.right)):
            if value is not None and value < 0:
                raise RequestError(f"Block expected {name} >= 0 or None, got {value}")
            if value is not None and value > FAR:
                object.__setattr__(self, name, FAR)

    def dense(
        self, queries: int, keys: int, *, at: int | Tensor, device: torch.device
    ) -> Bool[Tensor, "..."]:
        key = torch.arange(keys, device=device) // self.size
        offset = key - _places(queries, at, device)[..., None] // self.size  # ([*batch,] Q, K)
        allowed = torch.ones_like(offset, dtype=torch.bool)
        if self.left is not None:
            allowed = allowed & (offset >= -self.left)
        if self.right is not None:
            allowed = allowed & (offset <= self.right)
        return allowed


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    r"""Only keys of the query's own document, for several documents packed into one row.

    .. math:: M_{ij} = [\, d_j = d_{p_i} \ge 0 \,], \quad p_i = at + i

    Documents need not be contiguous. Negative ids are padding: it looks at nothing and is not
    looked at.

    Args:
        ids: the document of each position; at least as many as there are keys.
        queries: the documents of the queries, if these are not positions among the keys
            (cross-attention between packed rows); `at` then counts in them.

    Shapes:
        ids (*batch, K) or (K,), queries (*batch, Q); the mask (*batch, Q, K)

    Raises:
        RequestError: for ids that are no tensor of integers.

    Source: none in particular; used to train language models on packed rows.
    """

    ids: Int[Tensor, "*batch k"]
    queries: Int[Tensor, "*batch q"] | None = None

    def __post_init__(self) -> None:
        integers("Documents expected ids", "(*batch, K)", self.ids)
        if self.queries is not None:
            integers("Documents expected the ids of queries", "(*batch, Q)", self.queries)

    def dense(
        self, queries: int, keys: int, *, at: int | Tensor, device: torch.device
    ) -> Bool[Tensor, "..."]:
        ids = self.ids.to(device)
        if ids.shape[-1] < keys:
            raise RequestError(
                f"Documents expected the document of each of {keys} keys, got {ids.shape[-1]}"
            )
        own = ids if self.queries is None else self.queries.to(device)
        if isinstance(at, Tensor):
            places = _places(queries, at, device)  # (*batch, Q)
            batch = torch.broadcast_shapes(own.shape[:-1], places.shape[:-1])
            own = own.expand(*batch, own.shape[-1]).gather(-1, places.expand(*batch, queries))
        else:
            # In cross-attention without `at`, queries are counted from the first one.
            at = at if self.queries is None or own.shape[-1] != queries else 0
            if at < 0 or own.shape[-1] < at + queries:
                raise RequestError(
                    f"Documents expected the document of queries {at} to {at + queries - 1}, got "
                    f"{own.shape[-1]}; queries that are no positions among the keys have their own "
                    "in Documents(ids, queries=...)"
                )
            own = own[..., at : at + queries]
        own = own[..., :, None]
        return (own == ids[..., None, :keys]) & (own >= 0)

    def over_heads(self, batch_axes: int) -> Mask:
        return self._each(lambda x: x.unsqueeze(-2))

    def to(self, device: torch.device | str) -> Mask:
        return self._each(lambda x: x.to(device))

    def rows(self, index: Int[Tensor, " n"]) -> Mask:
        return self._each(lambda x: x.index_select(0, index))

    def select(self, index: Int[Tensor, "..."]) -> Mask:
        return self._each(lambda x: take(x, index))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Mask:
        """Apply a change to tensors with batch axes; ids of one row are shared by all rows."""

        def changed(x: Tensor) -> Tensor:
            return x if x.dim() == 1 else change(x)

        return Documents(changed(self.ids), None if self.queries is None else changed(self.queries))


def _places(queries: int, at: int | Tensor, device: torch.device) -> Int[Tensor, "..."]:
    """Positions of the queries among the keys: (Q,), or (*batch, Q) with a tensor `at`."""
    place = torch.arange(queries, device=device)
    return place + (at.to(device)[..., None] if isinstance(at, Tensor) else at)
