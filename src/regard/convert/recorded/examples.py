"""Inputs of any content to record a model with: three of each, of sizes that do not follow."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.convert.recorded.generators import joined_frames
from regard.errors import RequestError
from regard.fields import Field, TextField
from regard.fields.clip import ClipField
from regard.fields.copied import CopiedField
from regard.fields.image import ImageField
from regard.fields.sound import SoundField
from regard.protocols import EOS, PAD, UNK, Inputs

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["SIZES", "UNSEEN", "sources", "text"]

SIZES = (7, 11, 17)
"""Places of the three inputs."""
UNSEEN = 13
"""Places of another input, with which graphs are checked."""
LONG = 60
"""How many more places a sound has: more than a window of locations."""
OWN = 4
"""Words of a source that the target's vocabulary lacks, in the smallest example."""


def sources(loaded: "Loaded") -> list[Inputs]:
    """Three sources and an unseen one as a generator's `encode` reads them, one example each.

    Raises:
        RequestError: what the task reads cannot be made up.
    """
    field = next(iter(loaded.fields.values()))
    return [_source(loaded.model, field, loaded.fields, n) for n in (*SIZES, UNSEEN)]


def _source(model: Any, field: Field, fields: Any, size: int) -> Inputs:
    noise = torch.Generator().manual_seed(size)

    def random(*shape: int) -> Tensor:
        return torch.randn(1, *shape, generator=noise)

    if isinstance(field, TextField):
        found = text(field, size, end=True)
        if isinstance(field, CopiedField) and field.copies:
            copies = _copies(found.values, fields[field.into], size)
            return Inputs(found.values, found.lengths, {"copies": copies})
        return found
    if isinstance(field, SoundField):
        frames = (size + LONG) * joined_frames(model)
        return Inputs(random(frames, 3 * (field.filters + 1)), torch.tensor([frames]))
    if isinstance(field, ClipField):
        return Inputs(random(size, field.channels, *field.size), torch.tensor([size]))
    if isinstance(field, ImageField):
        return Inputs(random(field.channels, *field.size))
    raise RequestError(f"onnx: sources of a {type(field).__name__} have no form there yet")


def text(field: TextField, size: int, *, end: bool) -> Inputs:
    """A text of ordinary tokens.

    Raises:
        RequestError: the field gives a model more than ids.
    """
    if field.contextual is not None:
        raise RequestError(
            "onnx: expected a model that reads words alone; this one reads the states of an "
            "encoder (data.vectors.encoder), which the graph does not have"
        )
    count = len(field.tokenizer)
    ids = UNK + 1 + torch.arange(size)[None] * 7 % max(1, count - UNK - 1)
    if end:
        ids[0, -1] = EOS
    return Inputs(ids, torch.tensor([size]))


def _copies(ids: Tensor, target: TextField, size: int) -> Tensor:
    """Of every token its id in the target; some are words that it lacks."""
    words = len(target.tokenizer)
    copies = ids.clamp(max=words - 1)
    copies[0, ::3] = words + torch.arange(size)[::3] % (OWN + size % 5)
    copies[0, 0] = words + OWN + size % 5
    return copies.masked_fill(ids == EOS, PAD)
