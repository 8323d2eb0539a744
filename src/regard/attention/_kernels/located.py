"""Attention that looks at weights before, location-aware or of coverage, in one call of C."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from regard import native
from regard.attention._ops.cpu import located
from regard.attention.call import Attended, Call
from regard.attention.carry import Coverage, PreviousWeights
from regard.attention.mask import Lengths
from regard.attention.plain import changed, exactly
from regard.attention.read import WeightedSum
from regard.attention.score import Additive, LocationAware
from regard.attention.select import Sharpen, Softmax
from regard.native.gemm import unhooked

__all__ = ["Located"]

_CARRIES = (PreviousWeights, Coverage)


class Located:
    r"""`LocationAware` scores, or `Additive` ones with one feature, a softmax and a weighted sum.

    :math:`F f_{ij}` is summed in registers, so no tensor of queries, keys and hidden units is ever
    stored. The gradients of keys and values are gathered over the steps of a sequence. One feature
    without filters, as coverage has, is a filter of width 1 that is always 1.
    """

    name = "located"

    def unsupported_reason(self, call: Call) -> str | None:
        """Other parts, and what C does not have."""
        score, read, select = call.score, call.read, call.select
        if type(score) is not LocationAware and type(score) is not Additive:
            return f"{type(score).__name__} is not LocationAware"
        if score.features is None:
            return f"{type(score).__name__} reads no features here"
        if type(select) is not Softmax and type(select) is not Sharpen:
            return f"{type(select).__name__} is not a Softmax"
        shown: Any = score.features  # whatever somebody has put there
        if type(shown) is not nn.Linear or getattr(shown, "bias", None) is not None:
            return f"its features go through a {type(shown).__name__}"
        if (why := changed(shown, ("forward",))) is not None:
            return why
        if type(read) is not WeightedSum:
            return f"{type(read).__name__} is not a WeightedSum"
        if read.dropout and read.training:
            return "it drops no weights, and its read does while training"
        if call.position is not None:
            return f"{type(call.position).__name__} changes queries, keys or scores"
        if type(call.carry) not in _CARRIES:
            return "it reads the weights before, which PreviousWeights or Coverage carry"
        if score.heads > 1:
            return "its score has several heads"
        if score.features.in_features > located.FILTERS:
            return f"it has {score.features.in_features} filters, and C has {located.FILTERS}"
        if torch.compiler.is_compiling():
            return "a compiler cannot trace it"
        if (why := located.missing()) is not None:
            return why
        return None if call.query is None else _tensors_reason(call)

    def backend(self, call: Call) -> str:
        """C, and its instructions."""
        return f"C, {native.level()}"

    def run(self, call: Call) -> Attended:
        """Project the query, and call C."""
        score, carry, select = (cast(Additive, call.score), call.carry, cast(Softmax, call.select))
        query, key, value = call.tensors
        assert carry is not None
        assert score.features is not None
        state = carry.start(query, key) if call.state is None else call.state
        keys, holder = score.key(key) if call.prepared is None else call.prepared, None
        if isinstance(keys, tuple):
            keys, holder = keys
        mask, lengths = None, None
        if call.mask is not None:
            if exactly(call.mask, Lengths):
                lengths = call.mask.lengths.expand(len(query)).to(torch.int64).contiguous()
            else:
                sizes = query.shape[1], value.shape[1]
                mask = call.mask.dense(*sizes, at=call.at, device=query.device)
                mask = mask.expand(len(query), *sizes)
        rest = (
            score.v,
            _filters(score),
            score.features.weight,
            state.value,
            mask,
            lengths,
            1.0 / select.temperature,
        )
        if holder is not None and _learns(score.query, query, keys, value):
            context, weights = located.step(query, score.query.weight, keys, holder, value, *rest)  # type: ignore[arg-type]
        else:
            projected: Tensor = score.query(query)
            score.check_fits(projected, keys)
            context, weights = located.attend(projected, keys, value, *rest)
        return Attended(context, weights, None, carry.update(weights, weights, value, state))


def _filters(score: Additive) -> Tensor:
    """(filters, width)."""
    if isinstance(score, LocationAware):
        return score.filters.weight[:, 0]
    return score.v.new_ones(1, 1)


def _learns(project: nn.Module, query: Tensor, keys: Tensor, value: Tensor) -> bool:
    """Whether this is a step of training whose query a plain layer projects."""
    return (
        torch.is_grad_enabled()
        and (keys.requires_grad or value.requires_grad)
        and type(project) is nn.Linear
        and type(project.weight) in (Tensor, nn.Parameter)
        and project.weight.dtype == torch.float32
        and project.weight.shape == (keys.shape[-1], query.shape[-1])
        and unhooked(project)
    )


def _tensors_reason(call: Call) -> str | None:
    """Why C does not support these tensors, or None."""
    score, tensors = cast(Additive, call.score), list(call.tensors)
    if isinstance(call.prepared, tuple):
        tensors.append(call.prepared[0])
    if call.state is not None:
        tensors.append(call.state.value)
        if call.state.value.shape != (*call.tensors[0].shape[:2], call.tensors[1].shape[1]):
            return "its state has other axes than (batch, query, key)"
    assert score.features is not None
    filters = (score.filters.weight,) if isinstance(score, LocationAware) else ()
    for x in (*tensors, score.v, *filters, score.features.weight):
        if not isinstance(x, Tensor) or x.dtype != torch.float32:
            return "it computes in float32, and not all of its tensors are float32"
        if not x.is_cpu:
            return f"its tensors are on {x.device.type}, and C runs on the CPU"
    if torch.is_autocast_enabled("cpu"):
        return "it computes in float32, and autocast asks for less"
    if {x.dim() for x in tensors} != {3} or len({len(x) for x in tensors}) != 1:
        return "it has one batch axis, the same for queries, keys and values"
    return None
