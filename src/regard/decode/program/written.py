"""Caches of a program: what hypotheses wrote, a block a step.

A model carries a `Memory` for each of its caches. When a beam is re-ordered, these are copied. A
program keeps the new keys and values of all caches of a step in one block, whose rows are the
hypotheses of that step, and re-orders a table of numbers instead (`PackedPast`).
"""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.attention import Memory
from regard.decode.program.boundary import parts_of
from regard.decode.program.caches import PackedPast
from regard.decode.program.instructions import GrowingMemory
from regard.protocols import Decoding

__all__ = ["CACHES", "addresses_of", "as_blocks", "as_memories", "blocks_of"]

CACHES = "caches"
"""The name in `Decoding.carried` of what a program keeps in the place of memories."""


def as_blocks(
    caches: Mapping[str, GrowingMemory], block: int, carried: Mapping[str, Any]
) -> PackedPast:
    """The blocks of memories that the model's own steps have made.

    Args:
        block: how many floats all caches have of a key.
    """
    past = PackedPast()
    first = carried[next(iter(caches))]
    sentences, width = first.key.shape[:2]
    for step in range(len(first)):
        made = first.key.new_empty(sentences * width, block)
        for name, cache in caches.items():
            for leaf, x in zip(cache.leaves, parts_of(carried[name]), strict=True):
                own = x[..., step, :].reshape(len(made), leaf.heads * leaf.size)
                made[:, leaf.at : leaf.at + own.shape[1]] = own
        past = past.longer(made, sentences, width)
    return past


def blocks_of(caches: Mapping[str, GrowingMemory], block: int, decoding: Decoding) -> PackedPast:
    """What hypotheses wrote so far, as blocks; memories of steps by the model are copied."""
    found: PackedPast | None = decoding.carried.get(CACHES)
    if found is None:
        found = as_blocks(caches, block, decoding.carried) if decoding.step else PackedPast()
    return found


def as_memories(caches: Mapping[str, GrowingMemory], decoding: Decoding) -> Decoding:
    """The same state with a memory for each cache, as the model carries it."""
    carried = dict(decoding.carried)
    past = carried.pop(CACHES, None)
    if past is None:
        return decoding
    return replace(decoding, carried=carried | {k: _memory(x, past) for k, x in caches.items()})


def _memory(cache: GrowingMemory, past: PackedPast) -> Memory:
    made: dict[int, Tensor] = {}
    for leaf in cache.leaves:
        if leaf.at not in made:
            each = [
                block[:, leaf.at : leaf.at + leaf.heads * leaf.size][past.ancestors[..., step]]  # type: ignore[index]
                for step, block in enumerate(past.blocks)
            ]
            x = torch.stack(each, -2)  # (B, beam, t, heads * size)
            if cache.memory.heads:
                x = x.unflatten(-1, (leaf.heads, leaf.size)).transpose(-3, -2)
            made[leaf.at] = x.contiguous()
    key, value, *more = (made[leaf.at] for leaf in cache.leaves)
    several = isinstance(cache.memory.prepared, tuple)
    prepared = tuple(more) if several else more[0] if more else None
    return replace(cache.memory, key=key, value=value, prepared=prepared)


def addresses_of(
    past: PackedPast | None, later: Sequence[Tensor] = ()
) -> tuple[tuple[int, int, int], Any]:
    """Where the blocks are, how many rows they have, and whose they are; what keeps that alive.

    Args:
        later: the blocks of further steps in the same call.
    """
    if past is None or past.ancestors is None:
        return (0, 0, 0), None
    every, ancestors = [*past.blocks, *later], past.ancestors.contiguous()
    at = (ctypes.c_int64 * len(every))(*(block.data_ptr() for block in every))
    rows = (ctypes.c_int64 * len(every))(*(len(block) for block in every))
    return (ctypes.addressof(at), ctypes.addressof(rows), ancestors.data_ptr()), (
        at,
        rows,
        ancestors,
    )
