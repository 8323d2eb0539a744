"""What a query looks at: a value that holds everything which depends on the keys alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.attention.mask import Mask
from regard.errors import RequestError

__all__ = ["Memory"]


@dataclass
class _Room:
    """The buffers behind a chain of appended memories, and how many keys are written in them."""

    used: int
    key: Tensor | None = None
    value: Tensor | None = None
    prepared: Tensor | None = None


@dataclass(frozen=True)
class Memory:
    """Key-value pairs, made ready once by `layer.remember` for the attention layer that made them.

    A sentence, the facts of a story, the regions of an image, the neighbours of a node, and the
    past of a decoder (the KV cache) are all memories. No module keeps one: two requests may share a
    model.

    Args:
        key: keys as the score meets them (projected and split in heads by `MultiHead`).
        value: what is read.
        mask: which keys may be looked at at all, or None for all.
        prepared: what the score made of the keys alone (`score.prepare`), or None.

    Shapes:
        key (*batch, [head,] K, key_dim), value (*batch, [head,] K, value_dim)
    """

    key: Tensor
    value: Tensor
    mask: Mask | None = None
    prepared: Any = None
    heads: bool = False
    _room: _Room | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        """How many keys there are."""
        return self.key.shape[-2]

    @property
    def batch(self) -> torch.Size:
        """The batch axes, without heads."""
        return self.key.shape[: -3 if self.heads else -2]

    def append(self, key: Tensor, value: Tensor, prepared: Any = None) -> "Memory":
        """Give a new Memory with these keys behind the old ones; the old one stays as it was.

        Where no gradient is needed the new one may use spare room in the old one's buffer, so that
        a cache of T steps costs O(T) copies and not O(T^2). Appending twice to the same old memory
        would then write over what the first successor holds.

        Shapes:
            key (*batch, [head,] N, key_dim), value (*batch, [head,] N, value_dim)

        Raises:
            RequestError: when this memory was already appended to, or is masked, or shapes differ.
        """
        if self.mask is not None:
            raise RequestError(
                "append needs a memory without a mask (a mask was made for its old length); "
                "give the mask at the call instead: layer(query, memory, mask=...)"
            )
        if key.shape[:-2] != self.key.shape[:-2]:
            raise RequestError(
                f"append expected keys with leading axes {tuple(self.key.shape[:-2])}, "
                f"came {tuple(key.shape[:-2])}"
            )
        grad = torch.is_grad_enabled() and any(
            t.requires_grad for t in (self.key, self.value, key, value)
        )
        opaque = self.prepared is not None and not isinstance(self.prepared, Tensor)
        if grad or opaque:
            return replace(
                self,
                key=torch.cat([self.key, key], -2),
                value=torch.cat([self.value, value], -2),
                prepared=None
                if self.prepared is None
                else torch.cat([self.prepared, prepared], -2),
                _room=None,
            )
        old, new = len(self), len(self) + key.shape[-2]
        room = self._room
        if room is not None and room.used != old:
            raise RequestError(
                f"this memory of {old} keys was already appended to (its buffer holds "
                f"{room.used}); append to the newest memory, or branch with .select first"
            )
        if room is None or room.key is None or room.key.shape[-2] < new:
            capacity = max(2 * old, new, 16)
            if room is not None:
                room.used = new  # the old chain ends here, whoever holds it
            room = _Room(
                old,
                _grown(self.key, capacity),
                _grown(self.value, capacity),
                None if self.prepared is None else _grown(self.prepared, capacity),
            )
        assert room.key is not None
        assert room.value is not None
        room.key[..., old:new, :] = key
        room.value[..., old:new, :] = value
        if room.prepared is not None:
            room.prepared[..., old:new, :] = prepared
        room.used = new
        return replace(
            self,
            key=room.key[..., :new, :],
            value=room.value[..., :new, :],
            prepared=None if room.prepared is None else room.prepared[..., :new, :],
            _room=room,
        )

    def select(self, index: Tensor) -> "Memory":
        """Re-order along the last batch axis: how a cache follows the hypotheses of a beam.

        Shapes:
            batch (B,): index (n,); batch (B, beam): index (B, n), row b picks from its own beam
        """
        if len(self.batch) != index.dim():
            raise RequestError(
                f"select expected an index with {len(self.batch)} axes for a memory with batch "
                f"{tuple(self.batch)}, came {tuple(index.shape)}"
            )
        if index.dim() == 1:
            return self.rows(index)
        width = self.batch[-1]
        rows = torch.arange(math.prod(index.shape[:-1]), device=index.device)
        flat = (index.reshape(-1, index.shape[-1]) + width * rows[:, None]).reshape(-1)
        axes = len(self.batch)

        def pick(x: Tensor) -> Tensor:
            picked = x.flatten(0, axes - 1).index_select(0, flat)
            return picked.reshape(*index.shape, *x.shape[axes:])

        return self._map(pick, None if self.mask is None else self.mask.select(index))

    def rows(self, index: Tensor) -> "Memory":
        """Keep the rows `index` (n,) of the first batch axis, in that order."""
        return self._map(
            lambda x: x.index_select(0, index),
            None if self.mask is None else self.mask.rows(index),
        )

    def to(self, *args: Any, **kwargs: Any) -> "Memory":
        """Move (and cast) like `Tensor.to`; the mask keeps its own type."""
        moved = self.key.to(*args, **kwargs)
        mask = None if self.mask is None else self.mask.to(moved.device)
        return self._map(lambda x: x.to(*args, **kwargs), mask)

    def _map(self, change: Callable[[Tensor], Tensor], mask: Mask | None) -> "Memory":
        prepared = self.prepared
        if isinstance(prepared, Tensor):
            prepared = change(prepared)
        elif isinstance(prepared, tuple):
            prepared = tuple(change(p) for p in prepared)
        value = change(self.key) if self.value is self.key else None
        return replace(
            self,
            key=value if value is not None else change(self.key),
            value=value if value is not None else change(self.value),
            prepared=prepared,
            mask=mask,
            _room=None,
        )


def _grown(x: Tensor, capacity: int) -> Tensor:
    """A copy of x with room for `capacity` keys on axis -2."""
    buffer = x.new_empty(*x.shape[:-2], capacity, x.shape[-1])
    buffer[..., : x.shape[-2], :] = x
    return buffer
