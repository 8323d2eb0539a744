"""Dot-product attention of short sequences, as operators that call C."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard import native
from regard.attention._ops import eager
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.dropout import BITS, drawn
from regard.native.gate import Function, Struct
from regard.native.operators import custom_op

__all__ = ["CALL", "Near", "dots"]

CALL = "regard_dots"
_TABLE = Struct(
    "dots_table",
    "q: real [n h d] last",
    "k: real [m h d] last",
    "v: real [m h w] last",
    "o: real? [n h w] out",
    "kept: f32 [n h 2] out",
    "go: real? [n h w]",
    "gq: real? [n h d] out",
    "gk: real? [m h d] out",
    "gv: real? [m h w] out",
    "spans: i64 [7 s]",
    "sequences = s",
    "heads = h",
    "dim = d",
    "width = w",
    "most_queries: long",
    "most_keys: long",
    "queries = n",
    "keys = m",
    "q_row = stride q 0",
    "q_head = stride q 1",
    "k_row = stride k 0",
    "k_head = stride k 1",
    "v_row = stride v 0",
    "v_head = stride v 1",
    "seed: long",
    "threshold: long",
    "half = half q",
    "clip: long",
    "columns: long",
    "parts: long",
    "near_k: f32? [h columns {(d + 15) // 16 * 16}]",
    "near_kt: f32? [h d columns]",
    "near_v: f32? [h columns {(w + 15) // 16 * 16}]",
    "near_vt: f32? [h w columns]",
    "near_b: f32? [h columns]",
    "gnear_k: f32? [parts h columns {(d + 15) // 16 * 16}] out",
    "gnear_v: f32? [parts h columns {(w + 15) // 16 * 16}] out",
    "gnear_b: f32? [parts h columns] out",
)
_DOTS = Function(
    CALL, "table: struct dots_table", "scale: float", "keep: float", "threads: threads"
)


class Near(NamedTuple):
    """Vectors and biases of the offsets -clip … clip of a key from a query, for each head.

    Shapes:
        keys (H, 2 clip + 1, D), values (H, 2 clip + 1, W), biases (H, 2 clip + 1); None: no such
    """

    keys: Tensor | None = None
    values: Tensor | None = None
    biases: Tensor | None = None
    clip: int = 0

    def filled(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """All with zeros behind, to multiples of 16 along the axes behind the head's."""
        return _filled(self.keys), _filled(self.values), _filled(self.biases)


def _filled(x: Tensor | None) -> Tensor | None:
    if x is None:
        return None
    behind = [(0, -size % 16) for size in reversed(x.shape[1:])]
    return F.pad(x.float(), [n for pair in behind for n in pair])


def dots(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    spans: Tensor,
    queries: int,
    keys: int,
    scale: float,
    dropout: float = 0.0,
    near: Near | None = None,
) -> Tensor:
    r"""Attention within spans of rows: :math:`O^{(n)} = F \odot \mathrm{softmax}(s\,Q K^\top)\, V`.

    With `near` a vector of the offset j - i - at is added to each key and value (Shaw et al. 2018),
    or a bias to each score.

    Args:
        spans: for each sequence the row of its first query, the number of queries, the row of its
            first key, the number of keys, d: query i sees keys j <= i + d, at, the key that stands
            where its first query does, and e: query i sees keys j >= i + e. d, at and e are within
            2^40. Spans do not overlap.
        queries, keys: the largest numbers of a sequence.
        scale: s.
        dropout: the probability that F drops a weight.

    Shapes:
        query (N, H, D), key (M, H, D), value (M, H, W), spans (7, sequences) to (N, H, W)
    """
    seed, threshold = drawn(dropout)
    near = near or Near()
    found: tuple[Tensor, Tensor] = _forward(
        query, key, value, *near.filled(), spans, seed, queries, keys, scale, threshold, near.clip
    )
    return found[0]


def _dense(x: Tensor) -> Tensor:
    return x if x.stride(2) == 1 else x.contiguous()


class _Tables(NamedTuple):
    """What C gets of the vectors of offsets, in the order of `_TABLE`."""

    clip: int
    columns: int
    parts: int
    keys: Tensor | None
    keys_turned: Tensor | None
    values: Tensor | None
    values_turned: Tensor | None
    biases: Tensor | None

    @classmethod
    def of(
        cls,
        keys: Tensor | None,
        values: Tensor | None,
        biases: Tensor | None,
        clip: int,
        sizes: tuple[int, int],
        threads: int,
    ) -> "_Tables":
        columns = next((x.shape[1] for x in (keys, values, biases) if x is not None), 0)
        turned = [
            None if x is None else x.transpose(1, 2)[:, :size].contiguous()
            for x, size in zip((keys, values), sizes, strict=True)
        ]
        return cls(clip, columns, threads, keys, turned[0], values, turned[1], biases)

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Zeros to add to, for each part of the loop."""
        every = self.keys, self.values, self.biases
        return tuple(None if x is None else x.new_zeros(self.parts, *x.shape) for x in every)


def _threads(spans: Tensor, query: Tensor, value: Tensor) -> int:
    pairs = int((spans[1] * spans[3]).sum())
    return native.threads(pairs * query.shape[1] * (query.shape[2] + value.shape[2]) // 16)


def _keep(threshold: int) -> float:
    return 1.0 / (1.0 - threshold / BITS)


@custom_op("regard::dots", mutates_args=(), device_types="cpu")
def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    near_keys: Tensor | None,
    near_values: Tensor | None,
    near_biases: Tensor | None,
    spans: Tensor,
    seed: Tensor,
    queries: int,
    keys: int,
    scale: float,
    threshold: int,
    clip: int,
) -> tuple[Tensor, Tensor]:
    query, key, value, spans = _dense(query), _dense(key), _dense(value), spans.contiguous()
    whole = int(spans[1].sum()) == len(query)
    shape = *query.shape[:2], value.shape[2]
    context = query.new_empty(shape) if whole else query.new_zeros(shape)
    kept = query.new_empty(*query.shape[:2], 2, dtype=torch.float32)
    threads = _threads(spans, query, value)
    sizes = query.shape[2], value.shape[2]
    near = _Tables.of(near_keys, near_values, near_biases, clip, sizes, threads)
    table = _TABLE(
        query,
        key,
        value,
        context,
        kept,
        None,
        None,
        None,
        None,
        spans,
        queries,
        keys,
        int(seed),
        threshold,
        *near,
        None,
        None,
        None,
    )
    _DOTS(table, scale, _keep(threshold), threads)
    return context, kept


@_forward.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    near_keys: Tensor | None,
    near_values: Tensor | None,
    near_biases: Tensor | None,
    spans: Tensor,
    seed: Tensor,
    queries: int,
    keys: int,
    scale: float,
    threshold: int,
    clip: int,
) -> tuple[Tensor, Tensor]:
    context = query.new_empty(*query.shape[:2], value.shape[2])
    return context, query.new_empty(*query.shape[:2], 2, dtype=torch.float32)


@custom_op("regard::dots_backward", mutates_args=(), device_types="cpu")
def _backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    near_keys: Tensor | None,
    near_values: Tensor | None,
    near_biases: Tensor | None,
    spans: Tensor,
    seed: Tensor,
    kept: Tensor,
    grad: Tensor,
    queries: int,
    keys: int,
    scale: float,
    threshold: int,
    clip: int,
) -> list[Tensor]:
    query, key, value, spans = _dense(query), _dense(key), _dense(value), spans.contiguous()
    grad = grad.contiguous()
    made = []
    for x, row in ((query, 1), (key, 3), (value, 3)):
        whole = int(spans[row].sum()) == len(x)  # rows outside all spans have no gradient
        made.append(x.new_empty(x.shape) if whole else x.new_zeros(x.shape))
    threads = _threads(spans, query, value)
    sizes = query.shape[2], value.shape[2]
    near = _Tables.of(near_keys, near_values, near_biases, clip, sizes, threads)
    learned = near.gradients()
    table = _TABLE(
        query,
        key,
        value,
        None,
        kept,
        grad,
        *made,
        spans,
        queries,
        keys,
        int(seed),
        threshold,
        *near,
        *learned,
    )
    _DOTS(table, scale, _keep(threshold), threads)
    return [*made, *(x.sum(0) for x in learned if x is not None)]


@_backward.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    near_keys: Tensor | None,
    near_values: Tensor | None,
    near_biases: Tensor | None,
    spans: Tensor,
    seed: Tensor,
    kept: Tensor,
    grad: Tensor,
    queries: int,
    keys: int,
    scale: float,
    threshold: int,
    clip: int,
) -> list[Tensor]:
    every = (query, key, value, near_keys, near_values, near_biases)
    return [x.new_empty(x.shape) for x in every if x is not None]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, queries, keys, scale, threshold, clip = inputs
    ctx.save_for_backward(*tensors, output[1])
    ctx.rest = queries, keys, scale, threshold, clip


def _gradients(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    *inputs, kept = ctx.saved_tensors
    if double_backward_wanted():
        return double_backward(eager.dots, (*inputs, *ctx.rest), (grad,), ctx.needs_input_grad)
    found = iter(_backward(*inputs, kept, grad, *ctx.rest))
    given = [None if x is None else next(found) for x in inputs[:6]]
    return *given, None, None, None, None, None, None, None


_forward.register_autograd(_gradients, setup_context=_save)
