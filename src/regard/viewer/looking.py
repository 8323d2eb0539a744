"""What a model looked at, of any task; of one that writes, what each hypothesis did."""

from collections.abc import Sequence
from typing import Any

from regard.tasks._views.generation import (
    KINDS,
    Look,
    look,
    look_all,
    looks_view,
    token_scores,
)
from regard.tasks._views.loaded import LoadedModel
from regard.viewer._drawable import DrawableView, drawable
from regard.views import ViewOptions

__all__ = ["KINDS", "Look", "look", "look_all", "looks_view", "token_scores", "view_of"]


def view_of(loaded: LoadedModel, inputs: str | Sequence[str], **options: Any) -> DrawableView:
    """What `regard look` shows of inputs: a view to draw, to save and to take weights from.

    Args:
        loaded: what `regard.load` gives.
        inputs: one, or several.
        options: of `regard.views.ViewOptions`, as `target`.

    Raises:
        RequestError: an input is empty or refused, or the task cannot use an option.
    """
    every = [inputs] if isinstance(inputs, str) else list(inputs)
    return drawable(loaded.task.view(loaded, every, ViewOptions(**options)))
