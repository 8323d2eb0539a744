r"""What the kernels share: exponentials once per input, one reciprocal per pair, exact fallbacks.

.. math:: \tanh(a + b) = 1 - \frac{2}{1 + e^{2a} e^{2b}}

`exponentials` makes :math:`e^{s x}` of an input and notes the largest :math:`|s x|` that it met in
a number on the device, so that no kernel needs the host to know it. By that number `mode` chooses:
the factored form in the middle; near zero, where it would lose digits, a polynomial; far out, where
an exponential of one input overflows although the sum is small, the plain form.
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
    "exponentials",
    "fast",
    "mode",
    "power",
    "rows_reach",
    "splits",
    "squash",
    "tile_reach",
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
    """How to compute every pair, from the largest exponent of all inputs."""
    return tl.where(reach > _LARGE, PLAIN, tl.where(reach < _SMALL, NEAR, FACTORED))


@triton.jit
def tile_reach(e):
    """The largest |y| of a tile of e^y: infinite where one overflowed or became 0."""
    top, low = tl.max(tl.max(e, 1), 0), tl.min(tl.min(e, 1), 0)
    return tl.maximum(tl.log(top), -tl.log(low))


@triton.jit
def rows_reach(e, step, count, seen, B: tl.constexpr):
    """The same of `count` rows of B exponentials, `step` apart."""
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


@triton.jit
def _exponentials(
    x, out, reach, x_n, x_t, x_d, out_n, out_t, out_d, T, D, padded_t, padded_d, scale,
    BT: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(padded_t, BT)
    n = (tl.program_id(0) // tiles).to(tl.int64)
    t = ((tl.program_id(0) % tiles) * BT + tl.arange(0, BT)).to(tl.int64)[:, None]
    d = (tl.program_id(1) * BD + tl.arange(0, BD)).to(tl.int64)[None, :]
    inside = (t < T) & (d < D)
    y = tl.load(x + n * x_n + t * x_t + d * x_d, mask=inside, other=0.0)
    y = y.to(tl.float32) * scale
    size = tl.max(tl.max(tl.abs(y), 1), 0)
    tl.atomic_max(reach, size)  # a maximum: the same in whatever order
    # exp(y) as 2^n exp(f), |f| <= ln 2 / 2: the fast exponential of a large y loses digits.
    y = tl.minimum(tl.maximum(y, -_LARGE), _LARGE)
    whole = tl.floor(y * _LOG2E + 0.5)
    part = (y - whole * _LN2_HIGH) - whole * _LN2_LOW
    y = tl.exp(part) * tl.exp2(whole)
    at = out + n * out_n + t * out_t + d * out_d
    tl.store(at, y, mask=(t < padded_t) & (d < padded_d))


def exponentials(
    x: Tensor, scale: float, reach: Tensor, rows: int, columns: int = 1, *, turned: bool = False
) -> Tensor:
    """e^{scale x} of x (N, T, D) as (N, T', D'), or as (N, D', T') where `turned`.

    T' and D' are T and D rounded up to whole tiles of `rows` and `columns`, so that kernels read
    it without asking where it ends; what is past the end is 1.
    """
    batch, length, dim = x.shape
    long, wide = rows * cover(length, rows), columns * cover(dim, columns)
    shape = (batch, wide, long) if turned else (batch, long, wide)
    out = x.new_empty(shape, dtype=torch.float32)
    strides = (wide * long, 1, long) if turned else (wide * long, wide, 1)
    with torch.cuda.device_of(x):
        _exponentials[(batch * cover(long, 32), cover(wide, 32))](
            x, out, reach, *x.stride(), *strides, length, dim, long, wide, scale,
            BT=32, BD=32, num_warps=4,
        )  # fmt: skip
    return out


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
