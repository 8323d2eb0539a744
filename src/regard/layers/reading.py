"""Recurrent layers that C reads: when it does, and with which weights.

C reads few sequences faster than PyTorch, and computes no gradients. Anything that has to see the
layers at work (hooks, another class in their place, a recording, autocast) gets PyTorch.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.layers.layout import PackedLayout
from regard.native.gemm import unhooked
from regard.native.kept import kept, may_keep
from regard.native.operation import is_recorded
from regard.native.reading import (
    PackedLayer,
    ReadingOrder,
    ReadStates,
    RecurrentWeights,
    read,
    supported,
)

__all__ = ["Part", "packed_order", "padded_order", "read_by", "reads"]

Part = tuple[nn.Module, type]
"""A module whose `forward` is not called, and the class that it must have."""
FEW = 4
"""The most sequences of an LSTM that C reads: for more rows PyTorch's products are faster."""


def reads(x: Tensor, parts: Sequence[Part], *, sequences: int = 0) -> bool:
    """Whether C reads these inputs of a layer.

    Args:
        sequences: how many there are, where it should read only a few.
    """
    return (
        not is_recorded()  # first: a recording keeps every size that is compared
        and sequences <= FEW
        and x.numel() > 0
        and all(type(part) is kind and unhooked(part) for part, kind in parts)
        and may_keep([weight for part, _ in parts for weight in part.parameters()])
        and supported(x)
    )


def padded_order(
    x: Tensor, lengths: Tensor | None, backward: Sequence[bool]
) -> ReadingOrder | None:
    """The order of right-padded sequences (B, T, E); None where one is empty or longer than T.

    Args:
        backward: of each direction.
    """
    batch, width = x.shape[:2]
    known = [width] * batch if lengths is None else lengths.tolist()
    if len(known) != batch or not 1 <= min(known) <= max(known) <= width:
        return None
    return ReadingOrder.padded(known, width, backward)


def packed_order(layout: PackedLayout, backward: Sequence[bool]) -> ReadingOrder:
    """The order of sequences without padding."""
    words = sum(layout.sizes)
    ahead = torch.arange(words)
    at = torch.stack([layout.mirror(ahead) if back else ahead for back in backward])
    sizes = torch.tensor(layout.sizes)
    sequences = torch.arange(layout.sizes[0])
    return ReadingOrder((sizes[:, None] > sequences).sum(0), sequences, at)


def read_by(
    owner: nn.Module,
    name: str,
    layers: Sequence[RecurrentWeights],
    x: Tensor,
    given: ReadingOrder,
    *,
    lstm: bool,
) -> ReadStates:
    """Read with weights that are laid out for C once, and again after they have changed.

    Args:
        owner: the module that keeps them.
        name: of what is read, for this module.
        layers: one for each direction.

    Shapes:
        x (rows, E)
    """
    weights = [weight for one in layers for weight in one.weights]
    return read(kept(owner, name, weights, lambda: PackedLayer(layers, lstm=lstm)), x, given)
