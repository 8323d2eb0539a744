"""Weights with exact zeros."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention._ops.softmax import masked_log_softmax, masked_softmax
from regard.attention.select.base import OverAllKeys
from regard.errors import RequestError
from regard.native.transforms import followed

__all__ = ["Entmax15", "Sparsemax", "TopK"]

OUT = -4.0  # so low that no weight is left: sparsemax cuts at 1 below the best, entmax at 2


@dataclass(frozen=True)
class Sparsemax(OverAllKeys):
    r"""The Euclidean projection onto the simplex (Martins & Astudillo 2016, eq. 1-3).

    .. math:: w_i = \arg\min_{w \in \Delta} \lVert w - e_i \rVert^2
                  = [e_i - \tau_i]_+, \quad \sum_j w_{ij} = 1

    Most weights are exactly zero. The gradient is the closed form of their section 2.5: on the
    support S, :math:`\dot e = \dot w - \frac{1}{|S|} \sum_{S} \dot w`; zero elsewhere.

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): rows sum to 1, empty rows are zeros
    """

    sums: ClassVar[str] = "over keys"

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Project each row."""
        return _projected(_Sparsemax, scores, mask), None


@dataclass(frozen=True)
class Entmax15(OverAllKeys):
    r"""Between softmax and sparsemax (Peters et al. 2019, eq. 10 and algorithm 2): α = 1.5.

    .. math:: w_{ij} = \big[\tfrac{1}{2} e_{ij} - \tau_i\big]_+^2, \quad \sum_j w_{ij} = 1

    Exact, by sorting. The gradient is the closed form of their section 3.3: with
    :math:`s = \sqrt{w}`, :math:`\dot e = s \circ \dot w - s \frac{\sum s\, \dot w}{\sum s}`.

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): rows sum to 1, empty rows are zeros
    """

    sums: ClassVar[str] = "over keys"

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Project each row."""
        return _projected(_Entmax15, scores, mask), None


@dataclass(frozen=True)
class TopK(OverAllKeys):
    r"""The softmax of the k best keys, zeros elsewhere (Chorowski et al. 2015, section 2.3).

    .. math:: w_{ij} = \frac{[\,j \in S_i\,] \exp e_{ij}}{\sum_{l \in S_i} \exp e_{il}}, \quad
              S_i = \text{the } k \text{ largest of } e_i

    Ties are broken so that exactly k keys are kept.

    Args:
        k: the number of keys, at least 1; with at most k keys it is the softmax.

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): rows sum to 1, empty rows are zeros
    """

    k: int
    sums: ClassVar[str] = "over keys"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise RequestError(f"TopK expected at least one key, got k={self.k}")

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Keep the best and normalize."""
        return masked_softmax(scores, self._kept(scores, mask)), None

    def log_weights(
        self, scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        """Log-weights, for reads in log space: minus infinity for all but the best."""
        return masked_log_softmax(scores, self._kept(scores, mask))

    def _kept(self, scores: Tensor, mask: Tensor | None) -> Tensor | None:
        """The mask of the k best allowed keys."""
        if scores.shape[-1] <= self.k:
            return mask
        ranked = scores.detach()
        if mask is not None:
            ranked = ranked.masked_fill(~mask, -torch.inf)
        best = ranked.topk(self.k, dim=-1).indices
        # a source and not a number, which `vmap` has no rule for
        kept = torch.zeros_like(ranked, dtype=torch.bool)
        kept = kept.scatter(-1, best, torch.ones_like(best, dtype=torch.bool))
        return kept if mask is None else kept & mask


def _projected(onto: Any, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Shift each row so that its best allowed score is 0, exclude masked keys, project.

    At least in fp32, because a threshold is a difference of sums.
    """
    if scores.shape[-1] == 0:  # no keys, and no best one
        return scores
    dtype = scores.dtype
    if dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    hidden = scores == -torch.inf if mask is None else ~mask | (scores == -torch.inf)
    top = scores.detach().masked_fill(hidden, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
    # `where`, not masked_fill of the difference: -inf in a graph gives NaN gradients
    scores = torch.where(hidden, top + OUT, scores) - top
    weights: Tensor = (onto.apply if followed(scores) is None else onto.plain)(scores)
    return weights.masked_fill(hidden, 0.0).to(dtype)


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = (scores - _Sparsemax.threshold(scores)).clamp_min_(0)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def threshold(scores: Tensor) -> Tensor:
        best = scores.sort(-1, descending=True).values
        above = best.cumsum(-1) - 1  # (…, K): sum of the r best, less the 1 they share
        rank = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
        size = (rank * best > above).sum(-1, keepdim=True).clamp_min(1)  # 0: of NaN
        return above.gather(-1, size - 1) / size

    @staticmethod
    def plain(scores: Tensor) -> Tensor:
        """In operators that know derivatives of every kind: the mean of the support, once more."""
        given = scores.detach()
        support = given > _Sparsemax.threshold(given)
        count = support.sum(-1, keepdim=True)
        threshold = (torch.where(support, scores, 0.0).sum(-1, keepdim=True) - 1) / count
        return torch.where(support, scores - threshold, 0.0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        grad: Tensor = grads[0]
        weights: Tensor = ctx.saved_tensors[0]
        support = (weights > 0).to(grad.dtype)
        mean = (grad * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return support * (grad - mean)


class _Entmax15(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        half = scores / 2
        weights = (half - _Entmax15.threshold(half)).clamp_min_(0).square_()
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def threshold(half: Tensor) -> Tensor:
        best = half.sort(-1, descending=True).values
        rank = torch.arange(1, half.shape[-1] + 1, device=half.device, dtype=half.dtype)
        mean = best.cumsum(-1) / rank
        spread = best.square().cumsum(-1) - rank * mean.square()  # sum of squares around the mean
        threshold = mean - ((1 - spread) / rank).clamp_min_(0).sqrt_()
        size = (threshold <= best).sum(-1, keepdim=True).clamp_min(1)  # 0: of NaN
        return threshold.gather(-1, size - 1)

    @staticmethod
    def plain(scores: Tensor) -> Tensor:
        """In operators that know derivatives of every kind: the threshold of the support."""
        half = scores / 2
        given = half.detach()
        support = given > _Entmax15.threshold(given)
        count = support.sum(-1, keepdim=True)
        mean = torch.where(support, half, 0.0).sum(-1, keepdim=True) / count
        spread = torch.where(support, half - mean, 0.0).square().sum(-1, keepdim=True)
        threshold = mean - ((1 - spread) / count).sqrt()
        return torch.where(support, half - threshold, 0.0).square()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        weights: Tensor = ctx.saved_tensors[0]
        support = weights > 0
        root = torch.where(support, weights, 1.0).sqrt() * support  # has a derivative at 0, too
        grad = root * grads[0]
        return grad - root * (grad.sum(-1, keepdim=True) / root.sum(-1, keepdim=True))
