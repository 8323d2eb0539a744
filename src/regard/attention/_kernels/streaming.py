"""Streaming scores, whose pairwise hidden tensor is never stored."""

from typing import cast

import torch
from torch import Tensor

from regard.attention._kernels.local import Local
from regard.attention._kernels.reference import parts
from regard.attention._kernels.tile_calls import unsupported_tiles_reason
from regard.attention._ops import triton
from regard.attention._ops.cpu import additive as native
from regard.attention.call import Attended, Call, forced
from regard.attention.carry import Coverage, PreviousWeights
from regard.attention.mask import Edges, Lengths
from regard.attention.plain import exactly
from regard.attention.read import WeightedSum
from regard.attention.score import AdditiveLike, InverseEuclidean
from regard.attention.select import Softmax
from regard.native import level

__all__ = ["Streaming"]


class Streaming:
    """Scores with their own blockwise form (`score.stream`), followed by the other parts.

    Additive scores in float32 or lower are computed in C if it is available; with a softmax and a
    weighted sum the whole attention is one C call. Otherwise by blocks of PyTorch.
    """

    name = "streaming"

    def unsupported_reason(self, call: Call) -> str | None:
        """Scores without `stream`."""
        if not hasattr(call.score, "stream"):  # StreamLike; isinstance of a protocol costs 10 us
            return f"{type(call.score).__name__} has no blockwise form"
        if forced() is None and isinstance(call.mask, Edges):
            return "it would score all pairs of nodes, not only the edges"
        if forced() is None and Local.is_faster(call):
            return "it would also compute the pairs outside the window of its select"
        if type(call.score) is InverseEuclidean:
            if torch.compiler.is_compiling():
                return "a compiler cannot trace how it finds near pairs"
            if forced() is None and unsupported_tiles_reason(call) is None:
                return "it would store the scores, which tiles do not"
        return None

    def backend(self, call: Call) -> str:
        """The implementation, and why it is not C."""
        if not hasattr(call.score, "additive"):
            return "the score's own blockwise form"
        if call.query is not None and triton.supports(*call.tensors):
            return "Triton, or plain PyTorch where a call is small"
        why = native.unsupported_reason(*(call.tensors if call.query is not None else ()))
        return f"C, {level()}" if why is None else f"PyTorch blocks: {why}"

    def run(self, call: Call) -> Attended:
        """Stream the scores; [*batch, Q, K, D] is never stored without features of a carry."""
        if _fused(call):
            return _attend(call)
        return parts(call, stream=True)


def _fused(call: Call) -> bool:
    """Whether the whole attention is one C call."""
    carry, read = call.carry, call.read
    return (
        hasattr(call.score, "additive")
        and type(call.select) is Softmax
        and type(read) is WeightedSum
        and not (read.dropout and read.training)
        and call.position is None
        and (
            carry is None
            or (isinstance(carry, PreviousWeights | Coverage) and call.tensors[0].shape[-2] == 1)
        )
        and native.unsupported_reason(*call.tensors) is None
    )


def _attend(call: Call) -> Attended:
    """Score, mask, softmax and read in one."""
    # cast and not isinstance, which costs 10 us with a protocol
    score, carry, state = cast(AdditiveLike, call.score), call.carry, call.state
    query, key, value = call.tensors
    assert isinstance(call.select, Softmax)
    features: Tensor | None = None
    if carry is not None:
        state = carry.start(query, key) if state is None else state
        if getattr(score, "features", None) is not None:
            features = carry.features(state)
    form = score.additive(query, key, call.prepared, features)
    mask = lengths = None
    if call.mask is not None:
        if exactly(call.mask, Lengths):
            lengths = call.mask.lengths
        else:
            sizes = query.shape[-2], value.shape[-2]
            mask = call.mask.dense(*sizes, at=call.at, device=query.device)
    need_weights = call.need_weights or carry is not None
    context, weights = native.attend(
        form.query,
        form.key,
        form.v,
        value,
        packed=form.packed,
        mask=mask,
        lengths=lengths,
        scale=1.0 / call.select.temperature,
        heads=form.heads,
        need_weights=need_weights,
    )
    low = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else value.dtype
    if low != torch.float32:
        context = context.to(low)
    if carry is not None and state is not None and weights is not None:
        state = carry.update(weights, weights, value, state)
    return Attended(context, weights, None, state)
