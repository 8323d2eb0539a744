"""Lines, bars and matrices of an experiment, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Chart", "Matrix"]


@dataclass(frozen=True)
class Chart:
    """Lines, or bars where x is a name.

    Args:
        title, x, y: text above, below and beside.
        lines: of each name its points (x, y); several y at one x are several seeds.
        bars: of each name one value for each seed.
        log: axes with logarithmic scales: "x", "y", "xy" or "".
        shaded: a part of the x axis to mark, such as the lengths of training.
    """

    title: str
    x: str = ""
    y: str = ""
    lines: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    bars: Mapping[str, Sequence[float]] = field(default_factory=dict)
    log: str = ""
    shaded: tuple[float, float] | None = None


@dataclass(frozen=True)
class Matrix:
    """Weights as shades, with labels on both axes.

    Args:
        numbers: how each weight is written into its cell, as ".0f"; "" writes none.
        top: the weight of the darkest shade; None: the largest one.

    Shapes:
        weights (rows, columns), as nested lists
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    weights: Sequence[Sequence[float]]
    numbers: str = ""
    top: float | None = None
