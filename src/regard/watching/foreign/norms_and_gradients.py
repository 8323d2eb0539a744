"""More than weights of a model that is not ours: how much arrived, what moves a score.

    norms      α_ij ‖v_j W^O_h‖        W^O_h: the head's part of the linear layer that follows
    gradient   α_ij ∂s / ∂α_ij = α_ij (∂s / ∂c_i · v_j)        c = A V, what the kernel gives

The second needs no kernel that keeps weights: autograd gives ∂s / ∂c for the kernel's own output.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from regard.attention.record import Facts, Record
from regard.errors import RequestError
from regard.watching.foreign.interceptor import Interceptor, Looked
from regard.watching.foreign.running_modules import Places, Running
from regard.watching.foreign.softmax_pattern import FORMS, place_of

__all__ = ["GradientAsked", "NormsAsked", "gradients"]

_aten = torch.ops.aten
_LINEAR: dict[Any, tuple[int, int]] = {
    _aten.addmm.default: (1, 2),
    _aten.mm.default: (0, 1),
    _aten.linear.default: (0, 1),
    _aten.matmul.default: (0, 1),
}
"""Products with a matrix: which argument is multiplied, and which is the matrix."""


@dataclass(frozen=True)
class _Asked:
    """One step of a record, and what was read."""

    record: Record
    step: int
    looked: Looked

    @property
    def weights(self) -> Tensor:
        """Its weights, with the axes of the record."""
        weights = self.record.kept[self.step]
        assert isinstance(weights, Tensor)
        return weights

    def behind(self, tensor: Tensor) -> Tensor:
        """Values, outputs or their gradients, with the record's axes before the last two."""
        return tensor.detach().reshape(*self.weights.shape[:-2], *tensor.shape[-2:])

    def scale(self, matrix: Tensor | None) -> None:
        """Multiply the weights by the sizes of the values, behind W^O where there is one.

        Shapes:
            matrix (H · V, D)
        """
        weights = self.weights
        handed = self.behind(self.looked.values).to(weights.dtype)
        if matrix is not None:
            heads = handed.shape[-3] if handed.dim() > 3 else 1
            handed = handed if handed.dim() > 3 else handed[:, None]
            own = matrix.detach().to(weights.dtype).unflatten(0, (heads, -1))
            handed = torch.einsum("bhkv,hvd->bhkd", handed, own)
        sizes = torch.linalg.vector_norm(handed, dim=-1)[..., None, :]
        self.record.kept[self.step] = weights * sizes.reshape(
            *weights.shape[:-2], 1, weights.shape[-1]
        )
        facts = self.record.facts[self.step]
        self.record.facts[self.step] = facts._replace(projected=matrix is not None)


class _Asking(Interceptor):
    """Keeps what was read beside the weights."""

    def write(
        self, name: str, here: Running, weights: Any, facts: Facts, looked: Looked | None
    ) -> None:
        if looked is None:
            raise RequestError(
                f"{name}: how its values stand to its weights is not known; run it under "
                "torch.no_grad() in place of torch.inference_mode(), or choose others by only="
            )
        super().write(name, here, weights, facts, looked)
        record: Record = self._seen[name]
        self.ask(_Asked(record, len(record.kept) - 1, looked))

    def ask(self, one: _Asked) -> None:
        """Shown each step as it is written down."""


class NormsAsked(_Asking):
    """Writes weights times the length of what each head hands over of a value.

    The linear layer is found by following what the kernel gave, through transpositions and
    copies, to the first product with a parameter, and taken where it reads just that, head by head.
    Where none is found the value itself counts, and `Facts.projected` says so.
    """

    def __init__(self, seen: Any, places: Places, parameters: Sequence[Tensor]) -> None:
        super().__init__(seen, places, parameters)
        self._own = {place_of(p) for p in parameters}
        self._trails: dict[int, tuple[StorageWeakRef, _Asked]] = {}
        self._waiting: list[_Asked] = []

    def ask(self, one: _Asked) -> None:
        if one.looked.projection is not None:
            one.scale(one.looked.projection.mT)
            return
        self._waiting.append(one)
        self._note(one.looked.output, one)

    def _note(self, tensor: Tensor, one: _Asked) -> None:
        self._trails[place_of(tensor)] = (StorageWeakRef(tensor.untyped_storage()), one)

    def look(self, here: Running, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        if self._waiting:
            self._follow(func, args, result)
        return super().look(here, func, args, kwargs, result)

    def _follow(self, func: Any, args: Sequence[Any], result: Any) -> None:
        at, other = _LINEAR.get(func, (0, -1))
        given: Any = args[at] if len(args) > at else None
        known = self._trails.get(place_of(given)) if _dense(given) else None
        if known is None or known[0].expired() or known[1] not in self._waiting:
            return
        one = known[1]
        if other < 0:
            if func in FORMS and _dense(result) and place_of(result) != place_of(given):
                self._note(result, one)
            return
        matrix = args[other]
        if not _dense(matrix) or matrix.dim() != 2 or place_of(matrix) not in self._own:
            return
        if _reads(given, one):
            self._waiting = [w for w in self._waiting if w is not one]
            one.scale(matrix.mT if func is _aten.linear.default else matrix)

    def finish(self) -> None:
        for one in self._waiting:
            one.scale(None)
        super().finish()


def _dense(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and tensor.layout is torch.strided and not tensor.is_nested


def _reads(given: Tensor, one: _Asked) -> bool:
    """Whether a product reads just what the kernel gave: heads side by side."""
    output = one.looked.output.mT if one.looked.swapped else one.looked.output
    output = one.behind(output)
    output = output if output.dim() > 3 else output[:, None]  # (B, H, Q, V)
    width = output.shape[1] * output.shape[3]
    if output.dim() != 4 or given.shape[-1] != width or given.numel() != output.numel():
        return False
    rows = given.reshape(-1, width)
    orders = (output.transpose(1, 2), output.permute(2, 0, 1, 3))  # by example, by position
    return any(torch.equal(rows, o.reshape(-1, width).to(rows.dtype)) for o in orders)


class GradientAsked(_Asking):
    """Keeps what weights times the gradient of a score by them is computed from."""

    def __init__(self, seen: Any, places: Places, parameters: Sequence[Tensor]) -> None:
        super().__init__(seen, places, parameters)
        self._asked: list[_Asked] = seen.asked

    def ask(self, one: _Asked) -> None:
        values = one.looked.values.detach().clone()  # a cache may be written again
        self._asked.append(replace(one, looked=one.looked._replace(values=values)))


def gradients(asked: Sequence[_Asked], total: Tensor) -> None:
    """Put weights times the gradient of a score in place of the weights.

    Raises:
        RequestError: an attention was run without gradients.
    """
    for one in asked:
        if not one.looked.output.requires_grad:
            raise RequestError(
                f"{one.record.name}: its output has no gradient; run the model without "
                "torch.no_grad() and with parameters that require gradients"
            )
    if not asked:
        return
    slopes: Sequence[Tensor | None] = torch.autograd.grad(
        total, [one.looked.output for one in asked], allow_unused=True, retain_graph=True
    )
    for one, slope in zip(asked, slopes, strict=True):
        weights = one.weights
        if slope is None:
            one.record.kept[one.step] = torch.zeros_like(weights)
            continue
        slope = one.behind(slope.mT if one.looked.swapped else slope).to(weights.dtype)
        values = one.behind(one.looked.values).to(weights.dtype)
        one.record.kept[one.step] = weights * (slope @ values.mT)
