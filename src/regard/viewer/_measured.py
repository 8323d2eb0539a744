"""Recorders of more than weights: contribution norms, gradients, rollout; of any model."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.attention import Record, kernels
from regard.attention._foreign import GradientAsked, NormsAsked, gradients
from regard.errors import RequestError, nearest
from regard.viewer.watching import Watched
from regard.views.measures import Attached, Handed, rolled

if TYPE_CHECKING:
    from regard.attention.call import Call

__all__ = ["kind_of", "rollout"]


class _Norms(Handed, Watched):
    """Weights times the length of what each head hands over of a value."""

    intercepts = NormsAsked
    what = "norms"


class _Gradient(Attached, Watched):
    """Weights times their gradients, once `backward` was told of what."""

    intercepts = GradientAsked
    what = "gradient"

    def __init__(self, model: Any, only: str | None, **options: Any) -> None:
        super().__init__(model, only, **options)
        self.asked: list[Any] = []
        self._own: list[tuple[str, int, Tensor]] = []
        self._done = False

    def meet(self, name: str, call: "Call", weights: Tensor, owner: object) -> None:
        super().meet(name, call, weights, owner)
        self._own.append((name, len(self[name].kept) - 1, weights))

    def backward(self, score: Tensor) -> Watched:
        if not isinstance(score, Tensor) or score.numel() != 1:
            shape = tuple(score.shape) if isinstance(score, Tensor) else type(score).__name__
            raise RequestError(f"backward: expected a score of one number, got {shape}")
        if not score.requires_grad:
            raise RequestError(
                "backward: the score has no gradient; run the model without torch.no_grad() and "
                "with parameters that require gradients"
            )
        if not len(self):
            raise RequestError("backward: nothing was seen inside the block")
        total = score.reshape(())
        gradients(self.asked, total)
        slopes = torch.autograd.grad(
            total, [w for _, _, w in self._own], allow_unused=True, retain_graph=True
        ) if self._own else ()  # fmt: skip
        for (name, step, weights), slope in zip(self._own, slopes, strict=True):
            moved = torch.zeros_like(weights) if slope is None else weights * slope
            self[name].kept[step] = moved.detach()
        self.asked, self._own, self._done = [], [], True
        return self

    def view(self, **options: Any) -> Any:
        if not self._done:
            raise RequestError("gradients are not there yet: call seen.backward(score) first")
        return super().view(**options)


def kind_of(measure: str) -> tuple[type[Watched], AbstractContextManager[Any]]:
    """The recorder of a measure, and what has to be around the run.

    Raises:
        RequestError: there is no such measure.
    """
    known = ("weights", "norms", "gradient")
    if measure == "rollout":
        raise RequestError("measure: rollout is made of weights: seen.rollout() behind the block")
    if measure not in known:
        raise RequestError(f"there is no measure {measure!r}; {nearest(measure, known)}")
    if measure == "norms":
        return _Norms, nullcontext()
    return _Gradient, kernels("reference")  # our own then read with the weights that they show


class _Rollout(Watched):
    what = "rollout"


def rollout(seen: Watched) -> Watched:
    """`Watched.rollout`."""
    stacks: dict[str, list[Record]] = {}
    for record in seen.values():
        own = "edge" not in record.axes and not record.features and record.role != "cross"
        if own and all(s[-1] == s[-2] for s in (step.shape for step in record.kept)):
            stacks.setdefault(record.role, []).append(record)
    if not stacks:
        raise RequestError("rollout: nothing that looks at itself was seen, with all its rows")
    made = _Rollout(None, None)
    made._labels = list(seen._labels)
    for role, records in stacks.items():
        steps = [step for record in records for step in record.steps]
        names = [record.name for record in records for _ in record.steps]
        shapes = {(step.shape[0], step.shape[-1]) for step in steps}
        if len(shapes) > 1:
            raise RequestError(
                f"rollout: layers of {role or 'the model'} differ in examples or length: "
                + ", ".join(f"{n} × {t}" for n, t in sorted(shapes))
            )
        if len(records) > 1 and len(steps) > len(records):
            raise RequestError(
                "rollout: a layer was called several times; watch one call of the model"
            )
        examples = [
            rolled({str(n): _headed(step[e]) for n, step in enumerate(steps)})
            for e in range(steps[0].shape[0])
        ]
        for n, name in enumerate(names):
            record = made._records.setdefault(name, Record(name, True, role=role))
            record.kept.append(torch.stack([one[str(n)] for one in examples]))
            record.scopes.append({"call": n + 1} if len(steps) > len(records) else {})
            record.rows.append({})
    return made


def _headed(weights: Tensor) -> Tensor:
    """([head,] T, T) to (head, T, T)."""
    return weights if weights.dim() == 3 else weights[None]
