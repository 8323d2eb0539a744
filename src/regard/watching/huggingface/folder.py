"""A Hugging Face folder as a loaded model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.errors import RequestError
from regard.viewer._drawable import DrawableView
from regard.views import ViewOptions
from regard.watching.huggingface.images_and_audio import (
    transcribed,
)
from regard.watching.huggingface.inputs import FolderInput, looked, telling
from regard.watching.huggingface.texts import translated

__all__ = ["Reader", "TransformersFolder"]


Reader = Callable[["TransformersFolder", str, str | None, int | None], FolderInput]
"""Reads one input: the folder, the input, an output that is given, the most tokens to write."""


@dataclass(frozen=True)
class TransformersFolder:
    """A model, what makes its inputs, and how its kind is looked at.

    Args:
        tokenizer: of texts that it reads or writes, or None.
        features: its image processor or feature extractor, or None.
    """

    folder: str
    name: str
    model: Any
    tokenizer: Any
    look: Reader
    features: Any = None

    def view(
        self, texts: Sequence[str], options: ViewOptions, longest: int | None = None
    ) -> DrawableView:
        """Several inputs, each with every attention of the model.

        Args:
            longest: how many tokens are written at most.

        Raises:
            RequestError: an option that this kind of model cannot use, or a text that is empty.
        """
        known = ("target",) if self.look in (translated, transcribed) else ()
        options.only("measure", "why", *known, task=self.name)
        views = [self._one(text, options, longest) for text in texts]
        whole = views[0]
        for view in views[1:]:
            whole = whole + view
        return replace(whole, title=f"{self.folder} · {texts[0]}")

    def _one(self, text: str, options: ViewOptions, longest: int | None) -> DrawableView:
        if not text.strip():
            raise RequestError("the input is empty: there is nothing to look at")
        with telling(self.folder):
            reading = self.look(self, text, options.target, longest)
            made = looked(self, reading, options)
        runs = [replace(run, input=text, model=self.name, folder=self.folder) for run in made.runs]
        return replace(made, runs=runs)
