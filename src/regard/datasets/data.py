"""The splits of a task, with the problems found while reading them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.problems import Problems
from regard.data.text.tokenizer import Tokenizer
from regard.fields import Field
from regard.fields.sets import tokenizers_of

__all__ = ["Data"]


@dataclass(frozen=True)
class Data:
    """What `Task.data` read. A split that was not asked for or is not there is None.

    Args:
        fields: of the task, with what the training split says.
        sizes: what the model's constructor must know where fields do not say it.
        noted: what the files told beside the `data:` section, for the model folder.
        extras: what was read beside the splits, by name, as pretrained word vectors.
    """

    train: Any
    dev: Any
    test: Any
    fields: dict[str, Field]
    problems: Problems
    sizes: Mapping[str, int] | None = None
    extras: Mapping[str, Any] | None = None
    noted: Mapping[str, Any] | None = None

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Those of the texts among the fields."""
        return tokenizers_of(self.fields)
