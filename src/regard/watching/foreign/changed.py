"""Attention of a model that is not ours, made to look elsewhere while a block runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RequestError
from regard.watching.foreign.flexible import flexible, is_flexible
from regard.watching.foreign.fused import FUSED, Fused
from regard.watching.foreign.interceptor import Interceptor, refuse_compiled, unpacked, with_heads
from regard.watching.foreign.running_modules import Places, Running
from regard.watching.foreign.softmax_pattern import Met

__all__ = ["changing"]

Change = Callable[[Tensor], Tensor]


@contextmanager
def changing(model: nn.Module, change: Change, only: str | None = None) -> Iterator[None]:
    """While the block runs, attention reads with other weights; the model itself is not touched.

    A fused operation runs as it is, and what other weights read is given in place of its output.

    Args:
        change: weights to weights.
        only: the path of one attention, as `watch` names it; all that are inside where None.

    Shapes:
        weights (B, H, Q, K), or (B, Q, K) of an attention that has no heads

    Raises:
        RequestError: gradients would be taken, which would be those of the model's own weights;
            nothing that looks like attention ran; a compiled model.
    """
    refuse_compiled(model)
    places = Places(model)
    mode = _Changer(places, model, change, only)
    try:
        with mode:
            yield
    finally:
        places.close()
    if not mode.changed:
        raise RequestError(
            f"{only or 'the module'}: no attention of it ran while its weights were to be changed"
        )


class _Nobody:
    """Stands where a recorder would: nothing is kept."""

    tiles = False


class _Changer(Interceptor):
    """Runs each operation as it is, and gives what other weights read in its place."""

    changes = True

    def __init__(self, places: Places, model: nn.Module, change: Change, only: str | None) -> None:
        super().__init__(_Nobody(), places, list(model.parameters()))
        self._change, self._only = change, only
        self.changed = 0

    def look(self, here: Running, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        if func in FUSED:
            fused = FUSED[func](func, args, kwargs, result)
        elif is_flexible(func):
            fused = flexible(args, result)
        else:
            read = self._pattern.after(func, args, kwargs, result)
            if read is not None and self._wants(here):
                return self._product(here, func, args, kwargs, read)
            return result
        if fused.parameter is not None:
            self._places.use([fused.parameter])
            here = self._places.here() or here
        if not self._wants(here):
            return result
        _refuse_gradients(here, *args, *kwargs.values())  # what a reader makes of them has none
        return self._fused_changed(here, fused, result)

    def _wants(self, here: Running) -> bool:
        return self._only is None or here.path == self._only

    def _new(self, here: Running, weights: Tensor, known: torch.Size) -> Tensor:
        """Other weights, of the same shape; `known` is that of the softmax."""
        headed = weights.reshape(known) if known.numel() == weights.numel() else weights
        self.changed += 1
        return self._change(with_heads(headed, here.heads)).reshape(weights.shape)

    def _fused_changed(self, here: Running, fused: Fused, result: Any) -> Any:
        given = fused.output
        if given is None:
            raise RequestError(
                f"{here.path}: it runs on nested tensors, whose weights cannot be changed; "
                "build nn.TransformerEncoder with enable_nested_tensor=False"
            )
        products, _ = unpacked(here, fused)
        weights = products.weights()
        context = products.read(self._new(here, weights, weights.shape))
        context = fused.finish(context.to(given.dtype)) if fused.finish else context
        context = context.reshape(given.shape).to(given.dtype)
        return (context, *result[1:]) if isinstance(result, tuple | list) else context

    def _product(self, here: Running, func: Any, args: Any, kwargs: Any, read: Met) -> Any:
        _refuse_gradients(here, read.operand, read.values)
        if not read.known:
            raise RequestError(
                f"{here.path}: how its values stand to its weights is not known; run it under "
                "torch.no_grad() in place of torch.inference_mode()"
            )
        own = read.operand if read.left else read.operand.mT
        new = self._new(here, own, read.weights.shape).to(own.dtype)
        new = new if read.left else new.mT
        return func(*(new if a is read.operand else a for a in args), **kwargs)


def _refuse_gradients(here: Running, *tensors: Any) -> None:
    if torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in tensors):
        raise RequestError(
            f"{here.path}: weights of a model that is not ours are changed without gradients; "
            "run it under torch.no_grad()"
        )
