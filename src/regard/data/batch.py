"""Batches of pairs: examples of like length cut by a token budget, the same for the same seed."""

import heapq
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.dataset import Column
from regard.data.ragged import RaggedIds
from regard.protocols import BOS, EOS, PAD, Inputs

__all__ = ["PairBatch", "chunks", "collate", "divided", "plain", "plan", "some", "sources"]

log = logging.getLogger(__name__)


def plan(
    sizes: NDArray[np.integer],
    tokens: int = 4096,
    seed: int = 1,
    epoch: int = 0,
    shuffle: bool = True,
    rows: int | None = None,
) -> list[list[int]]:
    r"""Cut examples into batches of like length, by a budget of padded tokens a side.

    Each batch has rows * max(longest source, longest target) <= tokens; an example longer than the
    budget gets a batch of its own. Every example is in exactly one batch. With `shuffle`, examples
    of one length change places and batches come in random order, from (seed, epoch) alone.

    Args:
        sizes: tokens of each side, EOS among them.
        tokens: the budget.
        seed: of the shuffling.
        epoch: which pass over the data; each is shuffled again.
        shuffle: without it the order follows from the sizes alone.
        rows: at most this many examples a batch.

    Shapes:
        sizes (n, sides).
    """
    count = len(sizes)
    if count == 0:
        return []
    longest = sizes.max(1)
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))
    order = np.arange(count)
    if shuffle:
        order[random.permutation(count)] = np.arange(count)
    # By the longer side, then by the source; equal ones in random order.
    for key in (sizes[:, 0], longest):
        order = order[_small(key)[order].argsort(kind="stable")]
    limit = count if rows is None else rows
    batches: list[list[int]] = []
    start, cut = 0, longest[order]
    while start < count:  # a batch at a time: a row at a time is seconds for some 10^6
        most = max(1, tokens // int(cut[start])) if cut[start] else count
        room = min(limit, most, count - start)
        padded = np.arange(1, room + 1) * cut[start : start + room]
        end = start + max(1, int(padded.searchsorted(tokens, "right")))
        batches.append(order[start:end].tolist())
        start = end
    over = int((longest > tokens).sum())
    if over:
        log.warning(
            "%d of %d examples are longer than the budget of %d tokens a batch (the longest: %d); "
            "each has a batch of its own",
            over,
            count,
            tokens,
            int(longest.max()),
        )
    if shuffle:
        batches = [batches[i] for i in random.permutation(len(batches))]
    return batches


def _small(numbers: NDArray[np.integer]) -> NDArray[np.integer]:
    """The same in the smallest type: numbers of 16 bits are sorted by their digits, in a tenth."""
    return numbers.astype(np.min_scalar_type(int(numbers.max())))


def divided(
    batches: Sequence[Sequence[int]], sizes: NDArray[np.integer], parts: int
) -> list[list[int]]:
    """Cut batches into as many parts by their rows, so that no part is large.

    The batch whose parts have the most padded tokens gets a further part, until there are enough; a
    part has every n-th row of its batch. Parts keep the order of the batches. Those that are left
    over, where there are fewer rows than parts, are empty and come last.

    Args:
        batches: lists of examples, not more than `parts`.
        sizes: tokens of each side of all examples.

    Shapes:
        sizes (n, sides).
    """
    padded = [len(batch) * int(sizes[list(batch)].max()) for batch in batches]
    shares = [1] * len(batches)
    heap = [(float(-size), n) for n, size in enumerate(padded) if len(batches[n]) > 1]
    heapq.heapify(heap)
    for _ in range(parts - len(batches)):
        if not heap:
            break
        n = heap[0][1]
        shares[n] += 1
        if shares[n] < len(batches[n]):
            heapq.heapreplace(heap, (-padded[n] / shares[n], n))
        else:
            heapq.heappop(heap)
    found = [list(batch[k::n]) for batch, n in zip(batches, shares, strict=True) for k in range(n)]
    return found + [[] for _ in range(parts - len(found))]


@dataclass(frozen=True)
class PairBatch:
    """Sources and targets of one step.

    Shapes:
        source (B, S) ending in EOS, source_lengths (B,), target_in (B, T) = [BOS y1 .. yT],
        target_out (B, T) = [y1 .. yT EOS], all int64 and right-padded; index: the examples' places.
        Sources that are more than ids, or no ids, are `Inputs`.
    """

    source: Tensor | Inputs
    source_lengths: Tensor
    target_in: Tensor
    target_out: Tensor
    index: list[int]
    count: int
    """Real target tokens, EOS among them."""
    links: Tensor | None = None
    """Gold alignments (n, 3): a row, a place in `source`, a place in `target_out`."""

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "PairBatch":
        """The same batch on another device."""
        moved = {
            name: getattr(self, name).to(device, non_blocking=non_blocking)
            for name in ("source", "source_lengths", "target_in", "target_out", "links")
            if getattr(self, name) is not None
        }
        return replace(self, **moved)

    def __len__(self) -> int:
        return len(self.index)

    def sources(self, rows: Tensor, target_in: Tensor) -> tuple[Tensor | Inputs, Tensor, Tensor]:
        """The arguments of a `Generator` that reads the sources `rows` (n,) and these targets."""
        own = self.source
        chosen = own.rows(rows) if isinstance(own, Inputs) else own[rows]
        return chosen, target_in, self.source_lengths[rows]


def some(count: int, limit: int) -> list[int]:
    """At most `limit` of the indices 0 … count-1, evenly spread."""
    if limit >= count:
        return list(range(count))
    return [int(i) for i in np.linspace(0, count - 1, limit).round()]


def collate(source: RaggedIds | Column, target: RaggedIds, indices: Sequence[int]) -> PairBatch:
    """Put examples into one padded batch; ids in `source` and `target` have no BOS and no EOS.

    Args:
        source: ids, which become a tensor; or a column of any kind, whose `collate` gives `Inputs`.
    """
    at = np.asarray(indices, np.int64)
    read, lengths = sources(source, at)
    out = target.padded(at, PAD, EOS)
    # [BOS y1 .. yT]: what is put out, one place later, but for the EOS.
    into = np.where(out == EOS, PAD, out)[:, :-1]
    into = np.concatenate([np.full((len(at), 1), BOS), into], 1)
    return PairBatch(
        source=read,
        source_lengths=lengths,
        target_in=torch.from_numpy(into),
        target_out=torch.from_numpy(out),
        index=[int(i) for i in indices],
        count=int(target.sizes_at(at).sum()) + len(at),
    )


def plain(ids: Sequence[int]) -> list[int]:
    """What stands before EOS or padding."""
    return [i for i in ids if i not in (EOS, PAD)]


def sources(source: RaggedIds | Column, at: NDArray[np.int64]) -> tuple[Tensor | Inputs, Tensor]:
    """Some sources as a model reads them, and their lengths (n,): EOS is counted behind ids."""
    if isinstance(source, RaggedIds):
        ids = torch.from_numpy(source.padded(at, PAD, EOS))
        return ids, torch.from_numpy(source.sizes_at(at) + 1)
    inputs: Inputs = source.collate(at)
    lengths = inputs.lengths
    if lengths is None:  # all of every source is real
        lengths = torch.from_numpy(np.ascontiguousarray(source.sizes[at]))
    return inputs, lengths


def chunks(count: int, size: int) -> list[list[int]]:
    """The numbers 0 … count-1 in order, `size` at a time."""
    return [list(range(i, min(i + size, count))) for i in range(0, count, size)]
