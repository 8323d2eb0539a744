"""Two vectors joined for a classifier to compare."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.layers.similarity import cosine

__all__ = ["COMPARISONS", "joined_size"]


def _distance_product(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([u, v, (u - v).abs(), u * v], -1)


def _difference_product(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([u, v, u - v, u * v], -1)


def _symmetric(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([(u - v).abs(), u * v], -1)


def _cosine(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([cosine(u, v)[..., None], _symmetric(u, v)], -1)


def _both(u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([u, v], -1)


Comparison = Callable[
    [Float[Tensor, "*batch dim"], Float[Tensor, "*batch dim"]], Float[Tensor, "*batch joined"]
]

COMPARISONS: Mapping[str, Comparison] = {
    "distance-product": _distance_product,
    "difference-product": _difference_product,
    "symmetric": _symmetric,
    "cosine": _cosine,
    "concat": _both,
}
r"""How u and v are joined, by name:

- `distance-product`: :math:`[u; v; |u - v|; u \odot v]` (Conneau et al. 2017; Im and Cho 2017);
- `difference-product`: :math:`[u; v; u - v; u \odot v]` (Mou et al. 2016; Shen et al. 2018);
- `symmetric`: :math:`[|u - v|; u \odot v]`, the same for (u, v) and (v, u) (Tai et al. 2015);
- `cosine`: :math:`[\cos(u, v); |u - v|; u \odot v]`, the same for (u, v) and (v, u);
- `concat`: :math:`[u; v]`.
"""


def joined_size(compare: str, size: int) -> int:
    """How many numbers a comparison of two vectors of this size gives.

    Example:
        >>> joined_size("distance-product", 100), joined_size("cosine", 100)
        (400, 201)
    """
    nothing = torch.zeros(size)
    return len(COMPARISONS[compare](nothing, nothing))
