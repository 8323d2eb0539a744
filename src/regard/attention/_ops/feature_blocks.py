"""Feature-wise attention by blocks of plain PyTorch, for float64 and where C is not available."""

import torch
from torch import Tensor

__all__ = ["features_blocks", "features_blocks_backward"]

BLOCK = 1 << 17  # pair-features of one block: half a MiB in fp32 for each of three temporaries


class _Block:
    """Some queries of one batch row, and the keys that any of them may look at."""

    def __init__(
        self,
        row: int,
        queries: slice,
        keys: slice,
        start: Tensor | None,
        stop: Tensor | None,
        mask: Tensor | None,
    ) -> None:
        self.row, self.queries, self.keys = row, queries, keys
        allowed = None if mask is None else mask[row, queries, keys]
        for limit, before in ((start, False), (stop, True)):
            if limit is not None:
                position = torch.arange(keys.start, keys.stop, device=limit.device)
                bound = limit[row, queries, None]
                inside = position < bound if before else position >= bound
                allowed = inside if allowed is None else allowed & inside
        self.hidden = None if allowed is None else ~allowed[..., None]  # (i, j, 1)

    def gates(self, query: Tensor, key: Tensor, scale: float) -> Tensor:
        """sigma(2 (q + k) / c), (i, j, D): tanh is ten times slower on a CPU."""
        pairs = query[self.row, self.queries, None] + key[self.row, None, self.keys]
        return torch.sigmoid_(pairs.mul_(2 / scale))

    def weights(self, gates: Tensor, bound: float) -> Tensor:
        """exp(a tanh - a), (i, j, D), zeros at masked pairs."""
        weights = gates.sub(1).mul_(2 * bound).exp_()
        return weights if self.hidden is None else weights.masked_fill_(self.hidden, 0.0)


def _cut(
    query: Tensor, key: Tensor, start: Tensor | None, stop: Tensor | None, mask: Tensor | None
) -> list[_Block]:
    """The blocks that have any allowed pair."""
    batch, queries, features = query.shape
    keys = key.shape[1]
    width = max(1, BLOCK // max(1, keys * features))
    found = []
    for row in range(batch):
        for first in range(0, queries, width):
            some = slice(first, min(queries, first + width))
            low = 0 if start is None else max(0, int(start[row, some].min()))
            high = keys if stop is None else min(keys, int(stop[row, some].max()))
            if low < high:
                found.append(_Block(row, some, slice(low, high), start, stop, mask))
    return found


def features_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor]:
    """Context and the sums of w e^-a, as the operator `regard::features` gives them."""
    context, total = query.new_zeros(query.shape), query.new_zeros(query.shape)
    for block in _cut(query, key, start, stop, mask):
        weights = block.weights(block.gates(query, key, scale), bound)
        total[block.row, block.queries] = weights.sum(1)
        context[block.row, block.queries] = weights.mul_(value[block.row, block.keys]).sum(1)
    return context.div_(total.where(total > 0, 1.0)), total


def features_blocks_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    mask: Tensor | None,
    context: Tensor,
    total: Tensor,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, accumulated block by block in place."""
    grads = query.new_zeros(query.shape), key.new_zeros(key.shape), value.new_zeros(value.shape)
    grad_query, grad_key, grad_value = grads
    grad = grad / total.where(total > 0, 1.0)
    for block in _cut(query, key, start, stop, mask):
        row, some, keys = block.row, block.queries, block.keys
        gates = block.gates(query, key, scale)
        pairs = block.weights(gates, bound).mul_(grad[row, some, None])
        grad_value[row, keys] += pairs.sum(0)
        pairs.mul_(value[row, keys] - context[row, some, None])
        slopes = gates.addcmul_(gates, gates, value=-1)  # (1 - tanh^2) / 4
        grad_key[row, keys] += (pairs * slopes).sum(0)
        # The pairs add up to 0 over the keys, so a constant may be taken off the slopes; where they
        # are nearly equal the sum would else lose its digits.
        slopes -= slopes[:, :1].clone()
        grad_query[row, some] = pairs.mul_(slopes).sum(1)
    grad_query.mul_(4 * bound / scale)
    grad_key.mul_(4 * bound / scale)
    return grads
