"""How numbers are written in figures, terminals and pages; `viewer/page/numbers.js` is the twin."""

import math
from decimal import ROUND_HALF_UP, Context, Decimal

__all__ = ["decimal", "in_cell", "significant"]

MINUS = "−"
_LARGEST = 1e21
"""From here up JavaScript's `toFixed` writes an exponent; so does this."""
_EXACT = Context(prec=60, rounding=ROUND_HALF_UP)


def decimal(value: float, digits: int = 2) -> str:
    """A number with a fixed count of decimals: halves are rounded away from zero, no "−0.00".

    Example:
        >>> decimal(-0.25), decimal(0.125), decimal(-0.001), decimal(float("nan"))
        ('−0.25', '0.13', '0.00', 'NaN')
    """
    value = float(value)
    size = abs(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        text = "∞"
    elif size >= _LARGEST:
        text = repr(size)
    else:
        text = f"{Decimal(size).quantize(Decimal(1).scaleb(-digits), context=_EXACT):f}"
    return MINUS + text if value < 0 and text.strip("0.") else text


def in_cell(value: float) -> str:
    """A weight in a small cell: two decimals without the leading zero; nothing below 0.005.

    Example:
        >>> in_cell(0.25), in_cell(-0.25), in_cell(1.0), in_cell(10.25), in_cell(1e-7)
        ('.25', '−.25', '1.00', '10.25', '')
    """
    if abs(value) < 0.005:
        return ""
    text = decimal(value)
    sign = MINUS if text.startswith(MINUS) else ""
    return sign + text.removeprefix(sign).removeprefix("0")


def significant(value: float, digits: int = 3) -> str:
    """A number with this many significant digits, for values of any size.

    Example:
        >>> significant(0.5), significant(-1234.5), significant(1e-7)
        ('0.5', '−1.23e3', '1e-7')
    """
    if not math.isfinite(value):
        return decimal(value)
    mantissa, e, exponent = f"{value + 0.0:.{digits}g}".partition("e")
    mantissa = mantissa.replace("-", MINUS)
    return f"{mantissa}e{int(exponent)}" if e else mantissa
