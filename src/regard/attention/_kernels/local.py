r"""Local attention, which only computes scores inside the windows.

Dot products are computed in C, which reads the keys in place. Other scores, and all scores without
C, use blocks of queries with gathered windows: (queries of a block) x (2 D + 1) rows at a time.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard import native
from regard.attention._kernels.segment import shared_additive
from regard.attention.call import Attended, Call
from regard.attention.mask import Dense, Lengths, Mask
from regard.attention.mask.base import _Both, _Either, _Not, _Pair
from regard.attention.plain import exactly
from regard.attention.read import WeightedSum
from regard.attention.score import Additive, DotLike
from regard.attention.select import LocalMonotonic, LocalPredictive, masked_softmax
from regard.native.constant import constant
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.dropout import dropout
from regard.native.gate import Function
from regard.native.operators import custom_op

__all__ = ["Local"]

BLOCK = 1 << 21  # numbers gathered at once: 8 MiB in fp32
FEW = 16  # windows of Additive pay where there are at least this many times as many keys
_SHAPES = (
    "b",
    "q",
    "k",
    "d",
    "e",
    "reach: long",
    "scale: float",
    "sigma: float",
    "query: f32 [b q d]",
    "key: f32 [b k d]",
    "value: f32 [b k e]",
    "center: f32 [b q]",
    "kept: bool? [b k]",
)
_FORWARD = Function(
    "regard_local_forward", *_SHAPES, "context: f32 [b q e] out", "threads: threads"
)
_BACKWARD = Function(
    "regard_local_backward",
    *_SHAPES,
    "grad: f32 [b q e]",
    "of_query: f32 [b q d] out",
    "of_key: f32 [b k d] out",
    "of_value: f32 [b k e] out",
    "of_center: f32 [b q] out",
    "threads: threads",
)


class Local:
    """`LocalMonotonic` and `LocalPredictive` over dot products and the perceptron score."""

    name = "local"

    def unsupported_reason(self, call: Call) -> str | None:
        """Selects without a window, and masks that differ between queries."""
        if not isinstance(call.select, LocalMonotonic | LocalPredictive):
            return f"{type(call.select).__name__} has no window of its own"
        score = call.score
        if not hasattr(score, "as_dot") and not shared_additive(score):
            return f"{type(score).__name__} is neither a dot product nor Additive alone"
        if type(call.read) is not WeightedSum:
            return f"{type(call.read).__name__} is not a weighted sum"
        if call.position is not None:
            return f"{type(call.position).__name__} changes queries, keys or scores"
        if call.carry is not None:
            return f"{type(call.carry).__name__} needs the weights of each step"
        if call.need_weights:
            return "it makes no weights outside the windows, and need_weights=True"
        if not _of_keys(call.mask):
            return "its mask is not the same for all queries"
        return None

    @classmethod
    def is_faster(cls, call: Call) -> bool:
        """Whether the windows are so narrow that scoring all pairs in C would be slower."""
        if not isinstance(call.select, LocalMonotonic | LocalPredictive):
            return False
        if cls().unsupported_reason(call) is not None:
            return False
        return call.key is None or FEW * (2 * call.select.reach + 1) <= call.key.shape[-2]

    def run(self, call: Call) -> Attended:
        """Compute the centers, then attend within the windows."""
        select, read, (query, _, value) = call.select, call.read, call.tensors
        assert isinstance(select, LocalMonotonic | LocalPredictive)
        assert isinstance(read, WeightedSum)
        queries, keys = query.shape[-2], value.shape[-2]
        kept, lengths = None, torch.full((), keys, device=query.device)
        if call.mask is not None:
            mask = call.mask.dense(queries, keys, at=call.at, device=query.device)
            kept = mask[..., 0, :]
            place = torch.arange(1, keys + 1, device=query.device)
            if keys:
                lengths = torch.where(kept, place, 0).amax(-1, keepdim=True)
        if isinstance(select, LocalPredictive):
            center, sigma = select.centers(query, lengths), select.sigma
        else:
            center, sigma = select.centers(query, call.at, lengths), 0.0
        rate = read.dropout if read.training else 0.0
        score, scale, v = call.score, 1.0, None
        if isinstance(score, Additive):
            query, made, v, *_ = score.additive(query, call.tensors[1], call.prepared)
        else:
            assert isinstance(score, DotLike)
            query, made, scale = score.as_dot(query, call.keys)
        if query.shape[-1] != made.shape[-1]:  # C would read on; `attend` says what is wrong
            raise RuntimeError(f"a query of {query.shape[-1]} and a key of {made.shape[-1]}")
        batch = torch.broadcast_shapes(
            query.shape[:-2], made.shape[:-2], value.shape[:-2], center.shape[:-1]
        )
        exact = torch.promote_types(
            torch.promote_types(query.dtype, made.dtype),
            torch.promote_types(value.dtype, torch.float32),
        )
        tensors = [_flat(x.to(exact), batch) for x in (query, made, value)]
        center = _flat(center[..., None], batch)[..., 0]
        if kept is not None:
            kept = _flat(kept[..., None], batch)[..., 0]
        cpu = query.device.type == "cpu"
        if v is None and not rate and exact == torch.float32 and cpu and _available():
            context = _forward(*tensors, center.float(), kept, select.reach, scale, sigma)
        else:
            plan = _Plan(tensors[1], tensors[2], kept, v, select.reach, scale, sigma, rate)
            context = _by_blocks(tensors[0], center, plan)
        return Attended(context.reshape(*batch, *context.shape[-2:]).to(call.tensors[2].dtype))


def _of_keys(mask: Mask | None) -> bool:
    """Whether a mask is the same for all queries."""
    if mask is None or exactly(mask, Lengths):
        return True
    if not exactly(mask, _Both, _Either, _Not, Dense):
        return False
    if isinstance(mask, _Pair):
        return _of_keys(mask.first) and _of_keys(mask.second)
    if isinstance(mask, _Not):
        return _of_keys(mask.mask)
    assert isinstance(mask, Dense)
    return mask.allowed.dim() > 1 and mask.allowed.shape[-2] == 1


def _flat(x: Tensor, batch: torch.Size) -> Tensor:
    """(*batch, N, D) with some batch axes missing or 1 to (B, N, D)."""
    return x.expand(*batch, *x.shape[-2:]).reshape(math.prod(batch), *x.shape[-2:])


@constant
def _available() -> bool:
    return (
        native.unavailable_reason(_FORWARD.name) is None
        and native.unavailable_reason(_BACKWARD.name) is None
    )


class _Plan(NamedTuple):
    """What all blocks share."""

    key: Tensor
    value: Tensor
    kept: Tensor | None
    v: Tensor | None
    reach: int
    scale: float
    sigma: float
    rate: float


def _by_blocks(query: Tensor, center: Tensor, plan: _Plan) -> Tensor:
    """Attend block by block with gathered windows, which the backward pass gathers again."""
    batch, queries, _ = query.shape
    rows = batch * (2 * plan.reach + 1) * (plan.key.shape[2] + plan.value.shape[2])
    width = max(1, BLOCK // max(1, rows))
    found = []
    for i in range(0, max(queries, 1), width):  # of none, too: the graph goes on
        block = (query[:, i : i + width], center[:, i : i + width], plan)
        if torch.is_grad_enabled() and queries > width:
            found.append(
                checkpoint(_block, *block, use_reentrant=False, preserve_rng_state=plan.rate > 0)
            )
        else:
            found.append(_block(*block))
    return torch.cat(found, 1)


def _block(query: Tensor, center: Tensor, plan: _Plan) -> Tensor:
    """(B, q, D), (B, q) to (B, q, E)."""
    key, value, reach = plan.key, plan.value, plan.reach
    batch, keys = key.shape[:2]
    middle = center.detach().floor().long().clamp(-reach - 1, keys + reach)
    place = middle[..., None] + torch.arange(-reach, reach + 1, device=key.device)  # (B, q, w)
    inside = (place >= 0) & (place < keys)
    where = place.clamp(0, max(keys - 1, 0))
    where = (where + keys * torch.arange(batch, device=key.device)[:, None, None]).reshape(-1)
    if plan.kept is not None:
        inside = inside & plan.kept.reshape(-1)[where].view_as(inside)
    windows = key.flatten(0, 1).index_select(0, where)
    windows = windows.view(*inside.shape, key.shape[-1])  # (B, q, w, D)
    if plan.v is None:
        scores = torch.matmul(windows, (query * plan.scale)[..., None])[..., 0]
    else:
        scores = torch.tanh(windows + query[:, :, None]) @ plan.v.to(windows.dtype)
    weights = masked_softmax(scores, inside)
    if plan.sigma:
        far = place - center[..., None]
        weights = weights * torch.exp(-(far**2) / (2 * plan.sigma**2)).to(weights.dtype)
    if plan.rate:
        weights = dropout(weights, plan.rate)
    windows = value.flatten(0, 1).index_select(0, where).view(*inside.shape, value.shape[-1])
    return torch.matmul(weights.to(value.dtype)[..., None, :], windows)[..., 0, :]


@custom_op("regard::local", mutates_args=())
def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    center: Tensor,
    kept: Tensor | None,
    reach: int,
    scale: float,
    sigma: float,
) -> Tensor:
    """(B, Q, D), (B, K, D), (B, K, E), (B, Q), (B, K) to (B, Q, E)."""
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    center = center.contiguous()
    kept = None if kept is None else kept.contiguous()
    batch, queries, dim = query.shape
    wide = value.shape[2]
    context = value.new_empty(batch, queries, wide)
    threads = native.threads(batch * queries * (2 * reach + 1) * (dim + wide))
    _FORWARD(reach, scale, sigma, query, key, value, center, kept, context, threads)
    return context


@_forward.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    center: Tensor,
    kept: Tensor | None,
    reach: int,
    scale: float,
    sigma: float,
) -> Tensor:
    return value.new_empty(query.shape[0], query.shape[1], value.shape[2])


@custom_op("regard::local_backward", mutates_args=())
def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    center: Tensor,
    kept: Tensor | None,
    reach: int,
    scale: float,
    sigma: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value and center."""
    grad, query, key = grad.contiguous(), query.contiguous(), key.contiguous()
    value, center = value.contiguous(), center.contiguous()
    kept = None if kept is None else kept.contiguous()
    batch, queries, dim = query.shape
    wide = value.shape[2]
    found = tuple(torch.empty_like(x) for x in (query, key, value, center))
    threads = native.threads(2 * batch * queries * (2 * reach + 1) * (dim + wide))
    _BACKWARD(reach, scale, sigma, query, key, value, center, kept, grad, *found, threads)
    return found[0], found[1], found[2], found[3]


@_backward.register_fake
def _(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    center: Tensor,
    kept: Tensor | None,
    reach: int,
    scale: float,
    sigma: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (  # contiguous, whatever the inputs are
        query.new_empty(query.shape),
        key.new_empty(key.shape),
        value.new_empty(value.shape),
        center.new_empty(center.shape),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    query, key, value, center, kept, *ctx.numbers = inputs
    ctx.save_for_backward(query, key, value, center, kept)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    inputs = ctx.saved_tensors
    if double_backward_wanted():
        return double_backward(_once_more, (*inputs, *ctx.numbers), (grad,), ctx.needs_input_grad)
    found = _backward(grad, *inputs, *ctx.numbers)
    return (*found, None, None, None, None)


def _once_more(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    center: Tensor,
    kept: Tensor | None,
    reach: int,
    scale: float,
    sigma: float,
) -> Tensor:
    """The same in PyTorch's own operators, for second derivatives."""
    return _block(query, center, _Plan(key, value, kept, None, reach, scale, sigma, 0.0))


_forward.register_autograd(_gradients, setup_context=_save)
