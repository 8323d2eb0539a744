"""Weights in panels of 32 outputs, in float32, bfloat16 or bytes, and a product with them.

See `int8_products.h`. A packed model's step has many of these products; by itself one is for
tests and benchmarks.
"""

import ctypes

import torch
from torch import Tensor, nn

from regard.native.gate import Function, declare
from regard.native.quantize import row_bytes

__all__ = ["PRECISIONS", "PackedLinear", "PackedProduct", "in_panels"]

PRECISIONS = ("float32", "bfloat16", "int8")
PANEL = 32


class PackedLinear(ctypes.Structure):
    """Addresses and sizes of one packed product."""

    _fields_ = [(name, ctypes.c_int64) for name in ("w", "scale", "bias", "inputs", "out")]


declare("linear", PackedLinear)
_PRODUCT = Function(
    "regard_packed_product",
    "packed: address",
    "kind: long",
    "rows",
    "x: f32 [rows n]",
    "y: f32 [rows out] out",
)


def in_panels(weight: Tensor, precision: str) -> tuple[Tensor, Tensor | None]:
    """Weights as C reads them, and the step of each output where they are bytes.

    Two inputs of an output lie side by side in bfloat16, four in bytes. Bytes are 128 more than
    they are.

    Shapes:
        weight (out, in), in a multiple of 4, to panels and (out rounded up to 32,)
    """
    out, inputs = weight.shape
    weight = nn.functional.pad(weight, (0, 0, 0, -out % PANEL)).view(-1, PANEL, inputs)
    steps, together = None, 1
    if precision == "bfloat16":
        weight, together = weight.bfloat16(), 2
    elif precision == "int8":
        weight, steps = row_bytes(weight)
        weight, together = (weight.short() + 128).to(torch.uint8), 4
    panels = weight.unflatten(2, (-1, together)).transpose(1, 2).contiguous()
    return panels, None if steps is None else steps.flatten()


class PackedProduct:
    r"""A packed weight and its product with rows, :math:`y = x W^\top`, on one thread.

    Args:
        weight: (out, in), in a multiple of 16.
        precision: one of `PRECISIONS`.

    Raises:
        ValueError: for another shape or precision.
    """

    def __init__(self, weight: Tensor, precision: str = "float32") -> None:
        if weight.dim() != 2 or weight.shape[1] % 16:
            raise ValueError(
                f"weight: expected (out, in), in a multiple of 16, got {tuple(weight.shape)}"
            )
        if precision not in PRECISIONS:
            raise ValueError(f"precision: expected one of {', '.join(PRECISIONS)}, got {precision}")
        self._panels, steps = in_panels(weight.detach().float(), precision)
        self._steps = steps
        scale = 0 if steps is None else steps.data_ptr()
        out, inputs = weight.shape
        self._kind, self._out = PRECISIONS.index(precision), out
        self._linear = PackedLinear(self._panels.data_ptr(), scale, 0, inputs, out)

    def __call__(self, x: Tensor) -> Tensor:
        """The product.

        Shapes:
            x (rows, in) to (rows, out)

        Raises:
            ValueError: for rows of another width.
        """
        if x.shape[1] != self._linear.inputs:
            raise ValueError(f"x: expected {self._linear.inputs} columns, got {x.shape[1]}")
        y = x.new_empty(len(x), self._out)
        _PRODUCT(ctypes.addressof(self._linear), self._kind, x, y)
        return y
