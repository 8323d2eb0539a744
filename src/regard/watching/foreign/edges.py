"""Graph attention of PyTorch Geometric: a softmax by index, over the edges of each node."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention.mask import Edges
from regard.errors import RequestError
from regard.watching.foreign.running_modules import Running

__all__ = ["by_node", "edge_softmax"]

_aten = torch.ops.aten


def edge_softmax(
    place: Running, func: Any, args: Sequence[Any], result: Any, exponents: dict[int, Tensor]
) -> None:
    """Shown the operations of a layer: exp(x) divided by numbers of the same shape is a softmax.

    The exponents are held until the layer is left, so that no other tensor takes their place.
    """
    if func is _aten.exp.default:
        exponents[id(result)] = result
        exponents[int(result.untyped_storage()._cdata)] = result
    elif func is _aten.div.Tensor and isinstance(args[1], Tensor):
        known = exponents.get(int(args[0].untyped_storage()._cdata))
        if known is not None and args[1].shape == args[0].shape and args[0].dim() <= 2:
            place.by_edge = result.detach()


def by_node(place: Running) -> tuple[Edges, Tensor, int]:
    """The edges in the order that records have, by node and then by neighbor, and their weights.

    Edges between the same two nodes are one, with the sum of their weights. Nodes that are looked
    at are others than those that look where the layer was given features of two sets; the last is
    their count, else 0.

    Shapes:
        weights ([head,] edge)
    """
    assert place.edges is not None
    assert place.by_edge is not None
    pairs = _pairs(place.edges)
    source, target = pairs[0].long(), pairs[1].long()
    flow = getattr(place.module, "flow", "source_to_target") == "source_to_target"
    if not flow:
        source, target = target, source
    sets = _sets(place)
    if sets is not None and not flow:
        sets = sets[::-1]
    sources, nodes = (0, 0) if sets is None else sets
    nodes = max(nodes, _most(target))
    keys = max(sources, _most(source))
    if sets is None or sources == 0:
        keys = nodes = max(nodes, keys)
    flat, belongs = torch.unique(target * max(keys, 1) + source, return_inverse=True)
    weights = place.by_edge.new_zeros(len(flat), *place.by_edge.shape[1:])
    weights.index_add_(0, belongs, place.by_edge)
    counts = torch.bincount(flat // max(keys, 1), minlength=nodes)
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    two = keys if sets is not None and sources else 0
    return Edges(offsets, flat % max(keys, 1)), weights.movedim(0, -1), two


def _most(index: Tensor) -> int:
    return int(index.max()) + 1 if len(index) else 0


def _pairs(edges: Tensor) -> Tensor:
    """(2, edge): sources and targets, in the order in which the layer has its weights."""
    if edges.layout is torch.strided:
        return edges
    if edges.layout is torch.sparse_csr:  # rows of an adjacency matrix are targets
        rows = torch.arange(edges.shape[0], device=edges.device)
        target = rows.repeat_interleave(edges.crow_indices().diff())
        return torch.stack([edges.col_indices(), target])
    if edges.layout is torch.sparse_coo:
        return edges._indices().flip(0)
    raise RequestError(f"an adjacency matrix of the layout {edges.layout} is not read")


def _sets(place: Running) -> tuple[int, int] | None:
    """How many nodes are sources and targets, where a layer was given two sets; (0, n) of one.

    None where it was given no features.
    """
    for given in (*place.args, *place.kwargs.values()):
        if isinstance(given, Tensor) and given.is_floating_point() and given.dim() == 2:
            return 0, len(given)
        pair = given if isinstance(given, tuple | list) and len(given) == 2 else None
        if pair is not None and isinstance(pair[0], Tensor) and pair[0].dim() == 2:
            first, second = pair
            if second is first:
                return 0, len(first)
            size = place.size[1] if place.size is not None else 0
            return len(first), len(second) if isinstance(second, Tensor) else int(size or 0)
        break
    return None
