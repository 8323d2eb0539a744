"""Weights of attention as outputs of a program, for watchers and coverage.

A step that is recorded with `AskedWeights` asks every attention for its weights, and keeps whose
they are. Its program returns them beside the logits, and `show` passes them to the watchers. So a
step that is watched needs no PyTorch.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, NamedTuple

from torch import Tensor, nn

from regard.attention.call import Call
from regard.attention.recording import Seen, note, scope, scopes
from regard.decode.program.tree import Ref

__all__ = ["AskedWeights", "ShownAttention", "named", "say_watched", "show"]

log = logging.getLogger(__name__)


class ShownAttention(NamedTuple):
    """An attention of a step.

    Args:
        path: of its module in the model, or the name of a bare `attend`.
        is_module: which of them `path` is.
        scopes: the turns of loops that it was in (`regard.attention.recording.scope`).
    """

    path: str
    is_module: bool
    scopes: tuple[tuple[str, int], ...]


class AskedWeights(Seen):
    """The watcher of a recording, which keeps who shows weights.

    Args:
        refuse: is called with a clause where a layer shows weights of its own, which are no output
            of an attention.
    """

    def __init__(self, refuse: Callable[[str], None]) -> None:
        super().__init__(None)
        self._refuse = refuse
        self.owners: list[tuple[object, tuple[tuple[str, int], ...]]] = []
        self.weights: list[Ref] = []

    def name_of(self, owner: object) -> str | None:
        """Everything is looked at."""
        return "attention"

    def meet(self, name: str, call: Call, weights: Tensor, owner: object) -> None:
        """An attention: its node gives the weights."""

    def meet_again(self, name: str, call: Call, owner: object) -> None:
        """The same."""

    def add(self, name: str, weights: Tensor, owner: object, **more: Any) -> None:
        """Weights of another layer."""
        self._refuse("a layer shows weights of its own")

    def give(self, owner: object, weights: Any) -> None:
        """The weights of an attention that was recorded."""
        if isinstance(weights, Ref):
            self.owners.append((owner, scopes()))
            self.weights.append(weights)
        else:
            self._refuse("an attention gives no weights")


def named(model: nn.Module, owners: Sequence[tuple[object, Any]]) -> list[ShownAttention]:
    """The owners by their names: programs keep no model alive."""
    paths = {id(module): path for path, module in model.named_modules()}
    found = []
    for owner, turns in owners:
        is_module = isinstance(owner, nn.Module)
        path = paths.get(id(owner), "") if is_module else str(owner or "attend")
        found.append(ShownAttention(path, is_module, turns))
    return found


def show(model: nn.Module, attentions: Sequence[ShownAttention], weights: Sequence[Tensor]) -> None:
    """Give the weights of a step to who watches."""
    for one, each in zip(attentions, weights, strict=True):
        owner = model.get_submodule(one.path) if one.is_module else one.path
        with ExitStack() as stack:
            for name, index in one.scopes:
                stack.enter_context(scope(name, index))
            note(owner, each)


@lru_cache
def say_watched(precision: str) -> None:
    """Say once that steps which somebody watches are float32."""
    if precision != "float32":
        log.warning(
            "decode.precision: %s shows no attention in this model; steps that are watched "
            "have float32 weights",
            precision,
        )
