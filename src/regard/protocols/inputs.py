"""What an encoder reads: ids, frames, regions or pictures, in one form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from regard.errors import RequestError
from regard.runtime.special_ids import BOS, EOS, PAD, UNK

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Inputs",
    "clips_of",
    "frames_of",
    "ids_of",
    "lengths_of",
    "pictures_of",
    "states_of",
    "unpacked",
]


@dataclass(frozen=True, eq=False)
class Inputs:
    """What an encoder reads: a sentence, a sound, a picture or a document, in one form.

    Args:
        values: ids, or what stands in their place (see Shapes).
        lengths: how many of them are real in each row; the rest is padding on the right. Not given:
            the ids before the padding, or all of what is no ids.
        extras: further tensors by name, with one row for each example: characters, marks of a
            predicate, lengths of the sentences of a document.

    Shapes:
        values: ids (B, T), sentences of a document (B, S, W), frames (B, T, D), regions (B, L, D)
        images (B, C, H, W) or clips (B, T, C, H, W); lengths (B,) int64
    """

    values: Tensor
    lengths: Tensor | None = None
    extras: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def to(self, device: Any, non_blocking: bool = False) -> "Inputs":
        """The same inputs on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def rows(self, index: Tensor) -> "Inputs":
        """The examples `index` (n,), in that order."""
        return self._map(lambda tensor: tensor.index_select(0, index.to(tensor.device)))

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Inputs":
        return Inputs(
            change(self.values),
            None if self.lengths is None else change(self.lengths),
            {name: change(tensor) for name, tensor in self.extras.items()},
        )


def unpacked(
    source: "Tensor | Inputs", lengths: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """(values, lengths) of `Inputs`, or of a tensor with the lengths given beside it.

    Lengths of ids that nobody gave are the number of ids before the padding; of frames and regions
    they stay None: all are real.
    """
    if isinstance(source, Inputs):
        lengths = source.lengths if lengths is None else lengths
        source = source.values
    if lengths is None and not source.is_floating_point() and source.dim() == 2:
        lengths = (source != PAD).sum(1)
    return source, lengths


def ids_of(source: "Tensor | Inputs", lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(ids (B, T), lengths (B,)) for an encoder that reads a text and nothing else.

    Raises:
        RequestError: the source is frames, regions or an image.
    """
    ids, lengths = unpacked(source, lengths)
    if ids.is_floating_point() or ids.dim() != 2 or lengths is None:
        raise RequestError(
            f"this encoder reads ids (batch, time), and got {ids.dtype} of shape {tuple(ids.shape)}"
        )
    return ids, lengths


def frames_of(source: "Tensor | Inputs", lengths: Tensor | None, dim: int) -> tuple[Tensor, Tensor]:
    """(frames (B, T, dim), lengths (B,)) for an encoder that reads a sound.

    Raises:
        RequestError: the source is no frames of `dim` numbers.
    """
    frames, lengths = unpacked(source, lengths)
    if not frames.is_floating_point() or frames.dim() != 3 or frames.shape[2] != dim:
        raise RequestError(
            f"this encoder reads frames (batch, time, {dim}), and got {frames.dtype} of shape "
            f"{tuple(frames.shape)}"
        )
    if lengths is None:
        lengths = frames.new_full(frames.shape[:1], frames.shape[1]).long()
    return frames, lengths


def pictures_of(source: "Tensor | Inputs", channels: int) -> Tensor:
    """The pictures (B, C, H, W) of a batch, for a model that reads nothing else.

    Raises:
        RequestError: the source is no batch of pictures, or of others.
    """
    values, _ = unpacked(source)
    if values.dim() != 4 or values.shape[1] != channels or not values.is_floating_point():
        raise RequestError(
            f"this model reads pictures (batch, {channels}, height, width), and got "
            f"{values.dtype} of shape {tuple(values.shape)}"
        )
    return values


def clips_of(
    source: "Tensor | Inputs", lengths: Tensor | None, channels: int
) -> tuple[Tensor, Tensor]:
    """(clips (B, T, C, H, W), lengths (B,)) for an encoder that reads the frames of clips.

    Raises:
        RequestError: the source is no batch of clips, or of others.
    """
    values, lengths = unpacked(source, lengths)
    if values.dim() != 5 or values.shape[2] != channels or not values.is_floating_point():
        raise RequestError(
            f"this model reads clips (batch, time, {channels}, height, width), and got "
            f"{values.dtype} of shape {tuple(values.shape)}"
        )
    if lengths is None:
        lengths = values.new_full(values.shape[:1], values.shape[1]).long()
    return values, lengths


def lengths_of(source: Tensor, lengths: Tensor | None = None) -> Tensor:
    """`lengths` if given, else the number of ids before the padding in each row: (B, S) -> (B,)."""
    return (source != PAD).sum(1) if lengths is None else lengths


def states_of(source: "Tensor | Inputs", ids: Tensor) -> Tensor | None:
    """The states that an encoder gives the words of a text, `extras["states"]`, or None.

    Shapes:
        ids (B, T) to (B, T, layers, size); zeros behind what was given
    """
    states = source.extras.get("states") if isinstance(source, Inputs) else None
    if states is None or states.shape[1] >= ids.shape[1]:
        return states
    return pad(states, (0, 0, 0, 0, 0, ids.shape[1] - states.shape[1]))
