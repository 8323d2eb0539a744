"""Places of mentions: which pairs of them a pair of concepts has, and how far apart they are."""

from collections.abc import Mapping

import torch
from jaxtyping import Int
from torch import Tensor

from regard.protocols import UNK

__all__ = ["cells_of", "classes_of", "without_concepts"]


def classes_of(apart: Int[Tensor, " cells"], most: int) -> Int[Tensor, " cells"]:
    """The class of each distance: 0 in the middle, then one more for each doubling, to `most`.

    Example:
        >>> classes_of(torch.tensor([-9, -1, 0, 1, 2, 3, 4]), 3).tolist()
        [0, 2, 3, 4, 4, 5, 5]
    """
    size = (apart.abs() + 1).float().log2().long().clamp(max=most)
    return most + apart.sign() * size


def without_concepts(
    ids: Int[Tensor, "batch t"], extras: Mapping[str, Tensor], share: float
) -> Int[Tensor, "batch t"]:
    """The pieces with those of a share of the concepts unknown, all mentions of one alike."""
    if "entities" not in extras or not extras["entities"].shape[1]:
        return ids
    places, entities = extras["places"], extras["entities"]
    chosen = torch.rand(entities.shape, device=ids.device) < share  # no more concepts than places
    hidden = chosen.gather(1, entities.clamp(min=0)) & (places >= 0)
    found = torch.zeros(ids.shape, device=ids.device)
    found = found.scatter_reduce(1, places.clamp(min=0), hidden.float(), "amax")
    return ids.masked_fill(found > 0, UNK)


def cells_of(
    entities: Int[Tensor, "batch n"], pairs: Int[Tensor, "batch p 2"]
) -> tuple[Tensor, Tensor, int]:
    """Which of (B, N, N) pairs of places each pair of entities has.

    Args:
        entities: of each place, -1 for none.
        pairs: head and tail, -1 for none.

    Returns:
        (numbers of cells, which pair each belongs to, how many pairs there are)
    """
    batch, count = entities.shape
    stride = max(count, 1)  # no document has more entities than places
    row = torch.arange(batch, device=entities.device)[:, None]
    there = entities >= 0
    owner = (row * stride + entities)[there]
    order = owner.argsort(stable=True)
    place = torch.arange(count, device=entities.device).expand(batch, -1)[there][order]
    sizes = owner.bincount(minlength=batch * stride)
    starts = sizes.cumsum(0) - sizes
    real = (pairs >= 0).all(-1)
    head, tail = ((row * stride + pairs[..., side])[real] for side in (0, 1))
    rows = row.expand(-1, pairs.shape[1])[real]
    each = sizes[head] * sizes[tail]
    owners = torch.arange(len(each), device=each.device).repeat_interleave(each)
    inner = torch.arange(len(owners), device=each.device) - (each.cumsum(0) - each)[owners]
    across = sizes[tail][owners]
    first = place[starts[head][owners] + inner.div(across, rounding_mode="floor")]
    second = place[starts[tail][owners] + inner % across]
    return (rows[owners] * count + first) * count + second, owners, len(each)
