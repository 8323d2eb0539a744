"""Linear start: a phase without the softmaxes inside a model (Sukhbaatar et al. 2015, 4.4)."""

from collections.abc import Sequence

from torch import nn

from regard.errors import RequestError
from regard.protocols import StartsLinear
from regard.tasks.phases import Phase

__all__ = ["linear_start"]


def linear_start(model: nn.Module, epochs: float) -> Sequence[Phase]:
    """The phase of so many passes over the data; none where they are 0.

    Raises:
        RequestError: the model has no softmaxes to take out.
    """
    if not epochs:
        return ()
    if not isinstance(model, StartsLinear):
        raise RequestError(
            "task.linear_start is for models whose inner softmaxes can be taken out (memn2n); "
            f"{type(model).__name__} is none"
        )
    ended = "the linear start ends; the softmaxes are in from now on"
    return (Phase("linear start", _linear, epochs=epochs, ended=ended),)


def _linear(model: nn.Module, on: bool) -> None:
    if isinstance(model, StartsLinear):
        model.linear_start(on)
