"""Inputs with their features first, so that a feature of neighboring positions is read at once."""

import triton
import triton.language as tl

from regard.attention._ops.triton._launch import kernel
from regard.attention._ops.triton._math import exponential

__all__ = ["transposed"]


@kernel
def transposed(
    q,
    k,
    turned_q,
    turned_k,
    exp_q,
    exp_k,
    q_n,
    q_t,
    q_d,
    k_n,
    k_t,
    k_d,
    Q,
    K,
    D,
    BT: tl.constexpr,
    BD: tl.constexpr,
):
    """Both inputs (N, T, D) as (N, D, T) in fp32, and their e^{2x}."""
    if tl.program_id(2) == 0:
        _turn_tile(q, turned_q, exp_q, q_n, q_t, q_d, Q, D, BT, BD)
    else:
        _turn_tile(k, turned_k, exp_k, k_n, k_t, k_d, K, D, BT, BD)


@triton.jit
def _turn_tile(x, out, exp_out, x_n, x_t, x_d, T, D, BT: tl.constexpr, BD: tl.constexpr):
    columns = tl.cdiv(D, BD)
    n = (tl.program_id(0) // columns).to(tl.int64)
    t = tl.program_id(1).to(tl.int64) * BT + tl.arange(0, BT)
    d = (tl.program_id(0) % columns).to(tl.int64) * BD + tl.arange(0, BD)
    inside = (t < T)[:, None] & (d < D)[None, :]
    y = tl.load(x + n * x_n + t[:, None] * x_t + d[None, :] * x_d, mask=inside, other=0.0)
    y = tl.trans(y.to(tl.float32))
    at, inside = n * D * T + d[:, None] * T + t[None, :], (d < D)[:, None] & (t < T)[None, :]
    tl.store(out + at, y, mask=inside)
    tl.store(exp_out + at, exponential(2.0 * y), mask=inside)
