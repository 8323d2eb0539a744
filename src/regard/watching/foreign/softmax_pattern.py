"""Attention without a fused operation: a softmax whose result multiplies values.

Every tensor that comes out of a softmax over its last axis is followed, by the memory it lies in,
through views, casts, masks and dropout until a product sums over that axis. Then it was attention.
A product with a parameter does not count: that is a mixture of embeddings.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

__all__ = ["FORMS", "Met", "Pattern", "place_of"]

_aten = torch.ops.aten


@dataclass
class Trail:
    """A softmax on its way to the values.

    Args:
        weights: the newest form of it before dropout.
        dropped: dropout came since.
        open: one entry, shared by all tensors of one softmax, emptied when one is read.
    """

    weights: Tensor
    dropped: bool
    open: list[bool]


class Met(NamedTuple):
    """Weights that met their values.

    Args:
        weights: those of the softmax, before dropout.
        operand, values: the two tensors of the product; `left` says that weights stand first.
        result: what the product gave.
        known: how the two stand to each other is known, which it is not of an `einsum`.
    """

    weights: Tensor
    dropped: bool
    error: float
    operand: Tensor
    values: Tensor
    result: Tensor
    left: bool
    known: bool


class Pattern:
    """Follows softmaxes through the operations that it is shown.

    Args:
        parameters: of the model; what multiplies one of them is not followed.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = {place_of(p) for p in parameters}
        self.path = ""
        """Of the module that runs."""
        self._started: dict[str, list[list[bool]]] = {}
        self._trails: dict[int, tuple[StorageWeakRef, Trail]] = {}
        self._noise: dict[int, StorageWeakRef] = {}

    def before(self, func: Any, args: Sequence[Any]) -> None:
        """Shown an operation that is about to run: what it overwrites is kept."""
        name = func._schema.name
        if not self._trails or not func._schema.is_mutable or not args:
            return
        trail = self._trail(args[0])
        if trail is None:
            return
        if name in _OVERWRITES_BY_DROPOUT and self._is_noise(args[1:], name):
            if place_of(trail.weights) == place_of(args[0]):
                trail.weights = trail.weights.clone()
            trail.dropped = True
        elif name not in _OVERWRITES:
            del self._trails[place_of(args[0])]

    def after(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> Met | None:
        """Shown an operation that ran; gives the weights that it read, if it was such."""
        if func in _SOFTMAX:
            self._start(args[0], args[1] if len(args) > 1 else kwargs.get("dim"), result)
            return None
        if func in _NOISE:
            self._noise[place_of(args[0])] = StorageWeakRef(args[0].untyped_storage())
            return None
        if not self._trails:
            return None
        if func in _PRODUCTS:
            return self._product(func, args, result)
        if func in FORMS:
            self._follow(func, args, result)
        return None

    def _start(self, scores: Tensor, dim: Any, weights: Any) -> None:
        if not isinstance(weights, Tensor) or weights.dim() < 2:
            return
        if dim not in (-1, weights.dim() - 1) or not weights.is_floating_point():
            return
        self._forget()
        trail = Trail(weights.detach(), False, [True])
        self._note(weights, trail)
        started = self._started.setdefault(self.path, [])
        if len(started) > _MOST:  # of those that were read nothing need be kept
            started[:] = [own for own in started if own == [True]][:_MOST]
        started.append(trail.open)

    def unread(self) -> list[str]:
        """Paths of modules with a softmax that never met values, nor a table of parameters."""
        return [p for p, started in self._started.items() if any(o == [True] for o in started)]

    def _forget(self) -> None:
        """Drop what is gone, or was passed by without ever being read."""
        self._trails = {
            place: (ref, trail)
            for place, (ref, trail) in list(self._trails.items())[-_MOST:]
            if not ref.expired() and trail.open
        }
        self._noise = {p: ref for p, ref in self._noise.items() if not ref.expired()}

    def _note(self, tensor: Tensor, trail: Trail) -> None:
        self._trails[place_of(tensor)] = (StorageWeakRef(tensor.untyped_storage()), trail)

    def _trail(self, tensor: Any) -> Trail | None:
        if not isinstance(tensor, Tensor):
            return None
        known = self._trails.get(place_of(tensor))
        if known is None or known[0].expired() or not known[1].open:
            return None
        return known[1]

    def _is_noise(self, others: Sequence[Any], name: str = "") -> bool:
        if "dropout" in name:
            return True
        return any(isinstance(o, Tensor) and place_of(o) in self._noise for o in others)

    def _follow(self, func: Any, args: Sequence[Any], result: Any) -> None:
        """Casts, masks and dropout."""
        made = result[0] if isinstance(result, tuple | list) else result
        tensors = [a for a in args if isinstance(a, Tensor)]
        trail = next((t for t in map(self._trail, tensors) if t is not None), None)
        if trail is None or not isinstance(made, Tensor) or self._trail(made) is not None:
            return
        others = [t for t in tensors if self._trail(t) is not trail]
        now = replace(trail)
        if self._is_noise(others, func._schema.name):
            now.dropped = True
        elif func in _CHANGES and not trail.dropped and made.shape == trail.weights.shape:
            now.weights = made.detach()
        self._note(made, now)

    def _product(self, func: Any, args: Sequence[Any], result: Any) -> Met | None:
        pair = _operands(func, args)
        for weights, values, axis, whole in _sides(func, pair):
            trail = self._trail(weights)
            if trail is None:
                continue
            if place_of(values) in self._parameters:
                trail.open[:] = [False]  # a mixture of parameters; it may meet values yet
                continue
            if self._trail(values) is not None or not _sums_keys(weights, axis):
                continue
            read = self._read(trail, weights, values, result if whole else None)
            if read is None:
                return None
            kept, error = read
            known = func is not _aten.einsum.default
            return Met(kept, trail.dropped, error, weights, values, result, whole, known)
        return None

    def _read(
        self, trail: Trail, operand: Tensor, values: Tensor, output: Tensor | None
    ) -> tuple[Tensor, float] | None:
        """The weights that a product read, and how far they are from what it gave."""
        weights, keys = trail.weights, operand.shape[-1] if output is not None else None
        if keys is not None and keys != weights.shape[-1]:  # a sink stood behind the keys
            if keys > weights.shape[-1]:
                return None
            weights = weights[..., :keys]
        elif keys is None and max(operand.shape, default=0) < 1:
            return None
        trail.open.clear()
        return weights, _error(weights, operand, values, output, trail.dropped)


_MOST = 64
"""Tensors followed at a time: more are a model whose softmaxes are read by nobody."""


def place_of(tensor: Tensor) -> int:
    """The memory a tensor lies in: views of it have the same, whatever made them."""
    return int(tensor.untyped_storage()._cdata)


def _operands(func: Any, args: Sequence[Any]) -> list[Any]:
    if func is _aten.einsum.default:
        return list(args[1])
    return list(args[1:3] if func in _ADDED else args[:2])


def _sides(func: Any, pair: list[Any]) -> Iterator[tuple[Tensor, Tensor, int, bool]]:
    """Either operand as weights, with the axis that is summed over, and whether it is A of A·B."""
    if len(pair) != 2 or not all(isinstance(p, Tensor) for p in pair):
        return
    if func is _aten.einsum.default:
        for one, other in (pair, pair[::-1]):
            last = max(range(one.dim()), key=lambda a: (one.stride(a) == 1, one.shape[a], a))
            yield one, other, last, False
        return
    yield pair[0], pair[1], -1, True
    if pair[1].dim() >= 2:
        yield pair[1], pair[0], -2, False


def _sums_keys(weights: Tensor, axis: int) -> bool:
    """Whether the axis is that of the softmax: it lies contiguous, as the softmax made it."""
    return weights.dim() > 0 and (weights.shape[axis] == 1 or weights.stride(axis) == 1)


def _error(
    weights: Tensor, operand: Tensor, values: Tensor, output: Tensor | None, dropped: bool
) -> float:
    """The largest difference to what the model read; not a number where forms differ."""
    if dropped or output is None or operand.numel() != weights.numel():
        return float("nan")
    same = weights.reshape(operand.shape).to(operand.dtype)
    if output.shape[:-1] != operand.shape[:-1] or not torch.equal(same, operand):
        return float("nan")
    return float((same @ values - output).abs().max()) if output.numel() else 0.0


def _known(*names: str) -> frozenset[Any]:
    """Operations by name and overload; those that this PyTorch lacks are left out."""
    found = set()
    for name in names:
        packet, _, overload = name.partition(".")
        known = getattr(_aten, packet, None)
        if known is not None and hasattr(known, overload or "default"):
            found.add(getattr(known, overload or "default"))
    return frozenset(found)


_SOFTMAX = _known("_softmax", "_safe_softmax", "softmax.int", "special_softmax")
_NOISE = _known("bernoulli_.float", "bernoulli_.Tensor")
_ADDED = _known("baddbmm", "addmm")
_PRODUCTS = _known("bmm", "mm", "matmul", "einsum") | _ADDED
_CHANGES = _known(
    "mul.Tensor",
    "mul.Scalar",
    "div.Tensor",
    "div.Scalar",
    "masked_fill.Scalar",
    "masked_fill.Tensor",
    "where.self",
    "where.ScalarOther",
    "nan_to_num",
)
FORMS = _CHANGES | _known(
    "_to_copy",
    "to.dtype",
    "clone",
    "contiguous",
    "reshape",
    "_unsafe_view",
    "native_dropout",
    "dropout",
    "type_as",
    "constant_pad_nd",
    "expand",
    "detach",
    "flatten.using_ints",
    "permute",
    "transpose.int",
    "_reshape_copy",
)
_OVERWRITES = frozenset({"aten::mul_", "aten::div_", "aten::masked_fill_", "aten::nan_to_num_"})
_OVERWRITES_BY_DROPOUT = frozenset({"aten::mul_", "aten::dropout_"})
