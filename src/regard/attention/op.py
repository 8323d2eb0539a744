"""The one operation: a query looks at a memory of key-value pairs.

    keys, queries  = position.before(query, score.prepare(key))
    scores         = carry.adjust(position.bias(score(query, keys)))
    weights        = select(scores, mask)
    context        = read(weights, value)

Axes, everywhere and in this order: batch, heads, query, key, dim (B H Q K D in comments).
"""

import torch
from torch import Tensor

from regard.attention import recording
from regard.attention._combinations import check, turns_only
from regard.attention._diagnosis import RAW, refuse
from regard.attention._kernels.compared import compare, wanted
from regard.attention._kernels.dispatch import choose
from regard.attention._turning import turned_otherwise
from regard.attention.call import Attended, Call
from regard.attention.carry import Carry, CarryState
from regard.attention.mask import Edges, Mask, as_mask
from regard.attention.mask.base import integers
from regard.attention.memory import Memory
from regard.attention.position import Position
from regard.attention.read import Read, WeightedSum
from regard.attention.score import ScaledDot, Score
from regard.attention.select import Select, Softmax
from regard.errors import RequestError
from regard.native.operation import operation

__all__ = ["Attended", "attend"]

_SCALED_DOT, _SOFTMAX, _WEIGHTED_SUM = ScaledDot(), Softmax(), WeightedSum()


@operation("attend")
def attend(
    query: Tensor,
    key: Tensor | Memory,
    value: Tensor | None = None,
    *,
    score: Score = _SCALED_DOT,
    position: Position | None = None,
    mask: Mask | Tensor | None = None,
    select: Select = _SOFTMAX,
    read: Read = _WEIGHTED_SUM,
    carry: Carry | None = None,
    state: CarryState | None = None,
    at: int | Tensor | None = None,
    need_weights: bool = False,
    name: object = None,
) -> Attended:
    r"""Look at `value` where `key` matches `query`.

    .. math:: c_i = \mathrm{read}_j\big(\mathrm{select}_j(\mathrm{score}(q_i, k_j)), v_j\big)

    Args:
        key: keys, or a `Memory` (which brings its values, mask and prepared keys).
        value: the values; the keys by default.
        mask: what may be looked at: a `Mask` or a bool tensor, True = may be looked at.
        state: the carry's value from the previous step; None at the first step.
        at: position of the first query among the keys, for parts that use positions. The default,
            `K - Q`, is right for self-attention, with or without a cache; cross-attention with such
            parts must pass it.
        need_weights: return the weights, which may need another kernel (see `explain`).
        name: the name for watchers: a string, or the module that owns this attention.

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, key_dim), value (*batch, K, value_dim),
        mask (*batch, Q, K) or what broadcasts to it; context (*batch, Q, value_dim). Queries and
        keys have one dtype (but under autocast); the context has that of the values

    Returns:
        `Attended(context, weights, log_prob, state)`; a row without allowed keys reads zeros and
        has finite gradients, with every kernel.

    Raises:
        RequestError: for mismatched shapes or parts, or a mask that is not bool.

    Example:
        >>> import torch; from regard.attention import Lengths
        >>> x = torch.randn(2, 5, 8)
        >>> attend(x, x, x, mask=Lengths(torch.tensor([5, 3]))).context.shape
        torch.Size([2, 5, 8])
    """
    prepared = turned = None
    if isinstance(key, Memory):
        memory, key = key, key.key
        value = memory.value if value is None else value
        prepared, turned = memory.prepared, memory.turned
        if memory.mask is not None:
            mask = memory.mask if mask is None else memory.mask & mask
    elif value is None:
        value = key
    if mask is not None:
        mask = as_mask(mask)
    try:
        queries, keys = query.shape[-2], key.shape[-2]
        if value is not key and keys != value.shape[-2]:
            raise RequestError(
                f"attend expected a value for each key, got keys {tuple(key.shape)} "
                f"and values {tuple(value.shape)}"
            )
        if query.dtype != key.dtype:
            _refuse_dtypes(query, key)
        check(score, select, read, position, carry)
        if mask is not None:
            mask.check_shape(queries, keys)
        if at is None:
            at = keys - queries
        elif type(at) is not int:
            _check_position(at)
        if turned is not None:
            if turned != position:
                raise turned_otherwise(turned, position)
            query, position = turned.turn(query, at), None
        elif position is not None and turns_only(position):
            ready = score.prepare(key) if prepared is None else prepared
            query, prepared = position.before(query, ready, at=at)
            key = prepared if ready is key else key  # as in a memory
            position = None
        call = Call(
            score,
            select,
            read,
            position,
            mask,
            carry,
            query,
            key,
            value,
            prepared,
            state,
            at,
            need_weights,
        )
        kernel = choose(call)
        attended = kernel.run(call)
        if wanted():
            compare(kernel.name, call, attended)
        if isinstance(read, WeightedSum) and read.scale is not None:
            attended = attended._replace(context=read.rescale(attended.context, _counts(call)))
    except RAW:  # a try costs nothing where nothing is wrong
        at = 0 if at is None else at
        refuse(
            Call(
                score,
                select,
                read,
                position,
                mask,
                carry,
                query,
                key,
                value,
                prepared,
                state,
                at,
                need_weights,
            )
        )
        raise
    if recording.active():
        recording.record(call, attended, name)
    if need_weights or attended.weights is None:
        return attended
    return Attended(attended.context, None, attended.log_prob, attended.state)


def _refuse_dtypes(query: Tensor, key: Tensor) -> None:
    """Refuse queries and keys of two dtypes; under autocast each part converts its own."""
    if not torch.is_autocast_enabled(query.device.type):
        raise RequestError(
            f"attend expected queries and keys in one dtype, got {_dtype(query)} and "
            f"{_dtype(key)}; convert with .to(dtype) (values may have another dtype, which is "
            "the context's)"
        )


def _check_position(at: object) -> None:
    """Refuse a position that is no whole number."""
    if isinstance(at, Tensor):
        integers("attend expected at, the position of the first query,", "(*batch)", at)
    elif not isinstance(at, int | torch.SymInt):
        raise RequestError(
            "attend expected at, the position of the first query, as an int, or as a tensor of "
            f"integers (*batch), got {at!r}"
        )


def _dtype(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def _counts(call: Call) -> int | Tensor:
    """The number of keys that each query may look at: K, or (*batch, Q, 1) with a mask."""
    query, _, value = call.tensors
    keys = value.shape[-2]
    if call.mask is None:
        return keys
    if isinstance(call.mask, Edges):  # never all pairs of nodes
        return call.mask.offsets.diff()[:, None]
    mask = call.mask.dense(query.shape[-2], keys, at=call.at, device=query.device)
    return mask.expand(*mask.shape[:-1], keys).sum(-1, keepdim=True)
