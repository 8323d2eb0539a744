"""Keys and values for queries: a value with everything that depends only on the keys."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.attention.mask import Dense, Lengths, Mask, as_mask
from regard.errors import RequestError
from regard.native.operation import operation

__all__ = ["Memory", "memory_mask"]


@dataclass
class _Room:
    """The buffers shared by a chain of appended memories, and how many keys they hold.

    `buffers` are in the order of `_leaves`. Leaves that share a tensor share a buffer: leaf i is
    leaf `kinds[i]`.
    """

    used: int
    kinds: list[int]
    buffers: list[Tensor]

    @property
    def capacity(self) -> int:
        """How many keys fit in the buffers."""
        return self.buffers[0].shape[-2]

    @property
    def frozen(self) -> bool:
        """Whether nothing may be written here: buffers of inference mode, outside of it."""
        return not torch.is_inference_mode_enabled() and self.buffers[0].is_inference()


@dataclass(frozen=True)
class Memory:
    """Key-value pairs, prepared once by `layer.remember` for that attention layer.

    A sentence, the facts of a story, the regions of an image, the neighbors of a node, and the
    past of a decoder (the KV cache) are all memories. Modules do not store them, so concurrent
    requests may share a model.

    Args:
        key: keys as the score receives them (projected and split into heads by `MultiHead`, and
            turned where they are what the score prepared).
        value: the values.
        mask: which keys may be looked at, or None for all.
        prepared: the result of `score.prepare(key)`, or None.
        turned: the position that turned the prepared keys when they came in (`Rotary`), or None.

    Shapes:
        key (*batch, [head,] K, key_dim), value (*batch, [head,] K, value_dim)
    """

    key: Tensor
    value: Tensor
    mask: Mask | None = None
    prepared: Any = None
    heads: bool = False
    turned: Any = None
    _room: _Room | None = field(default=None, repr=False, compare=False)
    _step_plan: Any = field(
        default=None, init=False, repr=False, compare=False
    )  # see `single_step`

    def __getstate__(self) -> dict[str, Any]:
        """The state to copy or pickle, without the addresses of this object's tensors."""
        return {**self.__dict__, "_step_plan": None}

    def __len__(self) -> int:
        """How many keys there are."""
        return self.key.shape[-2]

    @property
    def batch(self) -> torch.Size:
        """The batch axes, without heads."""
        return self.key.shape[: -3 if self.heads else -2]

    @operation("append")
    def append(self, key: Tensor, value: Tensor, prepared: Any = None) -> "Memory":
        """A new Memory with these keys appended; the old one stays unchanged.

        Without gradients the new one may use spare room in the old one's buffer, so a cache of T
        steps costs O(T) copies instead of O(T^2). Therefore a memory can be extended only once: a
        second time would overwrite the data of the first result. What was made in inference mode
        is copied once where it is extended outside of it.

        Shapes:
            key (*batch, [head,] N, key_dim), value (*batch, [head,] N, value_dim)

        Raises:
            RequestError: if this memory was already extended, or has a mask, or shapes differ.
        """
        if self.mask is not None:
            raise RequestError(
                "append needs a memory without a mask (a mask was made for its old length); "
                "pass the mask in the call instead: layer(query, memory, mask=...)"
            )
        if key.shape[:-2] != self.key.shape[:-2]:
            raise RequestError(
                f"append expected keys with leading axes {tuple(self.key.shape[:-2])}, "
                f"got {tuple(key.shape[:-2])}"
            )
        olds = _leaves(self.key, self.value, self.prepared)
        news = _leaves(key, value, prepared)
        if len(olds) != len(news):
            raise RequestError(
                f"append expected what the score prepared of the new keys as {len(olds) - 2} "
                f"tensor(s) like those it holds, got {len(news) - 2}"
            )
        pairs = [(id(old), id(new)) for old, new in zip(olds, news, strict=True)]
        kinds = [pairs.index(pair) for pair in pairs]
        if torch.is_grad_enabled() and any(t.requires_grad for t in (*olds, *news)):
            return self._of(_each(kinds, lambda i: torch.cat([olds[i], news[i]], -2)), None)
        old, new = len(self), len(self) + key.shape[-2]
        room = self._room
        if room is not None and room.used != old:
            raise RequestError(
                f"this memory of {old} keys was already extended (its buffer holds "
                f"{room.used}); append to the newest memory, or branch with .select first"
            )
        if room is None or room.kinds != kinds or room.capacity < new or room.frozen:
            capacity = max(2 * old, new, 16)
            if room is not None:
                room.used = new  # the old chain ends here, whatever holds it
            room = _Room(old, kinds, _each(kinds, lambda i: _grown(olds[i], capacity)))
        for i in set(kinds):
            room.buffers[i][..., old:new, :] = news[i]
        room.used = new
        return self._of(_views(room), room)

    def select(self, index: Tensor) -> "Memory":
        """Re-order along the last batch axis, as a cache follows the hypotheses of a beam.

        Shapes:
            batch (B,): index (n,); batch (B, beam): index (B, n), row b selects from its own beam
        """
        if len(self.batch) != index.dim():
            raise RequestError(
                f"select expected an index with {len(self.batch)} axes for a memory with batch "
                f"{tuple(self.batch)}, got {tuple(index.shape)}"
            )
        if index.dim() == 1:
            return self.rows(index)
        width = self.batch[-1]
        rows = torch.arange(math.prod(index.shape[:-1]), device=index.device)
        flat = (index.reshape(-1, index.shape[-1]) + width * rows[:, None]).reshape(-1)
        mask = None if self.mask is None else self.mask.select(index)
        return self._pick(flat, index.shape, mask)

    def rows(self, index: Tensor) -> "Memory":
        """Select the rows `index` (n,) of the first batch axis, in that order."""
        return self._pick(index, index.shape, None if self.mask is None else self.mask.rows(index))

    def to(self, *args: Any, **kwargs: Any) -> "Memory":
        """Move (and cast) like `Tensor.to`; the mask keeps its dtype."""
        moved = self.key.to(*args, **kwargs)
        mask = None if self.mask is None else self.mask.to(moved.device)
        return self._map(lambda x: x.to(*args, **kwargs), mask)

    def _pick(self, flat: Tensor, shape: torch.Size, mask: Mask | None) -> "Memory":
        """Take rows `flat` of the leading axes, as many as `shape` has, and give them its form.

        A cache keeps its spare room, so that the next `append` does not copy it a second time.
        """
        axes, room = len(shape), self._room
        if room is None or room.used != len(self) or torch.is_grad_enabled():
            return self._map(
                lambda x: (
                    (x.flatten(0, axes - 1) if axes > 1 else x)
                    .index_select(0, flat)
                    .reshape(*shape, *x.shape[axes:])
                ),
                mask,
            )
        capacity = room.capacity if room.used < room.capacity else 2 * room.capacity
        leaves = _leaves(self.key, self.value, self.prepared)

        def moved(i: int) -> Tensor:
            x = leaves[i].flatten(0, axes - 1) if axes > 1 else leaves[i]
            buffer = x.new_empty(len(flat), *x.shape[1:-2], capacity, x.shape[-1])
            torch.index_select(x, 0, flat, out=buffer[..., : room.used, :])
            return buffer.view(*shape, *buffer.shape[1:])

        taken = _Room(room.used, room.kinds, _each(room.kinds, moved))
        return replace(self._of(_views(taken), taken), mask=mask)

    def _map(self, change: Callable[[Tensor], Tensor], mask: Mask | None) -> "Memory":
        leaves = _leaves(self.key, self.value, self.prepared)
        kinds = [[id(other) for other in leaves].index(id(leaf)) for leaf in leaves]
        return replace(self._of(_each(kinds, lambda i: change(leaves[i])), None), mask=mask)

    def _of(self, leaves: list[Tensor], room: _Room | None) -> "Memory":
        """This memory with other tensors, given in the order of `_leaves`."""
        key, value, *rest = leaves
        prepared = self.prepared
        if isinstance(prepared, Tensor):
            prepared = rest[0]
        elif isinstance(prepared, tuple):
            prepared = tuple(rest)
        return replace(self, key=key, value=value, prepared=prepared, _room=room)


def _leaves(key: Tensor, value: Tensor, prepared: Any) -> list[Tensor]:
    """Key, value and prepared keys as a flat list, which preserves shared tensors."""
    if isinstance(prepared, Tensor):
        return [key, value, prepared]
    return [key, value, *(prepared if isinstance(prepared, tuple) else ())]


def _each(kinds: list[int], make: Callable[[int], Tensor]) -> list[Tensor]:
    """Make a tensor for every leaf, only once for leaves that share one."""
    made = {i: make(i) for i in set(kinds)}
    return [made[i] for i in kinds]


def _views(room: _Room) -> list[Tensor]:
    """Views of the used part of the buffers."""
    return _each(room.kinds, lambda i: room.buffers[i][..., : room.used, :])


def _grown(x: Tensor, capacity: int) -> Tensor:
    """A copy of x with room for `capacity` keys on axis -2."""
    buffer = x.new_empty(*x.shape[:-2], capacity, x.shape[-1])
    buffer[..., : x.shape[-2], :] = x
    return buffer


def memory_mask(mask: Mask | Tensor | None, key: Tensor) -> Mask | None:
    """The mask given to `remember`, as a mask over (*batch, Q, K)."""
    if isinstance(mask, Tensor) and mask.dtype != torch.bool and not mask.dtype.is_floating_point:
        mask = Lengths(mask)
    if type(mask) is Lengths and isinstance(key, Tensor) and key.dim() > 1:
        mask.check_shape(0, key.shape[-2])  # checked once, not at each step of a decoder
    if mask is None or isinstance(mask, Mask):
        return mask
    as_mask(mask)  # refuses float masks with a sentence
    return Dense(mask.unsqueeze(-2)) if mask.dim() == key.dim() - 1 else Dense(mask)
