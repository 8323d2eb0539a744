r"""Dot products with windows, documents and distances on the GPU, by PyTorch's FlexAttention.

.. math:: e_{ij} = s\, q_i^\top k_j + b_{ij}, \qquad j \in M_i

FlexAttention compiles the bias, a function of the pair, into its kernel, and skips fully masked
blocks. On a CPU FlexAttention has no backward pass and is slower than our other kernels, so it is
not used there.
"""

import math
import warnings
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from regard.attention._kernels.dispatch import choose
from regard.attention._kernels.region import WINDOWS, factors, window_of
from regard.attention._kernels.tile_calls import POSITIONS
from regard.attention.call import Attended, Call, forced
from regard.attention.mask import Directional, Documents, Lengths, Mask, Window
from regard.attention.plain import exactly
from regard.attention.position import ALiBi, DistanceMask, RelativeBias
from regard.attention.read import WeightedSum
from regard.attention.score import DotLike, RelativeKeys
from regard.attention.select import Softmax

__all__ = ["Flex"]

_Pair = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # of batch, head, query and key
_MASKS = (*WINDOWS, Directional, Lengths, Documents)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
DEVICES = ("cuda",)
SHORT = 128
"""Queries below which there is at most one block of them, and nothing to leave out."""
NARROW = 16
"""The smallest head that FlexAttention takes on a GPU."""
EAGER = 1 << 26
"""Pairs up to which a mask's blocks are found by looking at all pairs, uncompiled."""
SMALL = {
    "BLOCK_M": 64,
    "BLOCK_N": 64,
    "num_stages": 2,
    "BLOCK_M1": 32,
    "BLOCK_N1": 64,
    "BLOCK_M2": 64,
    "BLOCK_N2": 32,
}
"""Tiles with a bias: of the tiles that FlexAttention takes itself, the biases that are read ahead
do not fit into an H100's shared memory."""

_broken: list[str] = []
"""Why it cannot be compiled on this machine, once that was seen."""
_kept: WeakKeyDictionary[Mask, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()


class Flex:
    """FlexAttention, compiled once: windows, documents, relative keys, biases of the distance."""

    name = "flex"

    def unsupported_reason(self, call: Call) -> str | None:
        """Tensors that are not on a GPU, other parts, and calls without anything to skip."""
        if _broken:
            return _broken[0]
        if call.query is None:
            if not torch.cuda.is_available():
                return "FlexAttention trains on a GPU only, and there is none"
        elif call.query.device.type not in DEVICES:
            return (
                f"FlexAttention trains on a GPU only, and these tensors are on {call.query.device}"
            )
        score, position = call.score, call.position
        if not hasattr(score, "as_dot") and type(score) is not RelativeKeys:
            return f"{type(score).__name__} is not a dot product"
        if type(call.select) is not Softmax:
            return f"{type(call.select).__name__} is not a softmax"
        if type(call.read) is not WeightedSum or (call.read.dropout and call.read.training):
            return f"{type(call.read).__name__} is not a weighted sum without dropout"
        if position is not None and type(position) not in POSITIONS:
            return f"{type(position).__name__} is no bias of the distance"
        if call.carry is not None:
            return f"{type(call.carry).__name__} needs the weights of each step"
        if call.need_weights:
            return "it gives no weights, and need_weights=True"
        for mask in factors(call.mask):
            if not exactly(mask, *_MASKS):
                return f"{type(mask).__name__} is not a mask that it knows"
        if position is None and type(score) is not RelativeKeys and not _leaves_out(call.mask):
            return "there is no window, no documents and no distance: plain attention is faster"
        return None if call.query is None else _tensors_reason(call)

    def run(self, call: Call) -> Attended:
        """Reshape to (N, H, ·, D), make the block mask and the bias, and compute."""
        query, _, value = call.tensors
        score, select = call.score, call.select
        assert isinstance(select, Softmax)
        assert isinstance(call.at, int)
        if isinstance(score, RelativeKeys):
            key, scale = call.keys, 1.0 / math.sqrt(query.shape[-1])
        else:
            assert isinstance(score, DotLike)
            query, key, scale = score.as_dot(query, call.keys)
        dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), value.dtype)
        batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        query, key, value = (_four(x.to(dtype), batch) for x in (query, key, value))
        bias = _bias(call, query, scale, 1.0 / select.temperature)
        sizes = query.shape[-2], key.shape[-2]
        blocks = None if call.mask is None else _blocks(call.mask, batch, *sizes, call.at, query)
        flex = _function(query.is_cuda)
        try:
            context = flex(
                query,
                key,
                value,
                score_mod=bias,
                block_mask=blocks,
                scale=scale / select.temperature,
                kernel_options=None if bias is None else SMALL,
            )
        except Exception as error:
            if forced() == self.name or not _of_compiler(error):
                raise
            return _without(error, call)
        context = context.reshape(*batch, sizes[0], value.shape[-1])
        return Attended(context.to(call.tensors[2].dtype))


def _of_compiler(error: Exception) -> bool:
    """Whether PyTorch's compiler failed: no C compiler, or tiles that no GPU of this kind holds."""
    from torch._dynamo.exc import BackendCompilerFailed  # takes a second to import

    return isinstance(error, BackendCompilerFailed)


def _without(error: Exception, call: Call) -> Attended:
    """What the next kernel gives: from now on FlexAttention is not used in this process."""
    why = next((x for x in reversed(str(error).splitlines()) if "Error" in x), str(error)[:200])
    _broken.append(f"PyTorch could not compile FlexAttention ({why.strip()})")
    warnings.warn(f"{_broken[0]}; a slower kernel is used", RuntimeWarning, stacklevel=2)
    return choose(call).run(call)


def _leaves_out(mask: Mask | None) -> bool:
    return max(window_of(mask)) < math.inf or any(exactly(x, Documents) for x in factors(mask))


def _tensors_reason(call: Call) -> str | None:
    """Why FlexAttention does not support these tensors, or None."""
    query, key, value = call.tensors
    if torch.compiler.is_compiling():
        return "a graph is being compiled, in which blocks of a mask cannot be kept"
    if not isinstance(call.at, int):
        return "the position of the first query differs from row to row"
    if query.shape[-2] < SHORT:
        return f"{query.shape[-2]} queries are fewer than a block of {SHORT}"
    if min(query.shape[-1], key.shape[-1], value.shape[-1]) < NARROW:
        return f"FlexAttention takes heads of {NARROW} and more"
    if not all(x.dtype in _FLOATS for x in (query, key, value)):
        return "it computes in float32 or less"
    return None


@cache
def _function(compiled: bool) -> Any:
    """FlexAttention, compiled once; PyTorch recompiles it for new sizes if needed."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention) if compiled else flex_attention


def _four(x: Tensor, batch: torch.Size) -> Tensor:
    """(*batch, n, d) to (N, H, n, d); the last of several batch axes are the heads."""
    heads = batch[-1] if len(batch) > 1 else 1
    x = x.expand(*batch, *x.shape[-2:])
    return x.reshape(batch.numel() // max(1, heads), heads, *x.shape[-2:])


def _bias(call: Call, query: Tensor, scale: float, sharpness: float) -> Any:
    """What is added to a score, as a function of the pair; None for nothing."""
    position, score, heads = call.position, call.score, query.shape[1]
    assert isinstance(call.at, int)
    at = _number(call.at, query.device)
    terms: list[_Pair] = []
    if isinstance(score, RelativeKeys):
        table, clip = score.table.to(query.dtype), _number(score.clip, query.device)
        relative = torch.matmul(query * (scale * sharpness), table.mT)  # (N, H, Q, 2 clip + 1)

        def keys(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return relative[b, h, i, (j - i - at).clamp(-clip, clip) + clip]

        terms.append(keys)
    if isinstance(position, RelativeBias):
        rows, reach = position.table * sharpness, _number(position.clip, query.device)
        rows = rows.expand(heads, rows.shape[-1]).contiguous()

        def relative_bias(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return rows[h, (j - i - at).clamp(-reach, reach) + reach]

        terms.append(relative_bias)
    elif isinstance(position, DistanceMask | ALiBi):
        slopes = (position.slopes * sharpness).expand(heads).contiguous()

        def distance(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return -slopes[h] * (j - i - at).abs()

        terms.append(distance)
    if not terms:
        return None
    if len(terms) == 1:
        (one,) = terms
        return lambda s, b, h, i, j: s + one(b, h, i, j)
    one, other = terms
    return lambda s, b, h, i, j: s + one(b, h, i, j) + other(b, h, i, j)


def _blocks(mask: Mask, batch: torch.Size, queries: int, keys: int, at: int, query: Tensor) -> Any:
    """The block mask, cached per mask, or per limits for a plain window."""
    if all(isinstance(x, Window | Directional) for x in factors(mask)):
        return _window_blocks(*_limits(mask), at, queries, keys, query.device)
    kept, heads = _kept.setdefault(mask, {}), query.shape[1]
    where = (batch, queries, keys, at, query.device)
    if where not in kept:
        kept[where] = _make(_allowed(mask, batch, heads, at, query), query.shape[0], heads, where)
    return kept[where]


def _limits(mask: Mask) -> tuple[int | None, int | None]:
    """The largest offsets to both sides, None where there is no limit."""
    left, right = (None if x == math.inf else int(x) for x in window_of(mask))
    return left, right


@lru_cache(maxsize=64)
def _window_blocks(
    left: int | None, right: int | None, at: int, queries: int, keys: int, device: torch.device
) -> Any:
    where = (None, queries, keys, at, device)
    return _make(_offset_limits(left, right, at, device), None, None, where)


def _make(
    allowed: _Pair, batch: int | None, heads: int | None, where: tuple[Any, int, int, int, Any]
) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    _, queries, keys, _, device = where
    large = device.type == "cuda" and (batch or 1) * (heads or 1) * queries * keys > EAGER
    make = torch.compile(create_block_mask) if large else create_block_mask
    return make(allowed, batch, heads, queries, keys, device=device)


@lru_cache(maxsize=1024)
def _number(value: int, device: torch.device) -> Tensor:
    """A number that a function of the pair may read: a Python int compiles again for each value."""
    return torch.tensor(value, device=device)


def _offset_limits(left: int | None, right: int | None, at: int, device: torch.device) -> _Pair:
    first = _number(at, device)
    low, high = (None if x is None else _number(x, device) for x in (left, right))

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        offset = j - i - first
        seen = offset == offset
        if low is not None:
            seen = seen & (offset >= -low)
        if high is not None:
            seen = seen & (offset <= high)
        return seen

    return allowed


def _allowed(mask: Mask, batch: torch.Size, heads: int, at: int, query: Tensor) -> _Pair:
    """The mask as a function of the pair."""
    offsets = _offset_limits(*_limits(mask), at, query.device)
    ends: list[Tensor] = []
    documents: list[tuple[Tensor, Tensor]] = []
    for part in factors(mask):
        if isinstance(part, Lengths):
            ends.append(_rows(part.lengths[..., None], batch, heads, query)[..., 0])
        elif isinstance(part, Documents):
            ids = _rows(part.ids, batch, heads, query)
            mine = ids if part.queries is None else _rows(part.queries, batch, heads, query)
            start = 0 if part.queries is not None and mine.shape[-1] == query.shape[-2] else at
            documents.append((mine[..., start:].contiguous(), ids))

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        seen = offsets(b, h, i, j)
        for end in ends:
            seen = seen & (j < end[b, h])
        for mine, ids in documents:
            seen = seen & (mine[b, h, i] == ids[b, h, j]) & (ids[b, h, j] >= 0)
        return seen

    return allowed


def _rows(x: Tensor, batch: torch.Size, heads: int, query: Tensor) -> Tensor:
    """(*batch, n) to (N, H, n) on the queries' device."""
    x = x.to(query.device).expand(*batch, x.shape[-1])
    return x.reshape(-1, heads, x.shape[-1])
