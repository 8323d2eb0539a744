"""Tasks whose models may start from word vectors that were learned elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.datasets.data import Data
from regard.errors import RequestError
from regard.fields import TextField
from regard.fields.contextual import TYPES, EncoderStates
from regard.fields.pretrained import Pretrained
from regard.layers.embed import Embed
from regard.protocols import Branched
from regard.tasks.base import Task

__all__ = ["FromVectors", "parts_of", "places_of_states", "read_states"]

VECTORS = {"path": str, "most": int, "tune": bool, "normalize": bool, **TYPES}
"""Of each key of `data.vectors` its type; see `fields.pretrained` and `fields.contextual`."""


class FromVectors(Task):
    """A task with `data.vectors`: a model's `embed` starts from a file, or reads an encoder."""

    texts: ClassVar[tuple[str, ...]] = ("text",)
    """The fields that a model reads, in its order."""

    @property
    def data_types(self) -> Mapping[str, Any]:
        """Of each key of `data:` its type."""
        return {**super().data_types, "vectors": VECTORS}

    @torch.no_grad()
    def prepare(self, model: nn.Module, data: Data) -> None:
        """Give the model its word vectors, and what it reads the states of an encoder with.

        Raises:
            RequestError: the model's vectors are of another size, or it has no place for states.
        """
        field = data.fields[self.texts[0]]
        if not isinstance(field, TextField):
            return
        if field.pretrained is not None:
            wider = field.contextual is not None
            _fill(model, field.pretrained, field.tokenizer.vocabulary, wider)
        if field.contextual is not None:
            read_states(model, field.contextual)


def read_states(model: nn.Module, encoder: EncoderStates) -> nn.Module:
    """Let a model read the states of an encoder beside its words.

    Args:
        encoder: of which the size is known.

    Raises:
        RequestError: the model cannot.
    """
    for embed in places_of_states(model, type(model).__name__):
        embed.take_states(len(encoder.layers), int(encoder.known["size"]), encoder.words)
    return model


def places_of_states(model: nn.Module, name: str) -> list[Embed]:
    """The layers of a model that may be given the states of an encoder beside its words.

    One of each branch that reads them.

    Args:
        name: what to call the model.

    Raises:
        RequestError: it has none.
    """
    every = [getattr(one, "embed", None) for one in parts_of(model)]
    found = [one for one in every if isinstance(one, Embed) and one.contextual]
    if not found:
        raise RequestError(
            f"data.vectors.encoder: {name} does not read the states of an encoder; leave it out, "
            "or take another model, as bilstm"
        )
    return found


def parts_of(model: nn.Module) -> list[nn.Module]:
    """The branches of a model, or the model alone."""
    return [*model.branches.values()] if isinstance(model, Branched) else [model]


def _fill(model: nn.Module, pretrained: Pretrained, vocabulary: Sequence[str], wider: bool) -> None:
    every: list[Any] = [getattr(one, "embed", None) for one in parts_of(model)]
    embeds = [one for one in every if one is not None]
    if not embeds:
        raise RequestError(f"data.vectors: {type(model).__name__} has no word vectors")
    rows, known = pretrained.table(vocabulary)
    for embed in embeds:
        _start(embed.weight, rows, known, pretrained, wider)


def _start(
    weight: nn.Parameter, rows: Tensor, known: Tensor, pretrained: Pretrained, wider: bool
) -> None:
    """Begin from the vectors of a file.

    Args:
        wider: the model's vectors may have more features, as those of an encoder's states have:
            the others are 0 at first.

    Raises:
        RequestError: the sizes differ.
    """
    size, own = rows.shape[1], weight.shape[1]
    if own < size or (own > size and not wider):
        more = "or more, " if wider else ""
        raise RequestError(
            f"model.embed: expected {size}, {more}the size of the vectors in "
            f"{pretrained.path}, got {own}"
        )
    weight[known] = nn.functional.pad(rows.to(weight.dtype), (0, own - size))
    weight.requires_grad_(pretrained.tune)
