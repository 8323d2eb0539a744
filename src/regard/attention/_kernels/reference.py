"""The reference: plain PyTorch, every part, everything materialized."""

from dataclasses import replace

from torch import Tensor

from regard.attention._combinations import takes_features
from regard.attention.call import Attended, Call
from regard.attention.carry import CarryState
from regard.attention.mask import Edges
from regard.attention.score import StreamLike
from regard.attention.select import LogSelect, Monotonic

__all__ = ["Reference"]


class Reference:
    """Supports every combination of parts. In float64 it is the reference for other kernels."""

    name = "reference"
    plain = True
    calls_parts = True

    def unsupported_reason(self, call: Call) -> str | None:
        """None: it supports everything."""
        return None

    def run(self, call: Call) -> Attended:
        """The operation, part by part."""
        return parts(call, stream=False)


def parts(call: Call, *, stream: bool) -> Attended:
    """Score, position, mask, select, read, carry; `stream` uses the score's own blockwise form."""
    query, key, value = call.tensors
    keys = call.keys
    if call.position is not None:
        query, keys = call.position.before(query, keys, at=call.at)
    state, features = call.state, None
    if call.carry is not None:
        state = call.carry.start(query, key) if state is None else state
        features = call.carry.features(state) if takes_features(call.score) else None
    if stream:
        assert isinstance(call.score, StreamLike)
        scores = (
            call.score.stream(query, keys)
            if features is None
            else call.score.stream(query, keys, features=features)
        )
    else:
        scores = call.score(query, keys, at=call.at, features=features)  # (*batch, Q, K)
    if call.position is not None:
        scores = call.position.bias(scores, query, at=call.at)
    raw = scores
    if call.carry is not None and state is not None:
        scores = call.carry.adjust(scores, state)
    mask = None
    if call.mask is not None:
        mask = call.mask.dense(query.shape[-2], value.shape[-2], at=call.at, device=scores.device)
    after: CarryState | None = None
    if isinstance(call.select, Monotonic):
        weights, log_prob, after = _aligned(call, call.select, scores, mask, state)
    else:
        weights, log_prob = call.select(scores, query=query, mask=mask, at=call.at)
    if getattr(call.read, "log_space", False):
        assert isinstance(call.select, LogSelect)
        log_prob = call.select.log_weights(scores, mask)
    context = call.read(weights, value, at=call.at)  # (*batch, Q, Dv)
    if call.carry is not None and state is not None:
        state = call.carry.update(raw, weights, value, state) if after is None else after
    if isinstance(call.mask, Edges):
        wide = getattr(call.select, "per_feature", False)
        weights = call.mask.of_edges(weights, features=wide)
    return Attended(context, weights, log_prob, state)


def _aligned(
    call: Call, select: Monotonic, scores: Tensor, mask: Tensor | None, state: CarryState | None
) -> tuple[Tensor, None, CarryState | None]:
    """A monotonic select: over all queries, or one step from the state."""
    query, key, _ = call.tensors
    energies = None
    if select.chunk is not None:
        energies = select.chunk(query, select.chunk.prepare(key), at=call.at)
    if state is None:
        weights, _ = select(scores, mask=mask, energies=energies)
        return weights, None, None
    weights, alignment = select.align(scores, state.value, mask, energies)
    return weights, None, replace(state, value=alignment)
