r"""A sparsely gated mixture of experts: a gate routes each vector to a few experts."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RequestError
from regard.layers.dropout import dropout_relu
from regard.native.operation import operation

__all__ = ["Experts", "Gates", "NoisyTopK", "squared_variation"]


class Gates(NamedTuple):
    """The gating of N vectors: the chosen experts, their weights, and statistics of the balance.

    Shapes:
        experts (N, k) int64, weights (N, k) that sum to 1, importance (E,), load (E,)
    """

    experts: Int[Tensor, "n k"]
    weights: Float[Tensor, "n k"]
    importance: Float[Tensor, " e"]
    load: Float[Tensor, " e"]


class NoisyTopK(nn.Module):
    r"""Noisy top-k gating (Shazeer et al. 2017, eq. 3-5, 8-10).

    .. math::
        H(x)_i = (x W_g)_i + \epsilon_i\, \mathrm{softplus}((x W_n)_i), \quad
        \epsilon_i \sim \mathcal N(0, 1), \quad
        G(x) = \mathrm{softmax}(\mathrm{top}_k(H(x)))

        \mathrm{Importance} = \sum_x G(x), \quad
        \mathrm{Load}_i = \sum_x \Phi\left(
        \frac{(x W_g)_i - \mathrm{kth\_excluding}(H(x), k, i)}{\mathrm{softplus}((x W_n)_i)}\right)

    Load is a smooth estimate of the number of vectors per expert: the sum of the probabilities that
    the expert is among the k best if only its own noise is resampled. Both matrices are initialized
    to zero, so at first all experts are equally likely. There is no noise in evaluation.

    Args:
        dim: of a vector.
        experts: E, the number of experts.
        k: the number of experts per vector.
    """

    def __init__(self, dim: int, experts: int, k: int) -> None:
        super().__init__()
        if not 1 <= k <= experts:
            raise RequestError(f"k: expected from 1 to experts, which is {experts}, got {k}")
        self.k = k
        self.gate = nn.Parameter(torch.zeros(dim, experts))  # W_g
        self.noise = nn.Parameter(torch.zeros(dim, experts))  # W_noise

    def forward(self, x: Float[Tensor, "n dim"], real: Bool[Tensor, " n"] | None = None) -> Gates:
        """Choose experts; importance and load count only the `real` vectors."""
        wide = torch.promote_types(x.dtype, torch.float32)
        clean = (x @ self.gate).to(wide)
        deviation = F.softplus((x @ self.noise).to(wide))
        drawn = torch.randn_like(clean) if self.training else torch.zeros_like(clean)
        noisy = clean + drawn * deviation
        best, experts = noisy.topk(min(self.k + 1, noisy.shape[1]), -1)
        weights = best[:, : self.k].softmax(-1)
        chosen = experts[:, : self.k]
        counted = torch.ones_like(clean[:, 0]) if real is None else real.to(wide)
        zeros = torch.zeros_like(clean)
        importance = zeros.scatter(1, chosen, weights) * counted[:, None]
        inside = zeros.scatter(1, chosen, 1.0)
        load = inside
        if self.k < noisy.shape[1]:  # the threshold of expert i: the k-th best of the others
            others = torch.where(inside > 0, best[:, self.k :], best[:, self.k - 1 : self.k])
            load = torch.special.ndtr((clean - others) / deviation.clamp_min(1e-6))
        load = (load * counted[:, None]).sum(0)
        return Gates(chosen, weights.to(x.dtype), importance.sum(0), load)

    def extra_repr(self) -> str:
        """Say the sizes."""
        dim, experts = self.gate.shape
        return f"{dim}, experts={experts}, k={self.k}"


def squared_variation(x: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    r"""The square of the coefficient of variation: :math:`\mathrm{Var}(x) / \mathrm{E}(x)^2`.

    Zero if all are equal; uses the population variance.

    Example:
        >>> squared_variation(torch.tensor([1.0, 3.0]))
        tensor(0.2500)
    """
    return x.var(correction=0) / x.mean().square().clamp_min(1e-10)


class Experts(nn.Module):
    r"""A mixture of experts (Shazeer et al. 2017, eq. 1; experts as in its appendix E).

    .. math:: y = \sigma\Big(\sum_{i \in \mathrm{top}_k} G(x)_i\, \max(0, x A_i)\, B_i\Big)

    Only chosen experts are computed, each once for all of its vectors.

    Args:
        dim: of a vector.
        hidden: units of an expert.
        experts, k: see `NoisyTopK`.
        dropout: on the experts' hidden units.
        squash: apply the sigmoid to the sum, as in the translation models.

    Shapes:
        x (*batch, dim), real (*batch) to (*batch, dim) and a penalty: the sum of the squared
        variations of importance and load
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        experts: int,
        k: int,
        *,
        dropout: float = 0.0,
        squash: bool = True,
    ) -> None:
        super().__init__()
        self.dropout, self.squash = dropout, squash
        self.gates = NoisyTopK(dim, experts, k)
        self.into = nn.Parameter(torch.empty(experts, dim, hidden))  # A
        self.out = nn.Parameter(torch.empty(experts, hidden, dim))  # B
        for weight in (self.into, self.out):
            bound = (6.0 / (dim + hidden)) ** 0.5  # Glorot, for each expert
            nn.init.uniform_(weight, -bound, bound)

    @operation("experts")
    def forward(
        self, x: Float[Tensor, "*batch dim"], real: Bool[Tensor, "*batch"] | None = None
    ) -> tuple[Float[Tensor, "*batch dim"], Float[Tensor, ""]]:
        """Route each vector to its experts and sum their outputs."""
        rows = x.reshape(-1, x.shape[-1])
        gates = self.gates(rows, None if real is None else real.reshape(-1))
        k = gates.experts.shape[1]
        order = gates.experts.flatten().argsort(stable=True)  # (N k), one expert's behind another's
        sizes = gates.experts.flatten().bincount(minlength=len(self.into)).tolist()
        parts, start = [], 0
        for expert, size in enumerate(sizes):
            if size:
                mine = rows[order[start : start + size] // k]
                hidden = dropout_relu(mine @ self.into[expert], self.dropout, self.training)
                parts.append(hidden @ self.out[expert])
                start += size
        said = torch.cat(parts) * gates.weights.flatten()[order, None]
        y = torch.zeros_like(rows, dtype=said.dtype).index_add(0, order // k, said)
        y = torch.sigmoid(y) if self.squash else y
        penalty = squared_variation(gates.importance) + squared_variation(gates.load)
        return y.view(x.shape), penalty

    def extra_repr(self) -> str:
        """Say the sizes."""
        experts, dim, hidden = self.into.shape
        return f"{dim}, {hidden}, experts={experts}"
