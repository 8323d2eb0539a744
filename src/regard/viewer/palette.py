"""One hue, from white (looks away) to deep blue (looks only there), the same in every medium."""

from collections.abc import Sequence

__all__ = ["AA", "GRID", "HEADS", "INK", "LESS", "MARK", "STOPS", "ink_on", "shade", "top_of"]

STOPS = ("#ffffff", "#bdd5ef", "#7eacde", "#4381c7", "#1a57a1", "#0a2f61")
"""Colours at equal steps of the weight; lightness falls evenly, so grey prints are right."""

LESS = ("#ffffff", "#fbd3a8", "#f4a35c", "#dd7420", "#a84c08", "#6b2c02")
"""Below zero: one other hue, told apart from blue by every kind of eye."""

HEADS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7a00", "#6a51a3")
"""Okabe and Ito's colours, for heads; they come again after eight."""

INK, GRID, MARK = "#1a1a1a", "#e3e3e3", "#c2410c"
"""Of text, of lines between cells, and of the one thing to be pointed at."""
AA = 4.5
"""The least contrast of text that WCAG 2 asks for at its level AA."""


def shade(weight: float, top: float = 1.0) -> tuple[int, int, int]:
    """The colour of a weight, in 0-255; another hue below zero.

    Example:
        >>> shade(0.0), shade(1.0), shade(-1.0)
        ((255, 255, 255), (10, 47, 97), (107, 44, 2))
    """
    stops = LESS if weight < 0 else STOPS
    place = min(abs(weight) / top if top else 0.0, 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    a, b = _rgb(stops[low]), _rgb(stops[low + 1])
    red, green, blue = (round(x + (y - x) * (place - low)) for x, y in zip(a, b, strict=True))
    return red, green, blue


def ink_on(weight: float, top: float = 1.0) -> str:
    """The colour of text that can be read on the shade of `weight`: 4.5 : 1 at least (WCAG AA)."""
    red, green, blue = (_linear(value / 255) for value in shade(weight, top))
    ground = 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
    if 1.05 / ground >= AA:
        return "#ffffff"
    return INK if ground / _INK_LUMINANCE >= AA else "#000000"


def top_of(largest: Sequence[float]) -> float:
    """The end of the colour scale: 1, or less in round steps where all weights are small.

    Example:
        >>> top_of([0.2, 0.9]), top_of([0.07, 0.13])
        (1.0, 0.2)
    """
    most = max(largest, default=1.0)
    return next((step for step in (0.05, 0.1, 0.2, 0.5) if most <= step + 1e-6), 1.0)


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.03928 else float(((value + 0.055) / 1.055) ** 2.4)


_INK_LUMINANCE = _linear(int(INK[1:3], 16) / 255) + 0.05  # it is grey


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
