r"""What the kernels share: exponentials of inputs, one reciprocal per pair, exact fallbacks.

.. math:: \tanh(a + b) = 1 - \frac{2}{1 + e^{2a} e^{2b}}

Each program looks for the largest :math:`|2x|` of its inputs, so that the host need not know it. By
it `mode` chooses: the factored form in the middle; near zero, where it would lose digits, a
polynomial; far out, where an exponential of one input overflows although the sum is small, the
plain form.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = [
    "FACTORED",
    "NEAR",
    "PLAIN",
    "cover",
    "exponential",
    "fast",
    "mode",
    "power",
    "raised",
    "rows_reach",
    "rows_size",
    "splits",
    "squash",
]

FACTORED, NEAR, PLAIN = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
_SMALL = tl.constexpr(0.5)  # |2x| of an input; two of them give |tanh's argument| <= 0.5
_LARGE = tl.constexpr(86.0)  # e^86 and e^-86 are normal numbers in fp32
_TOP = tl.constexpr(85.0)
_HUGE = tl.constexpr(1e37)  # keeps E * r finite: 1 / _HUGE is a normal number too
_LOG2E = tl.constexpr(1.4426950408889634)
_LN2_HIGH = tl.constexpr(0.693359375)  # few bits: a whole number times it is exact
_LN2_LOW = tl.constexpr(-2.1219444005469057e-4)


@triton.jit
def mode(reach):
    """How to compute the pairs of a tile, from the largest |2x| of its inputs."""
    return tl.where(reach > _LARGE, PLAIN, tl.where(reach < _SMALL, NEAR, FACTORED))


@triton.jit
def raised(y):
    """e^y, |y| <= 86, as 2^n e^f with |f| <= ln 2 / 2: the fast one of a large y loses digits."""
    whole = tl.floor(y * _LOG2E + 0.5)
    part = (y - whole * _LN2_HIGH) - whole * _LN2_LOW
    return tl.exp(part) * tl.exp2(whole)


@triton.jit
def exponential(y):
    """e^y; infinite or 0 where an exponential of one input is not used."""
    e = raised(tl.minimum(tl.maximum(y, -_LARGE), _LARGE))
    return tl.where(y > _LARGE, float("inf"), tl.where(y < -_LARGE, 0.0, e))


@triton.jit
def rows_size(x, step, count, seen, B: tl.constexpr):
    """The largest |x| of `count` rows of B numbers, `step` apart."""
    top = tl.zeros((B,), tl.float32)
    for _ in range(count):
        top = tl.maximum(top, tl.abs(tl.load(x, mask=seen, other=0.0).to(tl.float32)))
        x += step
    return tl.max(top, 0)


@triton.jit
def rows_reach(e, step, count, seen, B: tl.constexpr):
    """The largest |y| of `count` rows of B numbers e^y, `step` apart; may be infinite."""
    top = tl.full((B,), 1.0, tl.float32)
    low = tl.full((B,), 1.0, tl.float32)
    for _ in range(count):
        x = tl.load(e, mask=seen, other=1.0)
        top = tl.maximum(top, x)
        low = tl.minimum(low, x)
        e += step
    return tl.maximum(tl.log(tl.max(top, 0)), -tl.log(tl.min(low, 0)))


@triton.jit
def reciprocal(x, FAST: tl.constexpr):
    """1 / x; FAST is one instruction with an error of one unit in the last place."""
    if FAST:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return 1.0 / x


@triton.jit
def squash(a, b, MODE: tl.constexpr, FAST: tl.constexpr, SLOPE: tl.constexpr):
    """tanh(x) and, where SLOPE, a quarter of its derivative, x of a pair.

    Args:
        a, b: what the two inputs of the pair bring: exponentials e^{2x} where FACTORED, else 2x.
    """
    if MODE == NEAR:
        x = 0.5 * (a + b)
        y = x * x
        p = 3.5921280365724810e-3 * y - 8.8632355299021966e-3  # Taylor's series
        p = p * y + 2.1869488536155203e-2
        p = p * y - 5.3968253968253971e-2
        p = p * y + 1.3333333333333333e-1
        p = p * y - 3.3333333333333333e-1
        t = x + x * (p * y)
        return t, 0.25 - 0.25 * t * t
    else:
        # A product may be infinite: then r is 0 and t is 1.
        e = a * b if MODE == FACTORED else tl.exp(tl.minimum(a + b, _TOP))
        if SLOPE:
            e = tl.minimum(e, _HUGE)
        r = reciprocal(1.0 + e, FAST)
        return 1.0 - 2.0 * r, (e * r) * r  # r - r^2 would lose digits where r is nearly 1


def power(size: int) -> int:
    """The next power of two: a tile's sizes must be."""
    return 1 << max(0, size - 1).bit_length()


def cover(size: int, tile: int) -> int:
    """How many tiles cover `size`; `triton.cdiv` does the same at ten times the overhead."""
    return -(-size // tile)


def fast(x: Tensor) -> bool:
    """Whether the one-instruction reciprocal is there: not in the interpreter, nor on AMD."""
    return x.is_cuda and torch.version.hip is None


def splits(programs: int, rows: int) -> tuple[int, int]:
    """How many programs share a walk over `rows`, and rows of each: for few programs, more.

    Depends on sizes alone, never on the device, so that results are the same everywhere.
    """
    parts = max(1, min(8, 1024 // max(1, programs), rows // 64))
    share = cover(rows, parts)
    return cover(rows, share), share
