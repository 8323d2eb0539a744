"""Cross-entropy with label smoothing, summed over real tokens; no smoothed target in memory."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard import native
from regard.layers.copy_mixture import DeferredMixture
from regard.layers.deferred_logits import DeferredLogits
from regard.layers.linear import add_product, is_faster, product
from regard.native.derivatives import once_differentiable
from regard.native.gate import Function
from regard.protocols import PAD

__all__ = ["smoothed_cross_entropy", "weights_whole"]

_CHUNK = 1 << 18
"""Numbers worked on at once on a CPU: what stays in its cache."""
_BYTES = 1 << 25
"""Of logits that are there at once where they were deferred."""
_ENTROPY = Function(
    "regard_entropy",
    "r",
    "n",
    "logits: real [r n] out",
    "gold: i64 [r]",
    "a: float",
    "b: float",
    "losses: f32 [r] out",
    "half logits",
    "write: int",
    "threads: threads",
)


def smoothed_cross_entropy(
    logits: Tensor | DeferredLogits | DeferredMixture,
    target: Tensor,
    smoothing: float = 0.0,
    *,
    normalized: bool = False,
) -> Tensor:
    r"""The sum over real tokens of the cross-entropy with a smoothed target, in float32 at least.

        loss_n = - Σ_v q_v log p_v,     q_gold = 1 - ε,   q_v = ε / (V - 1) for every other v
               = log Σ_v e^{z_v} - a z_gold - b Σ_v z_v,   b = ε / (V - 1),  a = 1 - ε - b

    The constant entropy of q is not subtracted (tensor2tensor subtracts it). Rows whose target is
    PAD count nothing. Beside the logits, only their gradient is ever as large as they are. Logits
    that were deferred (`layers.deferred_logits`) are made for real tokens alone, some rows at a
    time, and with them all gradients: there are never more than 32 MiB of them.

    Args:
        logits: scores before the softmax, or what they are made of.
        target: the gold ids.
        smoothing: ε, from 0 to below 1.
        normalized: the logits are log-probabilities already; then smoothing leaves out those that
            are -inf (a word that a pointer cannot reach).

    Shapes:
        logits (..., V) in any float dtype, target (...) int64.

    Source: Szegedy et al. (2016), section 7, spread over the other words as tensor2tensor does it.
    """
    if isinstance(logits, DeferredLogits):
        return _of_deferred(logits, target.reshape(-1), smoothing)
    if isinstance(logits, DeferredMixture):
        if not smoothing:
            return -logits.of(target).masked_fill(target == PAD, 0.0).sum()
        logits = logits.whole()
    rows, gold = logits.reshape(-1, logits.shape[-1]), target.reshape(-1)
    if normalized:
        return _of_log_probabilities(rows, gold, smoothing)
    loss: Tensor = _Smoothed.apply(rows, gold, smoothing)  # type: ignore[no-untyped-call]
    return loss


def _weights(smoothing: float, size: int) -> tuple[float, float]:
    """(a, b): what the gold logit weighs in addition, and what every logit weighs."""
    other = smoothing / (size - 1) if size > 1 else 0.0
    return 1.0 - smoothing - other, other


def _of_log_probabilities(rows: Tensor, gold: Tensor, smoothing: float) -> Tensor:
    a, b = _weights(smoothing, rows.shape[1])
    real = gold != PAD
    rows, gold = rows[real].to(_wide(rows)), gold[real]
    loss = -a * rows.gather(1, gold[:, None]).sum()
    if b:
        loss = loss - b * rows.masked_fill(rows == -torch.inf, 0.0).sum()
    return loss


def _of_deferred(logits: DeferredLogits, gold: Tensor, smoothing: float) -> Tensor:
    states, weight, bias = logits
    states = states.reshape(-1, states.shape[-1])
    real = (gold != PAD).nonzero()[:, 0]
    if len(real) < len(gold):
        states, gold = states.index_select(0, real), gold.index_select(0, real)
    # Inside a Function gradients are off for everyone: whether they are wanted is known here alone.
    leaves = [x for x in (states, weight, bias) if x is not None]
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in leaves)
    loss: Tensor = _Projected.apply(  # type: ignore[no-untyped-call]
        states, weight, bias, gold, smoothing, wanted
    )
    return loss


def _entropy(z: Tensor, gold: Tensor, parts: tuple[float, float], *, write: bool) -> Tensor:
    """The losses of rows of real tokens, (n,); with `write`, their gradient over the logits."""
    a, b = parts
    known = z.is_cpu and z.dtype in (torch.float32, torch.bfloat16)
    if not known or native.unavailable_reason(_ENTROPY.name) is not None:
        loss, lse = _losses(z, gold, parts)
        if write:
            _gradient(z, gold, lse, parts, out=z)
        return loss
    losses = z.new_empty(len(z), dtype=torch.float32)
    try:
        _ENTROPY(z, gold, a, b, losses, write, native.threads(z.numel()))
    except IndexError:
        low, high = (int(x) for x in gold.aminmax())
        wrong = low if low < 0 else high
        raise IndexError(f"a target id is {wrong}, and there are {z.shape[1]} words") from None
    return losses


class _Projected(torch.autograd.Function):
    """Loss and gradients of a linear layer's logits, made together: logits are made only once."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        gold: Tensor,
        smoothing: float,
        write: bool,
    ) -> Tensor:
        device, dtype = states.device.type, states.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        parts = _weights(smoothing, len(weight))
        grads = (torch.empty_like(states), torch.zeros_like(weight)) if write else ()
        of_bias = torch.zeros_like(bias) if write and bias is not None else None
        with torch.autocast(device, enabled=False):
            low, narrow = states.to(dtype), weight.to(dtype)
            own = None if bias is None else bias.to(dtype)
            total = states.new_zeros((), dtype=torch.float64 if device == "cpu" else _wide(states))
            step = max(64, _BYTES // (len(weight) * dtype.itemsize))
            for start in range(0, len(gold), step):
                part, here = low[start : start + step], gold[start : start + step]
                fast = is_faster(part, narrow)
                z = product(part, narrow.t(), own) if fast else F.linear(part, narrow, own)
                total += _entropy(z, here, parts, write=write).sum(dtype=total.dtype)
                if not grads:
                    continue
                grads[0][start : start + step] = product(z, narrow) if fast else z @ narrow
                if fast:
                    add_product(grads[1], z.t(), part)
                elif dtype == weight.dtype:
                    grads[1].addmm_(z.t(), part)
                else:
                    grads[1].add_(z.t() @ part)
                if of_bias is not None:
                    of_bias += z.sum(0, dtype=of_bias.dtype)
        ctx.save_for_backward(*grads, of_bias)
        return total.to(_wide(states))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        of_states, of_weight, of_bias = ctx.saved_tensors
        scale = upstream.to(of_weight.dtype)
        return (
            of_states * upstream.to(of_states.dtype),
            of_weight * scale,
            None if of_bias is None else of_bias * scale,
            None,
            None,
            None,
        )


def _wide(rows: Tensor) -> torch.dtype:
    """What sums are made in."""
    return torch.promote_types(rows.dtype, torch.float32)


def _chunks(rows: Tensor) -> int:
    """Rows worked on at once; a GPU takes larger bites."""
    numbers = _CHUNK if rows.device.type == "cpu" else _CHUNK << 7
    return max(1, numbers // rows.shape[1])


def _losses(rows: Tensor, gold: Tensor, parts: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """The loss of every row and its log-sum-exp, some rows at a time."""
    a, b = parts
    wide = _wide(rows)
    lse = torch.empty(len(rows), dtype=wide, device=rows.device)
    sums = torch.zeros_like(lse)
    step = _chunks(rows)
    for start in range(0, len(rows), step):
        z = rows[start : start + step].to(wide)
        lse[start : start + step] = torch.logsumexp(z, 1)
        if b:
            sums[start : start + step] = z.sum(1)
    of_gold = rows.gather(1, gold[:, None])[:, 0].to(wide)
    return lse - a * of_gold - b * sums, lse


def _gradient(
    rows: Tensor,
    gold: Tensor,
    lse: Tensor,
    parts: tuple[float, float],
    out: Tensor,
    scale: Tensor | None = None,
) -> None:
    """Write d loss_n / d z_v = p_v - b - a [v = gold], times a row's scale; out may be rows."""
    a, b = parts
    step = _chunks(rows)
    for start in range(0, len(rows), step):
        at = slice(start, start + step)
        same = rows.dtype == lse.dtype
        part = torch.sub(rows[at], lse[at, None], out=out[at] if same else None).exp_()
        if b:
            part.sub_(b)
        part.scatter_add_(1, gold[at, None], part.new_full((len(part), 1), -a))
        if scale is not None:
            part.mul_(scale[at, None])
        if not same:
            out[at] = part


class _Smoothed(torch.autograd.Function):
    """Forward keeps the logits and their log-sum-exp; backward writes the gradient in one go."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, gold: Tensor, smoothing: float) -> Tensor:
        ctx.parts = _weights(smoothing, rows.shape[1])
        loss, lse = _losses(rows, gold, ctx.parts)
        ctx.save_for_backward(rows, gold, lse)
        return loss.masked_fill(gold == PAD, 0.0).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        rows, gold, lse = ctx.saved_tensors
        scale = (gold != PAD).to(lse.dtype) * upstream  # nothing where the target is padding
        grad = torch.empty_like(rows)
        _gradient(rows, gold, lse, ctx.parts, grad, scale)
        return grad, None, None


def weights_whole() -> bool:
    """Whether weights can be used outside their model's call: not where they are in shards."""
    return not (torch.distributed.is_available() and torch.distributed.is_initialized())
