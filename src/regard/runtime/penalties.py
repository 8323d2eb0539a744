"""The limit of an output's length, and length penalties under two names. |Y| counts EOS.

    gnmt:   lp(Y) = ((5 + |Y|) / 6)^alpha     Wu et al. 2016, equation 14; Vaswani et al. 2017
    power:  lp(Y) = |Y|^alpha                 alpha 1 is the mean log-probability a token

A hypothesis is ranked by log P(Y|X) / lp(Y). The two are different functions of the same alpha, and
papers and toolkits that say "length penalty 0.6" mean one or the other.
"""

import math
from collections.abc import Callable, Mapping

__all__ = ["PENALTIES", "gnmt", "most_tokens", "power"]


def most_tokens(source: int, max_ratio: float, max_extra: int, max_length: int | None) -> int:
    """Give the most tokens, with EOS, for a source of `source` tokens with EOS.

    Example:
        >>> most_tokens(3, 2.0, 10, None), most_tokens(3, 2.0, 10, 12)
        (16, 12)
    """
    most = math.ceil(max_ratio * source - 1e-9) + max_extra
    return most if max_length is None else min(most, max_length)


def gnmt(length: int, alpha: float) -> float:
    """Give GNMT's penalty of a sequence of `length` tokens with EOS.

    Example:
        >>> gnmt(1, 0.6), round(gnmt(10, 0.6), 3), round(gnmt(20, 0.6), 3)
        (1.0, 1.733, 2.354)
    """
    return float(((5 + length) / 6) ** alpha)


def power(length: int, alpha: float) -> float:
    """Give the plain power of a sequence of `length` tokens with EOS.

    Example:
        >>> power(10, 1.0), power(10, 0.0)
        (10.0, 1.0)
    """
    return float(length**alpha)


PENALTIES: Mapping[str, Callable[[int, float], float]] = {"power": power, "gnmt": gnmt}
