"""Graph attention of PyTorch Geometric: a softmax by index, over the edges of each node."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention.mask import Edges
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


def by_node(place: Running) -> tuple[Edges, Tensor]:
    """The edges in the order that records have, by node and then by neighbor, and their weights.

    Edges between the same two nodes are one, with the sum of their weights.

    Shapes:
        weights ([head,] edge)
    """
    assert place.edges is not None
    assert place.by_edge is not None
    source, target = place.edges[0].long(), place.edges[1].long()
    if getattr(place.module, "flow", "source_to_target") == "target_to_source":
        source, target = target, source
    nodes = int(torch.cat([source, target]).max()) + 1 if len(source) else 0
    for given in (*place.args, *place.kwargs.values()):
        for one in given if isinstance(given, tuple | list) else (given,):
            if isinstance(one, Tensor) and one.is_floating_point() and one.dim() == 2:
                nodes = max(nodes, len(one))
            break
        break
    pairs, belongs = torch.unique(target * max(nodes, 1) + source, return_inverse=True)
    weights = place.by_edge.new_zeros(len(pairs), *place.by_edge.shape[1:])
    weights.index_add_(0, belongs, place.by_edge)
    counts = torch.bincount(pairs // max(nodes, 1), minlength=nodes)
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return Edges(offsets, pairs % max(nodes, 1)), weights.movedim(0, -1)
