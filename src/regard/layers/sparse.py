"""A linear layer over sparse features: word counts, one-hot features of nodes."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.dropout import dropout
from regard.native.csr import compressed

__all__ = ["CSRMatrix", "SparseLinear"]


class CSRMatrix:
    """A matrix (N, F) in compressed sparse rows, with its transpose for the backward pass.

    Args:
        row, column, value: the nonzeros in any order; duplicates are added.
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
        self.transpose_order = torch.argsort(
            self.column, stable=True
        )  # by column: the transpose's order
        self.row = row[self.transpose_order]
        self.transpose_offsets = _offsets(self.column, shape[1])

    def to(self, device: torch.device | str) -> "CSRMatrix":
        """Move all tensors to a device."""
        moved = object.__new__(CSRMatrix)
        vars(moved).update(
            {k: v.to(device) if isinstance(v, Tensor) else v for k, v in vars(self).items()}
        )
        return moved

    def dropout(self, p: float) -> Float[Tensor, " nonzero"]:
        """The values after dropout; a zero stays zero, so only nonzeros are drawn."""
        return dropout(self.value, p, training=p > 0)

    def matmul(
        self, value: Float[Tensor, " nonzero"], weight: Float[Tensor, "f d"]
    ) -> Float[Tensor, "n d"]:
        """The product of this matrix, with the given values, and a dense one."""
        product: Tensor = _Product.apply(weight, value, self)  # type: ignore[no-untyped-call]
        return product


def _offsets(index: Tensor, size: int) -> Tensor:
    counts = torch.bincount(index, minlength=size)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class _Product(torch.autograd.Function):
    """X W with a gradient for W; the transpose of X is sorted once, not at every step."""

    @staticmethod
    def forward(ctx: object, weight: Tensor, value: Tensor, matrix: CSRMatrix) -> Tensor:
        ctx.matrix, ctx.value = matrix, value  # type: ignore[attr-defined]
        return _times(matrix.offsets, matrix.column, value, matrix.shape, weight)

    @staticmethod
    def backward(ctx: object, *grads: Tensor) -> tuple[Tensor, None, None]:
        matrix, value = ctx.matrix, ctx.value  # type: ignore[attr-defined]
        shape = (matrix.shape[1], matrix.shape[0])
        value = value[matrix.transpose_order]
        grad = grads[0].contiguous()
        return _times(matrix.transpose_offsets, matrix.row, value, shape, grad), None, None


def _times(
    offsets: Tensor, index: Tensor, value: Tensor, shape: tuple[int, int], dense: Tensor
) -> Tensor:
    """A compressed matrix times a dense one; on a CPU in float32 where they are in half precision.

    PyTorch's sparse products on the CPU know no bfloat16 and no float16.
    """
    if dense.device.type == "cpu" and dense.dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", enabled=False):
            found = compressed(offsets, index, value.float(), shape) @ dense.float()
        return found.to(dense.dtype)
    return compressed(offsets, index, value, shape) @ dense


class SparseLinear(nn.Module):
    r"""y = x W for sparse x, with dropout on x.

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

    def forward(self, x: CSRMatrix | Float[Tensor, "n f"]) -> Float[Tensor, "n d"]:
        """Multiply a sparse or a dense matrix."""
        p = self.dropout if self.training else 0.0
        if isinstance(x, CSRMatrix):
            return x.matmul(x.dropout(p), self.weight)
        return dropout(x, p, training=p > 0) @ self.weight
