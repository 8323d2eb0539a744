"""How alike two vectors are, with finite gradients where they are zero or equal."""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["cosine", "distance"]


def _wide(x: Tensor) -> Tensor:
    """Half precision as float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def cosine(
    u: Float[Tensor, "*#batch dim"], v: Float[Tensor, "*#batch dim"]
) -> Float[Tensor, "*batch"]:
    r"""The cosine of the angle between two vectors; 0 if one of them is zero.

    .. math:: \cos(u, v) = \frac{u^\top v}{\lVert u \rVert \lVert v \rVert}

    Example:
        >>> cosine(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([4.0, 3.0]))
        tensor([0.9600, 0.0000])
    """
    x, y = _wide(u), _wide(v)
    norms = torch.linalg.vector_norm(x, dim=-1) * torch.linalg.vector_norm(y, dim=-1)
    found: Tensor = (x * y).sum(-1) / norms.masked_fill(norms == 0, 1.0)
    return found.to(u.dtype)


def distance(
    u: Float[Tensor, "*#batch dim"], v: Float[Tensor, "*#batch dim"]
) -> Float[Tensor, "*batch"]:
    r"""The Euclidean distance :math:`\lVert u - v \rVert`; where both are equal its gradient is 0.

    Example:
        >>> distance(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([0.0, 0.0]))
        tensor([5., 0.])
    """
    found: Tensor = torch.linalg.vector_norm(_wide(u) - _wide(v), dim=-1)
    return found.to(u.dtype)
