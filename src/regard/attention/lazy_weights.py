"""Weights of thousands of tokens, not stored: a tile is recomputed when it is looked at.

A call's queries and keys are kept and, for a softmax of scaled products, the log-sum-exp of each
row. A tile of r rows and c columns then costs r × c products:

    w_ij = exp(s q_i · k_j - lse_i)          lse_i = log Σ_j exp(s q_i · k_j)

Other mechanisms (additive scores, relative positions, windows, sparse selects) are recomputed one
block of rows at a time from their own parts.
"""

from dataclasses import replace

import torch
from torch import Tensor

from regard.attention.call import Call
from regard.attention.mask import Block, Causal, Dense, Directional, Lengths, Mask, Window
from regard.attention.mask.base import _Both, _Either, _Pair
from regard.attention.plain import altered, exactly
from regard.attention.recomputed_weights import weights_of
from regard.attention.score import Dot, ScaledDot
from regard.attention.select import Softmax

__all__ = ["LazyWeights"]

_BLOCK = 1 << 20
"""The most weights in memory while a row's log-sum-exp is computed."""


class LazyWeights:
    """The weights of one call, recomputed tile by tile on demand.

    Shapes:
        as weights (*batch, Q, K)
    """

    def __init__(self, call: Call) -> None:
        query, key, value = (t.detach() for t in call.tensors)
        hollow = value.new_zeros(()).expand(*value.shape[:-1], 1)  # weights need its size alone
        self._call = replace(
            call, query=query, key=key, value=hollow, state=None, need_weights=False
        )
        batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
        self.shape = torch.Size((*batch, query.shape[-2], value.shape[-2]))
        self._lse: Tensor | None = None

    @staticmethod
    def supports(call: Call) -> bool:
        """Whether each row's weights depend on its own query only."""
        wide = getattr(call.score, "per_feature", False)
        return call.carry is None and not wide and _cuttable(call.mask)

    def dim(self) -> int:
        """How many axes the weights have."""
        return len(self.shape)

    def dense(self) -> Tensor:
        """All weights: Q × K numbers per head."""
        return self.rows(0, self.shape[-2])

    @torch.no_grad()
    def rows(self, start: int, stop: int) -> Tensor:
        """A block of rows: (*batch, stop - start, K)."""
        call = self._call
        query, _, _ = call.tensors
        part = replace(
            call,
            query=query[..., start:stop, :],
            at=call.at + start,
            mask=_cut(call.mask, start, stop, query.shape[-2]),
        )
        return weights_of(part).expand(*self.shape[:-2], stop - start, self.shape[-1])

    @torch.no_grad()
    def tile(self, index: tuple[int, ...], rows: slice, columns: slice) -> Tensor:
        """A tile of one matrix of the batch (and head): (rows, columns)."""
        first, last = rows.start, rows.stop
        if not self._is_product():
            return self.rows(first, last)[index][:, columns]
        if self._lse is None:
            self._lse = torch.full(
                self.shape[:-1], float("nan"), device=self._call.tensors[0].device
            )
        lse = self._lse[index]
        new = torch.nonzero(lse[first:last].isnan())[:, 0]
        if len(new):
            low, high = first + int(new[0]), first + int(new[-1]) + 1
            lse[low:high] = self._log_sums(index, low, high)
        scores = self._scores(index, first, last, columns)
        # A row that may look at nothing has -inf everywhere, and weights of zero.
        return scores.sub_(lse[first:last, None].clamp_min(torch.finfo(lse.dtype).min)).exp_()

    def _log_sums(self, index: tuple[int, ...], first: int, last: int) -> Tensor:
        step = max(_BLOCK // max(self.shape[-1], 1), 1)
        everything = slice(0, self.shape[-1])
        parts = [
            self._scores(index, at, min(at + step, last), everything).logsumexp(-1)
            for at in range(first, last, step)
        ]
        return torch.cat(parts)

    def _scores(self, index: tuple[int, ...], first: int, last: int, columns: slice) -> Tensor:
        call = self._call
        assert isinstance(call.score, Dot | ScaledDot)
        assert isinstance(call.select, Softmax)
        query, key, scale = call.score.as_dot(call.tensors[0], call.keys)
        batch = self.shape[:-2]
        q = query.expand(*batch, *query.shape[-2:])[index][first:last].float()
        k = key.expand(*batch, *key.shape[-2:])[index][columns].float()
        scores = (q * (scale / call.select.temperature)) @ k.T
        if call.mask is None:
            return scores
        mask, at = _cut(call.mask, first, last, self.shape[-2]), call.at + first
        assert mask is not None
        if isinstance(mask, Window | Directional):  # these depend on distances only
            allowed = mask.dense(*scores.shape, at=at - columns.start, device=q.device)
        else:
            allowed = mask.dense(last - first, self.shape[-1], at=at, device=q.device)
            allowed = allowed.expand(*batch, *allowed.shape[-2:])[index][..., columns]
        return scores.masked_fill_(~allowed, float("-inf"))

    def _is_product(self) -> bool:
        call = self._call
        return (
            type(call.score) in (Dot, ScaledDot)
            and type(call.select) is Softmax
            and call.position is None
            and isinstance(call.at, int)
            and altered(call) is None
        )


def _cuttable(mask: Mask | None) -> bool:
    if mask is None:
        return True
    if not exactly(mask, _Both, _Either, Lengths, Window, Causal, Directional, Block, Dense):
        return False
    if isinstance(mask, _Pair):
        return _cuttable(mask.first) and _cuttable(mask.second)
    return True


def _cut(mask: Mask | None, start: int, stop: int, queries: int) -> Mask | None:
    """The mask of some of the queries."""
    if isinstance(mask, _Pair):
        first, second = (_cut(m, start, stop, queries) for m in (mask.first, mask.second))
        return type(mask)(first, second)  # type: ignore[arg-type]
    if isinstance(mask, Dense) and mask.allowed.shape[-2] == queries:
        return Dense(mask.allowed[..., start:stop, :])
    return mask
