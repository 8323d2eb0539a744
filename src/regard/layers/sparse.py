"""A linear layer over mostly empty rows: word counts, one-hot features of nodes."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention._kernels.csr import compressed
from regard.layers.dropout import dropout

__all__ = ["Rows", "SparseLinear"]


class Rows:
    """Sparse rows (N, F) as a layer reads them, with their transpose for the backward pass.

    Args:
        row, column, value: the nonzeros, in any order; those of one place add up.
        shape: (N, F).
    """

    def __init__(
        self,
        row: Int[Tensor, " n"],
        column: Int[Tensor, " n"],
        value: Float[Tensor, " n"],
        shape: tuple[int, int],
    ) -> None:
        self.shape = shape
        order = torch.argsort(row * shape[1] + column)
        self.value = value[order]
        row, self.column = row[order], column[order]
        self.offsets = _offsets(row, shape[0])
        self.back = torch.argsort(self.column, stable=True)  # by column: the transpose's order
        self.row = row[self.back]
        self.back_offsets = _offsets(self.column, shape[1])

    def to(self, device: torch.device | str) -> "Rows":
        """Move all of it."""
        moved = object.__new__(Rows)
        vars(moved).update(
            {k: v.to(device) if isinstance(v, Tensor) else v for k, v in vars(self).items()}
        )
        return moved

    def dropped(self, p: float) -> Float[Tensor, " nonzero"]:
        """The values with dropout: what a zero becomes does not matter."""
        return dropout(self.value, p, training=p > 0)

    def times(
        self, value: Float[Tensor, " nonzero"], weight: Float[Tensor, "f d"]
    ) -> Float[Tensor, "n d"]:
        """The rows with these values, times a matrix."""
        product: Tensor = _Product.apply(weight, value, self)  # type: ignore[no-untyped-call]
        return product


def _offsets(index: Tensor, size: int) -> Tensor:
    counts = torch.bincount(index, minlength=size)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class _Product(torch.autograd.Function):
    """X W with gradients for W: the transpose of X is sorted once, not at every step."""

    @staticmethod
    def forward(ctx: object, weight: Tensor, value: Tensor, rows: Rows) -> Tensor:
        ctx.rows, ctx.value = rows, value  # type: ignore[attr-defined]
        return compressed(rows.offsets, rows.column, value, rows.shape) @ weight

    @staticmethod
    def backward(ctx: object, *grads: Tensor) -> tuple[Tensor, None, None]:
        rows, value = ctx.rows, ctx.value  # type: ignore[attr-defined]
        shape = (rows.shape[1], rows.shape[0])
        back = compressed(rows.back_offsets, rows.row, value[rows.back], shape)
        return back @ grads[0].contiguous(), None, None


class SparseLinear(nn.Module):
    r"""y = x W for sparse rows x, with dropout on x.

    Args:
        inputs: F.
        outputs: D.
        dropout: on the entries of x; a dropped zero is a zero, so only nonzeros are drawn.

    Shapes:
        rows (N, F) to (N, D); the weight is (F, D)
    """

    def __init__(self, inputs: int, outputs: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Rows | Float[Tensor, "n f"]) -> Float[Tensor, "n d"]:
        """Multiply sparse rows, or dense ones."""
        p = self.dropout if self.training else 0.0
        if isinstance(x, Rows):
            return x.times(x.dropped(p), self.weight)
        return dropout(x, p, training=p > 0) @ self.weight
