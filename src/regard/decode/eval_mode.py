"""A model in eval mode for as long as it decodes."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from regard.decode.program.in_c import InC
from regard.protocols import Generator

__all__ = ["frozen"]


@contextmanager
def frozen(model: Generator) -> Iterator[bool]:
    """Put every module below `model` in eval mode, and back in the mode it had.

    The block is told whether the model was in training mode.
    """
    own = model.model if isinstance(model, InC) else model
    modules = list(own.modules()) if isinstance(own, nn.Module) else []
    training = [m for m in modules if m.training]
    for m in training:
        m.training = False
    try:
        yield isinstance(own, nn.Module) and own in training
    finally:
        for m in training:
            m.training = True
