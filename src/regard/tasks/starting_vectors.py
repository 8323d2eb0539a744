"""Tasks whose models may start from word vectors that were learned elsewhere."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import nn

from regard.datasets.data import Data
from regard.errors import RequestError
from regard.fields import TextField
from regard.tasks.base import Task

__all__ = ["FromVectors"]

VECTORS = {"path": str, "most": int, "tune": bool, "normalize": bool}
"""Of each key of `data.vectors` its type; see `fields.pretrained.Pretrained`."""


class FromVectors(Task):
    """A task with `data.vectors`: a model's `embed` starts from the vectors of a file."""

    texts: ClassVar[tuple[str, ...]] = ("text",)
    """The fields that a model reads, in its order."""

    @property
    def data_types(self) -> Mapping[str, Any]:
        """Of each key of `data:` its type."""
        return {**super().data_types, "vectors": VECTORS}

    @torch.no_grad()
    def prepare(self, model: nn.Module, data: Data) -> None:
        """Give the model its word vectors.

        Raises:
            RequestError: the model's vectors are of another size.
        """
        field = data.fields[self.texts[0]]
        if not isinstance(field, TextField) or field.pretrained is None:
            return
        embed: Any = getattr(model, "embed", None)
        if embed is None:
            raise RequestError(f"data.vectors: {type(model).__name__} has no word vectors")
        weight: nn.Parameter = embed.weight
        rows, known = field.pretrained.table(field.tokenizer.vocabulary)
        if rows.shape[1] != weight.shape[1]:
            raise RequestError(
                f"model.embed: expected {rows.shape[1]}, the size of the vectors in "
                f"{field.pretrained.path}, got {weight.shape[1]}"
            )
        weight[known] = rows.to(weight.dtype)
        weight.requires_grad_(field.pretrained.tune)
