"""What the kernels by tiles share: which calls they support, and how they compute them."""

from math import sqrt
from typing import Any, cast

import torch
from torch import Tensor

from regard.attention._kernels.region import Region
from regard.attention._kernels.skewed import attend_skewed, supports_skewed
from regard.attention._kernels.tiles import Terms, attend_by_tiles
from regard.attention.call import Attended, Call
from regard.attention.position import ALiBi, BucketBias, DistanceMask, RelativeBias
from regard.attention.read import RelativeValues, WeightedSum
from regard.attention.score import DotLike, InverseEuclidean, RelativeKeys
from regard.attention.select import Softmax

__all__ = ["POSITIONS", "batch_of", "run", "tables_of", "unsupported_tiles_reason"]

_SCORES = (RelativeKeys, InverseEuclidean)
POSITIONS = (RelativeBias, BucketBias, DistanceMask, ALiBi)
"""Positions that add a number to the score of each offset."""


def unsupported_tiles_reason(call: Call) -> str | None:
    """Why tiles do not support a call, in a clause, or None."""
    if type(call.score) not in _SCORES and not hasattr(call.score, "as_dot"):
        return f"{type(call.score).__name__} is not a dot product"
    if call.position is not None and type(call.position) not in POSITIONS:
        return f"{type(call.position).__name__} is not one of the positions it knows"
    if type(call.select) is not Softmax:
        return f"{type(call.select).__name__} is not a softmax"
    read = call.read
    if type(read) is not WeightedSum and type(read) is not RelativeValues:
        return f"{type(read).__name__} is not a weighted sum"
    if call.carry is not None:
        return f"{type(call.carry).__name__} needs the weights of each step"
    if call.need_weights:
        return "it gives no weights, and need_weights=True"
    if call.query is None:
        return None
    if not isinstance(call.at, int):
        return "each row of the batch has a position (at) of its own"
    if torch.compiler.is_compiling():
        return "a compiler cannot trace its loop over tiles"
    heads = [len(table) for table in tables_of(call) if table is not None and len(table) > 1]
    batch = batch_of(call)
    if any(not batch or count != batch[-1] for count in heads):
        return f"its tables are for {heads[0]} heads, and the scores have none or others"
    return None


def run(call: Call, low: bool = False) -> Attended:
    """Compute by tiles; `low` keeps scores in the low precision of the tensors."""
    device = call.tensors[0].device.type
    with torch.autocast(device, enabled=False):
        return _run(call, low)


def _run(call: Call, low: bool) -> Attended:
    assert isinstance(call.select, Softmax)
    assert isinstance(call.at, int)
    read: Any = call.read
    value, temperature = call.tensors[2], call.select.temperature
    if isinstance(call.score, RelativeKeys):
        query, key, scale = call.tensors[0], call.keys, 1.0 / sqrt(call.tensors[0].shape[-1])
    elif isinstance(call.score, InverseEuclidean):
        # A distance does not depend on the origin; the rounding errors of its squares do.
        query, key, scale = call.tensors[0], call.keys, temperature
        wide = torch.promote_types(query.dtype, torch.float32)
        origin = key.detach().to(wide).mean(dim=-2, keepdim=True).nan_to_num(0.0, 0.0, 0.0)
        query, key = query.to(wide) - origin, key.to(wide) - origin
    else:
        query, key, scale = cast(DotLike, call.score).as_dot(call.tensors[0], call.keys)
    dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), value.dtype)
    if dtype in (torch.bfloat16, torch.float16) and not low:
        dtype = torch.float32
    batch = batch_of(call)
    keys, values, bias, slopes = (
        None if table is None else table.to(dtype) for table in tables_of(call)
    )
    terms = Terms(
        keys=keys,
        values=values,
        bias=bias if bias is None or temperature == 1.0 else bias / temperature,
        slopes=slopes if slopes is None or temperature == 1.0 else slopes / temperature,
        inverse=1 / temperature if isinstance(call.score, InverseEuclidean) else None,
        heads=batch[-1] if batch else 1,
    )
    queries, count = query.shape[-2], key.shape[-2]
    query, key, value = (_rows(x, batch, dtype) for x in (query, key, value))
    sizes = batch.numel() and queries and count and query.shape[-1] == value.shape[-1]
    if not low and sizes and supports_skewed(call):
        context = attend_skewed(
            query,
            key,
            value,
            bias=terms.bias,
            slopes=terms.slopes,
            heads=terms.heads,
            scale=scale / temperature,
            at=call.at,
        )
    else:
        region = Region(call.mask, batch, queries, count, call.at, query.device)
        dropout = read.dropout if read.training else 0.0
        context = attend_by_tiles(query, key, value, terms, scale / temperature, region, dropout)
    context = context.view(*batch, queries, value.shape[-1])
    return Attended(context.to(call.tensors[2].dtype))


def batch_of(call: Call) -> torch.Size:
    """The batch axes of the scores."""
    query, key, value = (tensor.shape[:-2] for tensor in call.tensors)
    return query if query == key == value else torch.broadcast_shapes(query, key, value)


def tables_of(call: Call) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Relative keys, relative values, biases and slopes, each with a head axis (1 or head)."""
    score: Any = call.score
    read: Any = call.read
    position = call.position
    keys = score.table if isinstance(score, RelativeKeys) else None
    values = read.table if isinstance(read, RelativeValues) else None
    bias = position.table if isinstance(position, RelativeBias) else None
    slopes = position.slopes if isinstance(position, DistanceMask | ALiBi) else None
    return (
        keys if keys is None or keys.dim() == 3 else keys[None],
        values if values is None or values.dim() == 3 else values[None],
        bias if bias is None or bias.dim() == 2 else bias[None],
        slopes if slopes is None or slopes.dim() == 1 else slopes[None],
    )


def _rows(x: Tensor, batch: torch.Size, dtype: torch.dtype) -> Tensor:
    """(*batch, n, d) to (row, n, d)."""
    return x.to(dtype).expand(*batch, *x.shape[-2:]).reshape(batch.numel(), *x.shape[-2:])
