"""What a program belongs to: the structure and the weights of a model at one moment."""

import os
from functools import cached_property
from typing import Any

import torch
from torch import nn

from regard import native
from regard.attention._kernels.compared import wanted
from regard.attention.call import unforced
from regard.decode.program.instructions import STEP
from regard.decode.program.recorder import NotRecorded
from regard.decode.program.rows import NotLowered
from regard.decode.program.structure import structure
from regard.native.fingerprint import fingerprint

__all__ = ["ModelState", "failure"]

HOME = "regard.models."
"""Where models come from whose calls have no effects beside what they give, and subclasses'."""


class ModelState:
    """A model as it is now. What is compared is computed once, when it is first asked for.

    Args:
        model: in eval mode.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    @cached_property
    def form(self) -> list[Any]:
        """Its classes, hooks and settings."""
        return structure(self.model)

    @cached_property
    def weights(self) -> Any:
        """What its weights and buffers are, and the level of instructions."""
        each = [*self.model.parameters(), *self.model.buffers()]
        return fingerprint(each), native.level()

    @cached_property
    def _refusal(self) -> str | None:
        return _refusal(self.model)

    def refusal(self, precision: str = "float32") -> str | None:
        """What speaks against a program before anything is recorded, in a clause."""
        if self._refusal is None and precision == "float32" and native.level() == "portable":
            return "C has no vector instructions here, and PyTorch's products are faster"
        return self._refusal


def failure(error: Exception, what: str) -> str:
    """Why there is no program, in a clause: the model goes on without one.

    Args:
        what: was to be recorded.
    """
    if isinstance(error, NotRecorded):
        return f"{what} cannot be recorded: {error}"
    if isinstance(error, NotLowered):
        return f"C has no instruction for {error}"
    return f"recording {what} failed ({type(error).__name__}: {error})"


def _refusal(model: nn.Module) -> str | None:
    """What speaks against any program of a model, in a clause."""
    if os.environ.get("REGARD_PROGRAM", "1") == "0":
        return "REGARD_PROGRAM is 0"
    if not any(kind.__module__.startswith(HOME) for kind in type(model).__mro__):
        return f"{type(model).__name__} is not one of regard.models, nor a subclass"
    if native.unavailable_reason(STEP.name) is not None:
        return f"there is no C ({native.missing() or 'the function is not in it'})"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    if not unforced() or wanted():
        return "a kernel of attention is asked for"
    for name, p in model.named_buffers():
        if p.device.type != "cpu":
            return f"{name} is on {p.device.type}"
    for name, p in model.named_parameters():
        if p.device.type != "cpu" or p.dtype != torch.float32:
            return f"{name} is {p.dtype} on {p.device.type}"
    return None
