"""Phases of a training: what a model goes through before it is trained as it will be used."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

__all__ = ["Phase"]


@dataclass(frozen=True)
class Phase:
    """A part of a training in which a model is in another mode.

    Which phase an update belongs to follows from its place and from what checkpoints keep. When a
    phase ends, the schedule of the learning rate starts anew, and no score of the phase counts as
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
