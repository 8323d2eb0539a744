"""Absolute positions, added to embeddings."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.constant_tables import ConstantTables
from regard.errors import RequestError, nearest

__all__ = ["LAYOUTS", "LearnedPositions", "Sinusoid", "sinusoid"]

LAYOUTS = ("interleaved", "grouped", "halves")
"""Three ways to lay the sines and cosines out."""


def sinusoid(length: int, dim: int, layout: str = "interleaved") -> Float[Tensor, "length dim"]:
    r"""The sinusoid table of Vaswani et al. (2017, 3.5), computed in float64.

    .. math:: PE_{p,2i} = \sin(p / 10000^{2i/d}), \quad PE_{p,2i+1} = \cos(p / 10000^{2i/d})

    Args:
        layout: "interleaved" as printed; "grouped" as Marian stores it: the same columns, all sines
            before all cosines; "halves" as tensor2tensor and fairseq compute it: grouped, with the
            exponent i/(d/2 - 1), which is another table.
    """
    if layout not in LAYOUTS:
        raise RequestError(f"no sinusoid layout is called {layout!r}; {nearest(layout, LAYOUTS)}")
    compiling = torch.compiler.is_compiling()  # no device is a graph's value
    if not compiling and torch.get_default_device().type == "meta":
        return torch.empty(length, dim)  # a shape is all, and `arange` imports the compiler
    position = torch.arange(length, dtype=torch.float64)[:, None]
    half = (dim + 1) // 2
    index = torch.arange(half, dtype=torch.float64)
    exponent = -index / max(half - 1, 1) if layout == "halves" else -2 * index / dim
    angle = position * 10000.0**exponent
    both = angle.sin(), angle.cos()
    apart = layout != "interleaved"
    table = torch.cat(both, 1) if apart else torch.stack(both, 2).flatten(1)
    return table[:, :dim].to(torch.get_default_dtype())


class Sinusoid(ConstantTables):
    """Adds the sinusoid table, which has no parameters and grows as needed.

    Shapes:
        x (*batch, T, dim) to the same; `at` is the position of the first row: one number, or
        (*batch,) int64
    """

    table: Tensor

    def __init__(self, dim: int, *, layout: str = "interleaved", length: int = 256) -> None:
        super().__init__()
        self.dim, self.layout = dim, layout
        self.register_buffer("table", sinusoid(length, dim, layout), persistent=False)

    def forward(
        self, x: Float[Tensor, "*batch t dim"], at: int | Int[Tensor, "..."] = 0
    ) -> Float[Tensor, "*batch t dim"]:
        """Add positions at, at + 1, ..."""
        end = _last(at) + x.shape[-2]
        if end > len(self.table):
            with torch.inference_mode(False):  # training goes on with it
                table = sinusoid(max(end, 2 * len(self.table)), self.dim, self.layout)
                self.table = table.to(self.table)
        return x + _rows(self.table, at, x.shape[-2]).to(x)  # wherever `assign=True` left it

    def constant(self, name: str, like: Tensor) -> Tensor:
        """The table, of as many rows."""
        return sinusoid(len(like), self.dim, self.layout)

    def extra_repr(self) -> str:
        """Say the size and the layout."""
        return f"{self.dim}, layout={self.layout!r}"


class LearnedPositions(nn.Module):
    """Adds a learned vector for each position (Gehring et al. 2017; Vaswani et al. 2017, row E).

    Shapes:
        x (*batch, T, dim) to the same; `at` as for `Sinusoid`

    Raises:
        RequestError: for a position beyond the table, which cannot be extrapolated.
    """

    def __init__(self, dim: int, length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(length, dim) * dim**-0.5)

    def forward(
        self, x: Float[Tensor, "*batch t dim"], at: int | Int[Tensor, "..."] = 0
    ) -> Float[Tensor, "*batch t dim"]:
        """Add positions at, at + 1, ..."""
        end = _last(at) + x.shape[-2]
        if end > len(self.table):
            raise RequestError(
                f"learned positions end at {len(self.table)}, got position {end}; "
                "build the model with a longer table, or with sinusoid positions"
            )
        return x + _rows(self.table, at, x.shape[-2])

    def extra_repr(self) -> str:
        """Say the size of the table."""
        return f"{tuple(self.table.shape)}"


class NoPositions(nn.Module):
    """Adds nothing: for models with relative positions (Shaw et al. 2018), or none.

    Shapes:
        x (*batch, T, dim) to the same
    """

    def forward(
        self, x: Float[Tensor, "*batch t dim"], at: int | Int[Tensor, "..."] = 0
    ) -> Float[Tensor, "*batch t dim"]:
        """Give x back."""
        return x


def _last(at: int | Tensor) -> int:
    """The largest of some positions."""
    return int(at.max()) if isinstance(at, Tensor) else at


def _rows(table: Tensor, at: int | Tensor, count: int) -> Tensor:
    """So many rows of a table from position `at` on."""
    if isinstance(at, Tensor):
        return table[at[..., None] + torch.arange(count, device=at.device)]
    return table[at : at + count]
