"""The dot family on PyTorch's fused kernel."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention._kernels.window import Windowed
from regard.attention._ops import eager
from regard.attention.call import Attended, Call, forced
from regard.attention.mask import Edges
from regard.attention.plain import is_causal
from regard.attention.read import WeightedSum
from regard.attention.score import DotLike, NegativeSquaredEuclidean
from regard.attention.select import Softmax, masked_softmax
from regard.native.dropout import dropout

__all__ = ["Sdpa"]

SHORT = 256  # queries
PAIRS = 1 << 14  # of a query and a key: with fewer, sizes that differ need no filling up


class Sdpa:
    """`scaled_dot_product_attention` for every score that can be written as a dot product."""

    name = "sdpa"

    def unsupported_reason(self, call: Call) -> str | None:
        """Anything between the product and the softmax, and calls that need weights."""
        if not hasattr(call.score, "as_dot"):  # DotLike; isinstance of a protocol costs 10 us
            return f"{type(call.score).__name__} is not a dot product"
        if not isinstance(call.select, Softmax):
            return f"{type(call.select).__name__} is not a softmax"
        if not isinstance(call.read, WeightedSum):
            return f"{type(call.read).__name__} is not a weighted sum"
        if call.position is not None:
            return f"{type(call.position).__name__} changes queries, keys or scores"
        if call.carry is not None:
            return f"{type(call.carry).__name__} needs the weights of each step"
        if call.need_weights:
            return "it gives no weights, and need_weights=True"
        if isinstance(call.mask, Edges) and forced() is None:
            return "it would score all pairs of nodes, not only the edges"
        if call.mask is not None and forced() is None and Windowed.is_faster(call):
            return "it would also compute the pairs outside the window of its mask"
        return None

    def run(self, call: Call) -> Attended:
        """Reshape to (N, H, ·, D), fold the scale in, call the fused kernel."""
        query, _, value = call.tensors
        query, key, scale = cast(DotLike, call.score).as_dot(query, call.keys)
        dtype = value.dtype
        if query.dtype != dtype:
            both = torch.promote_types(query.dtype, dtype)
            query, key, value = query.to(both), key.to(both), value.to(both)
        assert isinstance(call.select, Softmax)
        assert isinstance(call.read, WeightedSum)
        # Each look at a shape costs half a microsecond; a small call takes thirty.
        of_query, of_key, of_value = query.shape, key.shape, value.shape
        batch = of_query[:-2]
        four = len(of_query) == 4 and batch == of_key[:-2] == of_value[:-2]
        if not four and batch != of_key[:-2]:
            batch = torch.broadcast_shapes(batch, of_key[:-2])
        queries, keys = of_query[-2], of_key[-2]
        causal, mask = False, None
        if call.mask is not None:
            # SDPA's own causal flag is aligned at the top left, ours at the position `at`.
            if is_causal(call.mask) and isinstance(call.at, int):
                if call.at == 0 and queries == keys and queries > 1:
                    causal = True  # a branch: SDPA takes no symbolic bool of a compiled graph
                needed = not causal and call.at < keys - 1
            else:
                needed = True
            if needed:
                mask = call.mask.dense(queries, keys, at=call.at, device=query.device)
                mask = _as_four(mask, batch)
        rate = call.read.dropout if call.read.training else 0.0
        width = of_value[-1]
        if width != of_query[-1] and not rate and queries * keys >= PAIRS:
            query, key, value = _even(query, key, value)
        kernel = _plain if rate and query.device.type == "cpu" else F.scaled_dot_product_attention
        low = _slow_backward(query, key, value)
        # its squares reach beyond what autocast's half precision holds
        low |= type(call.score) is NegativeSquaredEuclidean and torch.is_autocast_enabled(
            query.device.type
        )
        if not four:
            query, key, value = _as_four(query, batch), _as_four(key, batch), _as_four(value, batch)
        context = (partial(_in_fp32, kernel) if low else kernel)(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=rate,
            is_causal=causal,
            scale=scale / call.select.temperature,
        )
        if context.requires_grad:
            eager.differentiable(context)
        if width != value.shape[-1]:
            context = context[..., :width]
        if context.dtype != dtype:
            context = context.to(dtype)
        return Attended(context if len(batch) == 2 else context.reshape(*batch, queries, width))


def _even(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values padded with zeros to one size.

    The fused kernel requires it; otherwise all pairs are stored, in two to three times the time.
    """
    size = max(query.shape[-1], value.shape[-1])
    even = [
        x if x.shape[-1] == size else F.pad(x, (0, size - x.shape[-1])) for x in (query, key, value)
    ]
    return even[0], even[1], even[2]


def _slow_backward(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the backward pass of a low-precision call is faster in fp32: on the CPU, if short.

    There the fused kernel's bf16 backward takes 1.5 to 3.5 times as long as the one in fp32 at
    lengths 15 to 100, 0.9 times at 400 (PyTorch 2.13, `benchmarks/sdpa_backward.py`); the error
    is the same or smaller.
    """
    return (
        query.dtype in (torch.bfloat16, torch.float16)
        and query.device.type == "cpu"
        and query.shape[-2] < SHORT
        and torch.is_grad_enabled()
        and (query.requires_grad or key.requires_grad or value.requires_grad)
    )


def _in_fp32(
    kernel: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, **how: Any
) -> Tensor:
    """The kernel in fp32, also under autocast."""
    with torch.autocast(query.device.type, enabled=False):
        return kernel(query.float(), key.float(), value.float(), **how)


def _plain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
) -> Tensor:
    """SDPA with dropout on a CPU, using the faster dropout of `regard.native`."""
    if is_causal:
        pairs = query.shape[-2], key.shape[-2]
        attn_mask = torch.ones(pairs, dtype=torch.bool, device=query.device).tril_()
    weights = masked_softmax(torch.matmul(query * scale, key.transpose(-2, -1)), attn_mask)
    return torch.matmul(dropout(weights, dropout_p), value)


def _as_four(x: Tensor, batch: torch.Size) -> Tensor:
    """(*batch, n, d) to (N, H, n, d), as the fused CPU kernel requires."""
    if x.shape[:-2] != batch:
        x = x.expand(*batch, *x.shape[-2:])
    axes = len(batch)
    if axes == 2:
        return x
    if axes < 2:
        return x.reshape(math.prod(batch), 1, *x.shape[-2:])
    return x.flatten(0, axes - 2)
