"""Recorders of more than weights: contribution norms, gradients, rollout; of any model."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.attention import kernels
from regard.errors import RequestError, nearest
from regard.watching.foreign import GradientAsked, NormsAsked, gradients
from regard.watching.measures import Attached, Handed
from regard.watching.seen_views import Watched

if TYPE_CHECKING:
    from regard.attention.call import Call

__all__ = ["kind_of"]


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
        slopes = (
            torch.autograd.grad(
                total, [w for _, _, w in self._own], allow_unused=True, retain_graph=True
            )
            if self._own
            else ()
        )
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
