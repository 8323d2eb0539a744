"""Dot-product attention of short sequences, as operators that call C."""

from typing import Any

import torch
from torch import Tensor

from regard import native
from regard.attention._kernels import plain
from regard.native.dropout import BITS, drawn
from regard.native.gate import Function, Struct
from regard.native.twice import double_backward, double_backward_wanted

__all__ = ["CALL", "dots"]

CALL = "regard_dots"
_TABLE = Struct(
    "dots_table", "q: real [n h d] last", "k: real [m h d] last", "v: real [m h w] last",
    "o: real? [n h w] out", "kept: f32 [n h 2] out", "go: real? [n h w]", "gq: real? [n h d] out",
    "gk: real? [m h d] out", "gv: real? [m h w] out", "spans: i64 [5 s]", "sequences = s",
    "heads = h", "dim = d", "width = w", "most_queries: long", "most_keys: long", "queries = n",
    "keys = m", "q_row = stride q 0", "q_head = stride q 1", "k_row = stride k 0",
    "k_head = stride k 1", "v_row = stride v 0", "v_head = stride v 1", "seed: long",
    "threshold: long", "half = half q",
)  # fmt: skip
_DOTS = Function(
    CALL, "table: struct dots_table", "scale: float", "keep: float", "threads: threads"
)


def dots(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    spans: Tensor,
    queries: int,
    keys: int,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    r"""Attention within spans of rows: :math:`O^{(n)} = F \odot \mathrm{softmax}(s\,Q K^\top)\, V`.

    Args:
        spans: for each sequence the row of its first query, the number of queries, the row of its
            first key, the number of keys, and d: query i sees keys j <= i + d. Spans do not
            overlap.
        queries, keys: the largest numbers of a sequence.
        scale: s.
        dropout: the probability that F drops a weight.

    Shapes:
        query (N, H, D), key (M, H, D), value (M, H, W), spans (5, sequences) to (N, H, W)
    """
    seed, threshold = drawn(dropout)
    found: tuple[Tensor, Tensor] = _forward(
        query, key, value, spans, seed, queries, keys, scale, threshold
    )
    return found[0]


def _run(table: Any, scale: float, threshold: int, work: int) -> None:
    keep = 1.0 / (1.0 - threshold / BITS)
    _DOTS(table, scale, keep, native.threads(work))


def _dense(x: Tensor) -> Tensor:
    return x if x.stride(2) == 1 else x.contiguous()


def _work(spans: Tensor, query: Tensor, value: Tensor) -> int:
    pairs = int((spans[1] * spans[3]).sum())
    return pairs * query.shape[1] * (query.shape[2] + value.shape[2]) // 16


@torch.library.custom_op("regard::dots", mutates_args=(), device_types="cpu")
def _forward(
    query: Tensor, key: Tensor, value: Tensor, spans: Tensor, seed: Tensor,
    queries: int, keys: int, scale: float, threshold: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    query, key, value, spans = _dense(query), _dense(key), _dense(value), spans.contiguous()
    whole = int(spans[1].sum()) == len(query)
    shape = *query.shape[:2], value.shape[2]
    context = query.new_empty(shape) if whole else query.new_zeros(shape)
    kept = query.new_empty(*query.shape[:2], 2, dtype=torch.float32)
    table = _TABLE(
        query, key, value, context, kept, None, None, None, None, spans, queries, keys, int(seed),
        threshold,
    )  # fmt: skip
    _run(table, scale, threshold, _work(spans, query, value))
    return context, kept


@_forward.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, spans: Tensor, seed: Tensor,
    queries: int, keys: int, scale: float, threshold: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    context = query.new_empty(*query.shape[:2], value.shape[2])
    return context, query.new_empty(*query.shape[:2], 2, dtype=torch.float32)


@torch.library.custom_op("regard::dots_backward", mutates_args=(), device_types="cpu")
def _backward(
    query: Tensor, key: Tensor, value: Tensor, spans: Tensor, seed: Tensor, kept: Tensor,
    grad: Tensor, queries: int, keys: int, scale: float, threshold: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    query, key, value, spans = _dense(query), _dense(key), _dense(value), spans.contiguous()
    grad = grad.contiguous()
    made = []
    for x, row in ((query, 1), (key, 3), (value, 3)):
        whole = int(spans[row].sum()) == len(x)  # rows outside all spans have no gradient
        made.append(x.new_empty(x.shape) if whole else x.new_zeros(x.shape))
    table = _TABLE(
        query, key, value, None, kept, grad, *made, spans, queries, keys, int(seed), threshold
    )
    _run(table, scale, threshold, _work(spans, query, value))
    return made[0], made[1], made[2]


@_backward.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, spans: Tensor, seed: Tensor, kept: Tensor,
    grad: Tensor, queries: int, keys: int, scale: float, threshold: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return tuple(x.new_empty(x.shape) for x in (query, key, value))  # type: ignore[return-value]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, queries, keys, scale, threshold = inputs
    ctx.save_for_backward(*tensors, output[1])
    ctx.rest = queries, keys, scale, threshold


def _gradients(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    *inputs, kept = ctx.saved_tensors
    if double_backward_wanted():
        return double_backward(plain.dots, (*inputs, *ctx.rest), (grad,), ctx.needs_input_grad)
    found = _backward(*inputs, kept, grad, *ctx.rest)
    return *found, None, None, None, None, None, None


_forward.register_autograd(_gradients, setup_context=_save)
