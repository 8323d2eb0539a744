"""Sentences at different steps: how they join a decoding under way, and how they are taken apart.

C takes the step of each sentence by itself: its position, and the first key of a cache that is its
own. So sentences that came at different times are one batch. Where the program is not for the step
of one of them (a table of positions ends), those at the same step are decoded by themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import Memory
from regard.decode.program.caches import PackedPast
from regard.decode.program.instructions import Lowered
from regard.decode.program.replay import Program, with_lengths
from regard.decode.program.rows import Symbols
from regard.decode.program.tree import (
    Extent,
    Ref,
    extents,
    fields_of,
    is_record,
    rebuilt,
    refs,
    tensors,
)
from regard.decode.program.written import CACHES, blocks_of
from regard.errors import RequestError
from regard.protocols import Decoding

__all__ = ["Staggered", "by_steps", "joined", "own_steps", "unjoined_reason"]


@dataclass(frozen=True)
class Staggered(Decoding):
    """A decoding whose sentences began at different steps; `step` is that of the first.

    Args:
        starts: (B,) int64, how many steps later than the first each began.
    """

    starts: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))

    def rows(self, index: Tensor) -> "Staggered":
        """Keep some sentences; blocks from before they began are freed."""
        kept, starts = super().rows(index), self.starts.index_select(0, index)
        gone = int(starts.min()) if len(starts) else 0
        carried = _since(kept.carried, gone)
        return Staggered(kept.memories, carried, self.step - gone, starts - gone)

    def at(self, step: int) -> tuple[Tensor, Decoding]:
        """Which sentences are at a step of their own, and these alone."""
        index = (self.starts == self.step - step).nonzero()[:, 0]
        kept = self.rows(index)
        return index, Decoding(kept.memories, kept.carried, kept.step)


def own_steps(decoding: Decoding) -> list[int]:
    """The steps that sentences are at, each once."""
    if not isinstance(decoding, Staggered):
        return [decoding.step]
    return [decoding.step - start for start in decoding.starts.unique().tolist()]


def unjoined_reason(lowered: Lowered) -> str | None:
    """Why sentences of a program must begin together, in a clause; None: they need not."""
    if lowered.hosts:
        return f"PyTorch computes {lowered.hosts[0].node.name} of its step"
    if lowered.past is not None and lowered.past.c != 1:
        return "its caches hold keys that no step wrote"
    own, program = lowered.symbols, lowered.program
    if any(one.mask is None for one in _memories(program.inputs["memories"])):
        return "its memory has no lengths, so sources of different sizes stay apart"
    carried = {k: x for k, x in program.inputs["carried"].items() if k not in lowered.caches}
    trees = program.inputs["memories"], carried
    free = [n for n in refs(trees) if n not in program.fixed]
    if extents(trees) or any(not _joins(program.shapes[n], own) for n in free):
        return "it carries values whose size follows from the step"
    return None


def _memories(tree: Any) -> list[Memory]:
    """The memories among those of sentences."""
    if isinstance(tree, Memory):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, tuple) else ()
    return [one for part in parts for one in _memories(part)]


def _joins(shape: Sequence[Any], own: Symbols) -> bool:
    """Whether values of sentences are joined along their first axis."""
    sizes = [size for size in shape[1:] if isinstance(size, Extent)]
    plain = all(size.c == 0 and size.a == 1 and len(size.symbols) == 1 for size in sizes)
    free = all(own.step not in size.symbols for size in sizes)
    return bool(shape) and own.label(shape[0]) == "B" and plain and free


def joined(lowered: Lowered, first: Decoding, second: Decoding) -> Staggered:
    """The sentences of two decodings, those of the second, which has read nothing yet, behind.

    Both have as many hypotheses a sentence.
    """
    if second.step:
        raise RequestError("joined: expected a decoding before its first step as the second")
    program, both = lowered.program, (first, second)
    known = program.inputs["memories"]
    each = [with_lengths(program, known, dict(one.memories)) for one in both]
    memories = _together(program, known, each, {})
    carried = _carried_together(lowered, both)
    counts = [_sentences(program, one) for one in both]
    past = blocks_of(lowered.caches, lowered.block, first) if lowered.caches else PackedPast()
    if past.ancestors is not None:
        new = past.ancestors.new_zeros(counts[1], *past.ancestors.shape[1:])
        carried[CACHES] = replace(past, ancestors=torch.cat([past.ancestors, new]))
    own = first.starts if isinstance(first, Staggered) else torch.zeros(counts[0]).long()
    starts = torch.cat([own, torch.full((counts[1],), first.step)])
    return Staggered(memories, carried, first.step, starts)


def by_steps(
    lowered: Lowered,
    tokens: Tensor,
    decoding: Staggered,
    step: Callable[[Tensor, Decoding], tuple[Tensor, Decoding]],
) -> tuple[Tensor, Staggered]:
    """One step of sentences at different steps: those at the same step together."""
    order, logits, afters, blocks = [], [], [], []
    for own in own_steps(decoding):
        index, part = decoding.at(own)
        found, after = step(tokens[index], part)
        order.append(index)
        logits.append(found)
        afters.append(after)
        if lowered.caches:
            last = blocks_of(lowered.caches, lowered.block, after).blocks[-1]
            blocks.append(last.unflatten(0, (len(index), -1)))
    back = torch.cat(order).argsort()
    carried = dict(Decoding({}, _carried_together(lowered, afters)).rows(back).carried)
    if blocks:
        before: PackedPast = decoding.carried.get(CACHES, PackedPast())
        carried[CACHES] = before.longer(torch.cat(blocks)[back].flatten(0, 1), *tokens.shape)
    stepped = replace(decoding, carried=carried, step=decoding.step + 1)
    return torch.cat(logits)[back], stepped


def _since(carried: Mapping[str, Any], gone: int) -> dict[str, Any]:
    """The same without the first blocks."""
    past = carried.get(CACHES)
    return dict(carried) if past is None or not gone else {**carried, CACHES: past.without(gone)}


def _sentences(program: Program, decoding: Decoding) -> int:
    """How many sentences a decoding has."""
    for known, given in (
        (program.inputs["memories"], dict(decoding.memories)),
        (program.inputs["carried"], dict(decoding.carried)),
    ):
        for number, x in zip(refs(known), tensors(given), strict=False):
            if number not in program.fixed:
                return len(x)
    raise RequestError("joined: the decoding holds nothing of its sentences")


def _carried_together(lowered: Lowered, each: Sequence[Decoding]) -> dict[str, Any]:
    """What sentences carry beside caches, behind each other."""
    known = {k: x for k, x in lowered.program.inputs["carried"].items() if k not in lowered.caches}
    trees = [dict(one.carried) for one in each]
    found: dict[str, Any] = _together(lowered.program, known, trees, {})
    return found


def _together(program: Program, known: Any, each: Sequence[Any], made: dict[Any, Tensor]) -> Any:
    """Trees of one form as one, with the sentences of all behind each other.

    Args:
        made: what was made of the same tensors before: keys and values are often one.
    """
    if isinstance(known, Ref):
        if known.index in program.fixed:
            return each[0]
        same = tuple(map(id, each))
        if same not in made:
            made[same] = _padded_together(each)
        return made[same]
    if isinstance(known, dict):
        return {k: _together(program, x, [one[k] for one in each], made) for k, x in known.items()}
    if isinstance(known, list | tuple):
        rows = zip(known, *each, strict=True)
        return type(known)(_together(program, x, own, made) for x, *own in rows)
    if is_record(known):
        parts = {
            k: _together(program, getattr(known, k), [getattr(one, k) for one in each], made)
            for k in fields_of(known)
        }
        return rebuilt(each[0], parts)
    return each[0]


def _padded_together(each: Sequence[Tensor]) -> Tensor:
    """Along the first axis; zeros stand behind what is shorter along another one."""
    most = [max(sizes) for sizes in zip(*(x.shape[1:] for x in each), strict=True)]

    def padded(x: Tensor) -> Tensor:
        short = [n for size, own in zip(most, x.shape[1:], strict=True) for n in (size - own, 0)]
        return F.pad(x, short[::-1]) if any(short) else x

    return torch.cat([padded(x) for x in each])
