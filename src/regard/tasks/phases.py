"""Phases of a training: what a model goes through before it is trained as it will be used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from regard.errors import RequestError
from regard.protocols import StartsLinear

__all__ = ["Phase", "linear_start"]


@dataclass(frozen=True)
class Phase:
    """A part of a training in which a model is in another mode.

    Which phase an update belongs to follows from its place and from what checkpoints keep. When a
    phase ends, the schedule of the learning rate restarts, and no score of the phase counts as
    the best so far. A score that does not improve ends the phase where it would end the training
    (`train.validate.patience`).

    Args:
        name: for the log and for checkpoints.
        mode: `mode(model, on)` puts a model in the mode of the phase, or takes it out.
        epochs: how long it lasts, in passes over the data, counted from its beginning.
        steps: the same in updates; the nearer limit ends it.
        ended: what the log says when it ends.
    """

    name: str
    mode: Callable[[nn.Module, bool], None]
    epochs: float | None = None
    steps: int | None = None
    ended: str = ""


def linear_start(model: nn.Module, epochs: float) -> Sequence[Phase]:
    """The phase of this many passes over the data; none where they are 0.

    Raises:
        RequestError: the model has no softmaxes to take out.
    """
    if not epochs:
        return ()
    if not isinstance(model, StartsLinear):
        raise RequestError(
            "task.linear_start is for models whose inner softmaxes can be taken out (memn2n), not "
            f"for {type(model).__name__}"
        )
    ended = "the linear start ends; the softmaxes are in from now on"
    return (Phase("linear start", _linear, epochs=epochs, ended=ended),)


def _linear(model: nn.Module, on: bool) -> None:
    if isinstance(model, StartsLinear):
        model.linear_start(on)
