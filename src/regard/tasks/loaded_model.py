"""What a view is made from: a model with all it needs to be used, as `regard.load` gives it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import nn

from regard.data.text.tokenizer import Tokenizer
from regard.tasks.prediction import Prediction
from regard.viewer._drawable import DrawableView, drawable
from regard.views import ViewOptions

__all__ = ["LoadedModel", "name_of", "view_of"]


@runtime_checkable
class LoadedModel(Protocol):
    """The part of `regard.folder.loaded.Loaded` that views use; the store is on a higher floor."""

    @property
    def model(self) -> nn.Module:
        """In evaluation mode."""
        ...

    @property
    def task(self) -> Any:
        """Which kind of work it does."""
        ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """The columns of its data, by name."""
        ...

    @property
    def tokenizers(self) -> Mapping[str, Tokenizer]:
        """By side."""
        ...

    @property
    def decoder(self) -> Any:
        """What writes, where the task writes."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """What the folder's `config.json` says."""
        ...

    def predict(self, texts: Sequence[str], n_best: int = 1) -> list[Prediction]:
        """Predict each text."""
        ...

    def with_decoder(self, n_best: int = 1, **overrides: Any) -> Any:
        """The same with another decoder."""
        ...


def name_of(loaded: LoadedModel) -> str:
    """What the model is called."""
    found: str = loaded.config["model"]["name"]
    return found


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
