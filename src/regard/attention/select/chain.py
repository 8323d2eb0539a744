"""Structured attention: whether a key is chosen depends on whether its neighbors are."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.select.base import OverAllKeys
from regard.errors import RequestError

__all__ = ["ChainMarginals"]

_FAR = 1e30
"""Instead of infinity, whose differences are NaN; a million of them are still a float32."""


class ChainMarginals(OverAllKeys, nn.Module):
    r"""The marginals of a chain of binary choices (Kim et al. 2017): segments of keys.

    .. math:: w_{ij} = p(z_j = 1), \qquad
              p(z) \propto \exp\Big( \sum_j e_{ij} z_j + \sum_j A_{z_{j-1}, z_j} \Big), \quad
              z_j \in \{0, 1\}

    Transitions A that favor equal neighbors make each query read segments, any number of them. With
    A = 0 keys are independent: :math:`w = \sigma(e)`. A masked key has weight 0, and the chain goes
    on from its last neighbor to its next one as if it were not there.

    All prefixes and suffixes of the chain are multiplied by doubling, as 2 x 2 matrices of
    logarithms: log K passes over the keys, in float32 or more.

    Args:
        transitions: A, from row to column: ((A_00, A_01), (A_10, A_11)).
        learned: A is a parameter that starts there; otherwise it stays.

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K), each from 0 to 1; rows may have any sum

    Raises:
        RequestError: for other than 2 x 2 transitions.

    Source: Kim, Denton, Hoang and Rush 2017, "Structured Attention Networks": the linear chain.
    """

    sums: ClassVar[str] = "free"

    def __init__(
        self,
        transitions: Sequence[Sequence[float]] = ((0.0, 0.0), (0.0, 0.0)),
        *,
        learned: bool = True,
    ) -> None:
        super().__init__()
        if [len(row) for row in transitions] != [2, 2]:
            raise RequestError(
                f"ChainMarginals expected transitions ((A_00, A_01), (A_10, A_11)), got "
                f"{transitions!r}"
            )
        made = torch.tensor([[float(x) for x in row] for row in transitions])
        self.transitions: Tensor
        if learned:
            self.transitions = nn.Parameter(made)
        else:
            self.register_buffer("transitions", made)

    def forward(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """The probability that each key is chosen."""
        if scores.shape[-1] == 0:
            return scores, None
        wide = torch.promote_types(scores.dtype, torch.float32)
        energy = scores.to(wide).clamp(-_FAR, _FAR)
        moves = self.transitions.to(wide)
        if mask is None:
            allowed = torch.ones_like(energy, dtype=torch.bool)
        else:
            allowed = torch.broadcast_to(mask, energy.shape)
            energy = energy.masked_fill(~allowed, 0.0)
        weights = torch.sigmoid(_log_odds(energy, moves, allowed)).masked_fill(~allowed, 0.0)
        return weights.to(scores.dtype), None

    def extra_repr(self) -> str:
        """Say whether transitions are learned."""
        return f"learned={isinstance(self.transitions, nn.Parameter)}"


def _log_odds(energy: Tensor, moves: Tensor, allowed: Tensor) -> Tensor:
    """The logarithm of p(z = 1) / p(z = 0) of each key, where allowed."""
    # A step's matrix (from, to): its move and its energy. The first key comes from nowhere.
    first = allowed & (allowed.cumsum(-1) == 1)
    from_zero = torch.where(first[..., None, None], 0.0, moves)
    # log p(z) of a key alone: of its two numbers the larger is small, so that no move is lost.
    here = torch.stack([F.logsigmoid(-energy), F.logsigmoid(energy)], -1)[..., None, :]
    same = _identity(energy)
    steps = torch.where(allowed[..., None, None], from_zero + here, same)
    # Suffixes are the prefixes of the transposed steps from the end.
    both = torch.stack([steps, steps.mT.flip(-3)])
    stride, keys = 1, energy.shape[-1]
    while stride < keys:
        ahead = F.pad(both[..., :-stride, :, :], (0, 0, 0, 0, stride, 0))
        fresh = torch.arange(keys, device=energy.device) < stride
        ahead = torch.where(fresh[:, None, None], same, ahead)
        both = _product(ahead, both)
        stride *= 2
    prefix, suffix = both[0], both[1].flip(-3).mT
    ahead = prefix[..., 0, :]  # its rows are equal from the first key on
    behind = torch.logsumexp(suffix, -1)[..., 1:, :]
    odds = ahead[..., 1] - ahead[..., 0]
    return odds + F.pad(behind[..., 1] - behind[..., 0], (0, 1))


def _identity(like: Tensor) -> Tensor:
    """The logarithms of the identity."""
    far = torch.full((2, 2), -_FAR, dtype=like.dtype, device=like.device)
    return far * (1 - torch.eye(2, dtype=like.dtype, device=like.device))


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Of matrices of logarithms, less their largest entry, which makes no odds."""
    made = torch.logsumexp(a[..., None] + b[..., None, :, :], -2)
    return made - made.detach().amax((-2, -1), keepdim=True)
