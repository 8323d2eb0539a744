"""Dot-product attention over short sequences in C, for training: no padding, no stored weights."""

from dataclasses import replace
from math import sqrt
from typing import NamedTuple, cast

import torch
from torch import Tensor

from regard import native
from regard.attention._kernels.region import WINDOWS, factors, window_of
from regard.attention._kernels.sdpa import Sdpa
from regard.attention._kernels.tile_calls import POSITIONS, tables_of
from regard.attention._ops.cpu.dots import CALL, Near, dots
from regard.attention.call import BY_TENSORS, Attended, Call
from regard.attention.mask import Directional, Lengths, Mask
from regard.attention.plain import altered, exactly
from regard.attention.read import RelativeValues, WeightedSum
from regard.attention.score import DotLike, RelativeKeys, ScaledDot
from regard.attention.select import Softmax
from regard.errors import RequestError
from regard.native.dropout import BITS
from regard.native.transforms import followed

__all__ = ["Dots", "ragged", "supports_ragged"]

_ALL = 1 << 40  # a query sees this many keys before and behind it: all of them
PAIRS = 1 << 16
"""The most query-key pairs of a head: with more, PyTorch's fused kernel is as fast. A quarter of it
in bfloat16 with dropout, where PyTorch multiplies in bfloat16."""
_TYPES = (torch.float32, torch.bfloat16)
SIZE = 256
"""The largest size of queries and values, for the same reason."""
_DOT, _SUM = ScaledDot(), WeightedSum()
"""What relative keys and values are without their vectors."""


class Dots:
    """`softmax(s Q K^T) V` and its gradients, one head of one sequence after another.

    Also with relative keys and values (`RelativeKeys`, `RelativeValues`), and with biases of the
    offset (`RelativeBias`, `DistanceMask`, `ALiBi`).

    Used for training only: without dropout and gradients PyTorch's kernel is as fast.
    """

    name = "dots"

    def unsupported_reason(self, call: Call) -> str | None:
        """What `sdpa` does not support, masks other than lengths and windows, long sequences."""
        if call.query is not None and not _learns(call):  # first: decoders ask at every step
            return "used only in training, and no gradients or dropout are needed"
        reason = _parts_reason(call)
        if reason is not None:
            return reason
        if call.query is None:
            return f"used only when training on short sequences; {BY_TENSORS}"
        return _padded_reason(call)

    def backend(self, call: Call) -> str:
        """Which instructions C uses."""
        return f"C, {native.level()}"

    def run(self, call: Call) -> Attended:
        """Bring all to rows of (heads, size), say which rows belong together, call C."""
        query, key, scale = _as_dot(call, call.tensors[0], call.keys)
        if query.shape[-1] != key.shape[-1]:  # C would read on; `attend` says what is wrong
            raise RuntimeError(f"a query of {query.shape[-1]} and a key of {key.shape[-1]}")
        known = _mask(call.mask)
        assert known is not None
        assert isinstance(call.at, int)
        batch, queries, keys = query.shape[0], query.shape[-2], key.shape[-2]
        every = torch.full((batch,), keys)
        lengths = every if known.lengths is None else known.lengths.reshape(batch).clamp(0, keys)
        at = torch.full((batch,), call.at)
        spans = torch.stack(
            (
                torch.arange(batch) * queries,
                torch.full((batch,), queries),
                torch.arange(batch) * keys,
                lengths.to(torch.int64),
                known.last(at),
                at,
                known.first(at),
            )
        )
        rows = [_rows(x) for x in _alike(query, key, call.tensors[2])]
        farthest = max(queries - 1 + call.at, keys - 1 - call.at, 0)
        context = _attend(call, rows, spans, (queries, keys), scale, farthest)
        context = context.view(batch, queries, *context.shape[1:]).to(call.tensors[2].dtype)
        return Attended(context.transpose(1, 2) if query.dim() == 4 else context[:, :, 0])


def supports_ragged(call: Call) -> bool:
    """Whether C supports these parts for sequences without padding."""
    if altered(call) is not None or _parts_reason(call) is not None:
        return False
    if getattr(call.read, "scale", None) is not None:
        return False
    if getattr(call.score, "alone", False):  # keys of other sequences would change its rounding
        return False
    known = _mask(call.mask)
    return known is not None and known.lengths is None


def ragged(
    call: Call, query: Tensor, key: Tensor, value: Tensor, queries: Tensor, keys: Tensor
) -> Tensor | None:
    """Attention within each of the concatenated sequences; None where C does not support it.

    Args:
        call: the parts, which C supports (`supports_ragged`).
        queries, keys: how many each sequence has.

    Shapes:
        query (N, [head,] D), key (M, [head,] D), value (M, [head,] W), queries and keys
        (sequences,) to (N, [head,] W)
    """
    known = _mask(call.mask)
    if known is None or len(queries) == 0:
        return None
    most = int(queries.max()), int(keys.max())
    if query.dim() not in (2, 3) or not query.dim() == key.dim() == value.dim():
        return None
    if followed(query, key, value) is not None:
        return None
    if _tensors_reason([query, key, value], *most, _rate(call)) is not None:
        return None
    heads, kind = query.dim() == 3, value.dtype
    if heads:  # a score knows (head, rows, size) alone, C (rows, head, size)
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    query, key, scale = _as_dot(call, query, call.score.prepare(key))
    query, key, value = _alike(query, key, value)
    rows = [x.transpose(0, 1) if heads else x[:, None] for x in (query, key)]
    rows.append(value if heads else value[:, None])
    at = keys - queries
    rows_of = queries.cumsum(0) - queries, queries, keys.cumsum(0) - keys, keys
    spans = torch.stack((*rows_of, known.last(at), at, known.first(at)))
    context = _attend(call, rows, spans, most, scale, max(most)).to(kind)
    return context if heads else context[:, 0]


def _attend(
    call: Call,
    rows: list[Tensor],
    spans: Tensor,
    most: tuple[int, int],
    scale: float,
    farthest: int,
) -> Tensor:
    """`most`: queries and keys of a sequence; `farthest`: no key is further from a query."""
    assert isinstance(call.select, Softmax)
    query, key, value = rows
    if query.shape[1:] != key.shape[1:] or key.shape[:2] != value.shape[:2]:  # C would read on
        raise RequestError(
            "attention expected queries and keys of one size and a value for each key, got (rows, "
            f"heads, size) {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    scale /= call.select.temperature
    near = _near(call, query.shape[1], farthest)
    for table, own in ((near.keys, key), (near.values, value)):
        if table is not None and table.shape[-1] != own.shape[-1]:  # `attend` says what is wrong
            raise RuntimeError(f"a table of {table.shape[-1]} and rows of {own.shape[-1]}")
    return dots(query, key, value, spans, *most, scale, _rate(call), near)


def _as_dot(call: Call, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
    """Queries, keys and s; the vectors of offsets of relative keys come on top."""
    if type(call.score) is RelativeKeys:
        return query, key, 1.0 / sqrt(query.shape[-1])
    product = cast(DotLike, call.score).as_dot(query, key)
    return product.query, product.key, product.scale


def _near(call: Call, heads: int, farthest: int) -> Near:
    """The tables of offsets, for each head; that of slopes reaches to `farthest`."""
    assert isinstance(call.select, Softmax)
    *tables, slopes = tables_of(call)
    clip = next((x.shape[1] // 2 for x in tables if x is not None), farthest)
    if slopes is not None:
        tables[2] = -slopes[:, None] * torch.arange(-clip, clip + 1).abs()
    keys, values, biases = (None if x is None else x.expand(heads, *x.shape[1:]) for x in tables)
    return Near(keys, values, None if biases is None else biases / call.select.temperature, clip)


def _parts_reason(call: Call) -> str | None:
    """Why C does not support the parts, in a clause; None where it does."""
    if _mask(call.mask) is None:
        masks = "Lengths, Causal, Window and Directional"
        return f"C supports the masks {masks}, not {type(call.mask).__name__}"
    reason = _relative_reason(call)
    if reason is None:
        usual = replace(call, mask=None, position=None)
        if type(call.score) is RelativeKeys:
            usual = replace(usual, score=_DOT)
        if type(call.read) is RelativeValues:
            usual = replace(usual, read=_SUM)
        reason = Sdpa().unsupported_reason(usual)
    return native.unavailable_reason(CALL) if reason is None else reason


def _relative_reason(call: Call) -> str | None:
    """Why C does not support the tables of offsets, in a clause; None where it does."""
    if call.position is not None and type(call.position) not in POSITIONS:
        return f"{type(call.position).__name__} changes queries, keys or scores"
    *tables, slopes = tables_of(call)
    clips = {table.shape[1] for table in tables if table is not None}
    if len(clips) > 1 or (clips and slopes is not None):
        return "its relative keys, values and biases are clipped at different distances"
    return None


class _Known(NamedTuple):
    """A mask as C has it: lengths, and how many keys a query sees before and behind it."""

    lengths: Tensor | None
    left: int
    right: int

    def first(self, at: Tensor) -> Tensor:
        """The first key that query 0 may see, where it stands at key `at`; below 0 too."""
        return (at - self.left).clamp(min=-_ALL)

    def last(self, at: Tensor) -> Tensor:
        """The last key that query 0 may see; behind the end too."""
        return (at + self.right).clamp(max=_ALL)


def _mask(mask: Mask | None) -> _Known | None:
    """The mask in the form that C supports, or None."""
    parts = list(factors(mask))
    if not all(exactly(part, *WINDOWS, Directional, Lengths) for part in parts):
        return None
    lengths = [part.lengths for part in parts if isinstance(part, Lengths)]
    if len(lengths) > 1:
        return None
    left, right = (int(min(limit, _ALL)) for limit in window_of(mask))
    return _Known(lengths[0] if lengths else None, left, right)


def _rate(call: Call) -> float:
    """The dropout rate of the weights."""
    read = call.read
    if isinstance(read, (WeightedSum, RelativeValues)) and read.training:
        return read.dropout
    return 0.0


def _learns(call: Call) -> bool:
    """Whether gradients or dropout are needed."""
    if _rate(call) > 0:
        return True
    if not torch.is_grad_enabled():
        return False
    every = (*call.tensors, *tables_of(call))
    return any(x.requires_grad for x in every if x is not None)


def _padded_reason(call: Call) -> str | None:
    """Why C does not support the tensors of a padded call, in a clause; None where it does."""
    query, key, value = call.tensors
    sizes, known = query.shape, _mask(call.mask)
    if query.dim() not in (3, 4) or not sizes[:-2] == key.shape[:-2] == value.shape[:-2]:
        return "its batch axes are not (batch,) or (batch, head)"
    if sizes[-2] == 1:
        return "it has one query"
    if not isinstance(call.at, int):
        return "its rows start at different positions"
    for table in tables_of(call):
        if table is not None and len(table) not in (1, *sizes[1:-2]):
            return f"its tables are for {len(table)} heads, and the scores have none or others"
    if call.prepared is not None and not isinstance(call.prepared, Tensor):
        return "its keys are prepared in another way"
    if known is not None and known.lengths is not None:
        shape = sizes[:1] if query.dim() == 3 else (sizes[0], 1)
        if known.lengths.shape != shape or not known.lengths.is_cpu:
            return "lengths differ from head to head"
    return _tensors_reason(list(call.tensors), sizes[-2], key.shape[-2], _rate(call))


def _tensors_reason(tensors: list[Tensor], queries: int, keys: int, rate: float) -> str | None:
    """Why C does not support these tensors, in a clause; None where it does."""
    query, _, value = tensors
    dtypes = {x.dtype for x in tensors}
    if len(dtypes) > 1 or not dtypes <= {torch.float32, torch.bfloat16}:
        return f"{str(query.dtype).removeprefix('torch.')} is not supported in C"
    if not all(x.is_cpu for x in tensors):
        return f"its tensors are on {query.device.type}, and C runs on the CPU"
    if round(rate * BITS) >= BITS:
        return "all weights are dropped"
    few = PAIRS // 4 if rate and query.dtype == torch.bfloat16 else PAIRS
    if queries * keys > few or max(query.shape[-1], value.shape[-1]) > SIZE:
        return "used only for short sequences"
    if any(x.numel() == 0 for x in tensors):
        return "it is empty"
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return "a compiler or exporter needs PyTorch's own operators"
    return None


def _alike(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All in one dtype that C supports: under autocast a projection may change it."""
    if query.dtype == key.dtype == value.dtype and query.dtype in _TYPES:
        return query, key, value
    dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), value.dtype)
    dtype = dtype if dtype in _TYPES else torch.float32
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _rows(x: Tensor) -> Tensor:
    """(batch, [head,] n, size) to (batch * n, head, size), a view where it is laid out so."""
    return (x.transpose(1, 2) if x.dim() == 4 else x[:, :, None]).flatten(0, 1)
