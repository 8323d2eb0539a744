r"""Convolutions of one dimension at a time, pooled over time by their maximum.

.. math:: y_{df} = \max_{0 \le t \le n - w} \; \sum_{k=0}^{w-1} W_{dkf}\, x_{t+k,\,d}

Each dimension d of the word vectors has filters f of its own. The convolution before the maximum
has a number for each word, dimension and filter. It is computed for a few dimensions at a time and
never stored; the backward pass reads only the window that was chosen.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.native.derivatives import once_differentiable

__all__ = ["largest_response"]

RESPONSES = 1 << 19  # made at once: 2 MiB in fp32


def largest_response(
    x: Float[Tensor, "batch time dim"],
    weight: Float[Tensor, "dim width filters"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, "batch dim filters"]:
    """The largest response of each filter over the windows within each sentence.

    Args:
        lengths: at least the width of the filters.
    """
    dtype = torch.promote_types(torch.promote_types(x.dtype, weight.dtype), torch.float32)
    with torch.autocast(x.device.type, enabled=False):
        found: Tensor = _Largest.apply(x.to(dtype), weight.to(dtype), lengths)  # type: ignore[no-untyped-call]
    return found.transpose(0, 1).to(x.dtype)


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, lengths: Tensor) -> Tensor:
        batch, time, dim = x.shape
        width, filters = weight.shape[1:]
        count = time - width + 1
        rows = x.permute(2, 0, 1).contiguous()  # (D, B, T)
        windows = rows.unfold(2, width, 1)  # (D, B, N, w)
        outside = torch.arange(count, device=x.device) > (lengths - width)[:, None]
        hides = bool(outside.any())
        best = x.new_empty(dim, filters, batch)
        place = torch.empty(dim, filters, batch, dtype=torch.int64, device=x.device)
        some = max(1, RESPONSES // max(1, batch * count * filters))
        for start in range(0, dim, some):
            part = slice(start, start + some)
            seen = windows[part].reshape(-1, batch * count, width)
            response = torch.bmm(weight[part].mT, seen.mT).unflatten(-1, (batch, count))
            if hides:
                response.masked_fill_(outside, float("-inf"))
            torch.max(response, -1, out=(best[part], place[part]))
        ctx.save_for_backward(rows, weight, place)
        return best.transpose(1, 2)  # (D, B, F)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        rows, weight, place = ctx.saved_tensors
        dim, filters, batch = place.shape
        width = weight.shape[1]
        grad = grad.transpose(1, 2)  # (D, F, B)
        at = place.transpose(1, 2).reshape(dim, batch, filters)
        slope = grad.transpose(1, 2).contiguous()  # (D, B, F)
        d_rows = torch.zeros_like(rows) if ctx.needs_input_grad[0] else None
        d_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        for k in range(width):
            if d_weight is not None:
                torch.sum(rows.gather(2, at + k).mul_(slope), 1, out=d_weight[:, k])
            if d_rows is not None:
                d_rows.scatter_add_(2, at + k, slope * weight[:, None, k])
        return None if d_rows is None else d_rows.permute(1, 2, 0), d_weight, None
