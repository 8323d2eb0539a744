"""Error messages for failed calls, found after the failure, so valid calls pay nothing.

A kernel raises PyTorch's errors ("The size of tensor a (2) must match …"). Here the arguments are
checked one by one, and the first mismatch becomes one sentence. If there is none, the error has
another cause and is raised unchanged.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention._combinations import heads_of
from regard.attention._part_kinds import wrong_kind
from regard.attention.call import Call
from regard.attention.mask import Mask
from regard.attention.mask.base import _Not, _Pair
from regard.errors import RequestError

__all__ = ["RAW", "refuse", "refuse_keys", "refuse_projection"]

RAW = (AttributeError, IndexError, RuntimeError, TypeError)
"""What comes out of a call whose arguments do not fit together."""
_FOLLOWED = ("functorch", "vmap", "forward mode", "forward AD")
"""Words of what a part cannot do under a transform, whatever the sizes."""


def refuse(call: Call) -> None:
    """Raise an error that names the mismatch.

    Raises:
        RequestError: where something is found.
    """
    if torch.compiler.is_compiling():
        return
    with torch.no_grad():
        for problem in (
            _kinds,
            _tensors,
            _batch,
            _heads,
            _places,
            _mask,
            _state,
            _alike,
            _parts,
            _inference,
        ):
            reason = problem(call)
            if reason is not None:
                raise RequestError(reason)


def refuse_keys(score: Any, key: object) -> None:
    """Raise an error for keys that a score cannot prepare.

    Raises:
        RequestError: where something is found.
    """
    name = type(score).__name__
    if not isinstance(key, Tensor):
        raise RequestError(f"{name} expected keys as a tensor, got {type(key).__name__}")
    if key.dim() < 2:
        raise RequestError(f"{name} expected keys (*batch, K, size), got {tuple(key.shape)}")
    try:
        with torch.no_grad():
            score.prepare(_blank(key))
    except RAW as error:
        raise RequestError(_unfit(score, f"keys of {key.shape[-1]}", error)) from None


def refuse_projection(layer: nn.Module, projection: nn.Module, x: object) -> None:
    """Raise an error for an input that a layer cannot project.

    Raises:
        RequestError: where something is found.
    """
    what = next(name for name, child in layer.named_children() if child is projection)
    size, name = projection.in_features, type(layer).__name__
    if not isinstance(x, Tensor):
        raise RequestError(f"{name} expected a tensor for the {what}, got {type(x).__name__}")
    if x.dim() < 2 or x.shape[-1] != size:
        raise RequestError(
            f"{name} expected a {what} of (*batch, n, {size}), got {tuple(x.shape)}; sizes are "
            "given when the layer is built"
        )


def _inference(call: Call) -> str | None:
    """Autograd keeps no tensors that were made in inference mode."""
    if "nference tensor" in str(sys.exc_info()[1]):
        return (
            "attend with gradients expected tensors that autograd may keep, got some that were "
            "made in torch.inference_mode(); call it in torch.no_grad(), or remember the keys again"
        )
    return None


def _kinds(call: Call) -> str | None:
    slots = ("score", "position", "select", "read", "carry")
    return next(
        (
            problem
            for slot in slots
            if (part := getattr(call, slot)) is not None
            and (problem := wrong_kind("attend", slot, part)) is not None
        ),
        None,
    )


def _tensors(call: Call) -> str | None:
    given = {"query": call.query, "key": call.key, "value": call.value}
    for name, x in given.items():
        if not isinstance(x, Tensor):
            kind = type(x).__name__
            todo = "; ragged sequences go to attend_ragged, or to MultiHead all three"
            return f"attend expected tensors, got {kind} for the {name}" + (
                todo if kind == "Ragged" else ""
            )
    if any(x.dim() < 2 for x in call.tensors):
        return (
            f"attend expected tensors (*batch, n, size), got {_shapes(call)}; one vector alone "
            "is x[None]"
        )
    return None


def _batch(call: Call) -> str | None:
    if _scores(call) is None:
        return (
            f"attend expected the same batch axes of all three, or 1 where one serves all, got "
            f"{_shapes(call)}"
        )
    return None


def _heads(call: Call) -> str | None:
    batch = _scores(call)
    assert batch is not None
    for part in (call.score, call.position, call.read):
        heads = heads_of(part)
        if heads is not None and batch[-1:] not in ((heads,), (1,)):
            return (
                f"{type(part).__name__} with heads={heads} expected {heads} heads as the last "
                f"batch axis, got {_shapes(call)}; build it for as many as there are, or take "
                "MultiHead"
            )
    return None


def _mask(call: Call) -> str | None:
    batch, (query, _, value) = _scores(call), call.tensors
    assert batch is not None
    scores = (*batch, query.shape[-2], value.shape[-2])
    for mask in _single(call.mask):
        name = type(mask).__name__
        try:
            shape = _size(mask, scores, call.at, query.device)
        except RequestError as error:
            return str(error)
        except RAW as error:
            return f"the mask {name} cannot be made for scores {scores}: {error}"
        if not _fits(shape, scores):
            return (
                f"attend expected a mask that broadcasts to the scores {scores}, (*batch, Q, K), "
                f"got {name} of {shape}; a mask of keys (batch, K) is given as mask[:, None]"
            )
    return None


def _size(
    mask: Mask, scores: tuple[int, ...], at: int | Tensor, device: torch.device
) -> tuple[int, ...]:
    """The size of a mask, without allocating it if possible."""
    try:
        made = mask.dense(*scores[-2:], at=at, device=torch.device("meta"))
    except RequestError:
        raise
    except RAW:  # it looks at its numbers
        made = mask.dense(*scores[-2:], at=at, device=device)
    return tuple(made.shape)


def _single(mask: Mask | None) -> Iterator[Mask]:
    """The masks that a combined mask consists of."""
    if isinstance(mask, _Pair):
        yield from _single(mask.first)
        yield from _single(mask.second)
    elif isinstance(mask, _Not):
        yield from _single(mask.mask)
    elif mask is not None:
        yield mask


def _places(call: Call) -> str | None:
    batch = _scores(call)
    assert batch is not None
    if isinstance(call.at, Tensor) and not _fits(tuple(call.at.shape), tuple(batch)):
        return (
            f"attend expected a position (at) for each row of the batch {tuple(batch)}, got "
            f"{tuple(call.at.shape)}"
        )
    return None


def _state(call: Call) -> str | None:
    if call.state is None or call.carry is None:
        return None
    batch, (query, key, _) = _scores(call), call.tensors
    assert batch is not None
    scores, state = (*batch, query.shape[-2], key.shape[-2]), tuple(call.state.value.shape)
    if state != scores:
        return (
            f"{type(call.carry).__name__} expected a state like the scores {scores}, got {state}; "
            "give the state of the step before over the same keys, or None at the first"
        )
    return None


def _alike(call: Call) -> str | None:
    devices = {str(x.device) for x in call.tensors}
    if len(devices) > 1:
        return f"attend expected all tensors on one device, got {' and '.join(sorted(devices))}"
    dtypes = {str(x.dtype).removeprefix("torch.") for x in call.tensors}
    dtypes |= {str(x.dtype).removeprefix("torch.") for x in _weights(call.score).values()}
    if len(dtypes) > 1 and not torch.is_autocast_enabled(call.tensors[0].device.type):
        return (
            f"attend expected queries, keys, values and the weights of {type(call.score).__name__} "
            f"in one dtype, got {' and '.join(sorted(dtypes))}; convert with .to(dtype)"
        )
    return None


def _parts(call: Call) -> str | None:
    """Run each part on the first two queries and keys, which needs little memory."""
    query, key, value = (_blank(x) for x in call.tensors)
    sizes = f"queries of {query.shape[-1]} and keys of {key.shape[-1]}"
    small = replace(call, query=query, key=key, value=value, prepared=None, state=None, mask=None)
    part: Any = call.score
    try:
        keys = small.keys
        if call.prepared is not None and _widths(keys) != _widths(call.prepared):
            return (
                f"the keys of this memory were prepared by another layer, not by this "
                f"{type(part).__name__}; call remember of the layer that attends to it"
            )
        if call.position is not None:
            part = call.position
            query, keys = part.before(query, keys, at=call.at)
        features: Tensor | None = None
        score: Any = call.score
        part = score
        if call.carry is not None and getattr(score, "feature_dim", False):
            batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
            pairs = (*batch, query.shape[-2], key.shape[-2])
            features = query.new_zeros(*pairs, score.feature_dim)
        if hasattr(part, "turns") and query.shape[-1] != key.shape[-1] and not _weights(part):
            return (
                f"{type(part).__name__} expected queries and keys of one size, got {sizes}; "
                "General and Additive match two sizes"
            )
        scores = part(query, keys, at=call.at, features=features)
        if call.position is not None:
            part = call.position
            scores = part.bias(scores, query, at=call.at)
        part = call.select
        weights, _ = part(scores, query=query, mask=None, at=call.at)
        part, sizes = call.read, f"values of {value.shape[-1]}"
        part(weights, value, at=call.at)
    except RequestError as error:
        return str(error)
    except RAW as error:
        if any(word in str(error) for word in _FOLLOWED):
            return None
        return _unfit(part, sizes, error)
    return None


def _blank(x: Tensor) -> Tensor:
    """Two rows of zeros, enough to find mismatched sizes under any transform."""
    shape = (*x.shape[:-2], min(2, x.shape[-2]), x.shape[-1])
    return torch.zeros(shape, dtype=x.dtype, device=x.device)


def _unfit(part: Any, sizes: str, error: Exception) -> str:
    """A message for a part that was built for other sizes."""
    name = type(part).__name__
    said = ", ".join(f"{key} {tuple(x.shape)}" for key, x in _weights(part).items())
    if not said:
        return f"{name} does not take {sizes}: {error}"
    return f"{name} with {said} does not take {sizes}; build it for these sizes"


def _scores(call: Call) -> torch.Size | None:
    """The batch axes of the scores, or None where those of the tensors do not go together."""
    try:
        found: torch.Size = torch.broadcast_shapes(*(x.shape[:-2] for x in call.tensors))
    except RuntimeError:
        return None
    return found


def _fits(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether one shape broadcasts to the other."""
    if len(shape) > len(to):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def _shapes(call: Call) -> str:
    query, key, value = (tuple(x.shape) for x in call.tensors)
    return f"query {query}, key {key} and value {value}"


def _weights(part: Any) -> dict[str, Tensor]:
    return dict(part.named_parameters()) if isinstance(part, nn.Module) else {}


def _widths(prepared: Any) -> list[int]:
    """The sizes of prepared keys."""
    found = prepared if isinstance(prepared, tuple) else (prepared,)
    return [x.shape[-1] for x in found if isinstance(x, Tensor)]
