r"""The functions of the fused kernels in PyTorch's own operators, for second derivatives.

Each function has the arguments of its kernel's operator and computes the same numbers, including
dropout. They store all pairs (edges), which second derivatives need.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention._ops.distances import distance
from regard.attention._ops.softmax import masked_softmax
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.dropout import BITS

__all__ = [
    "additive_attend",
    "additive_scores",
    "differentiable",
    "dots",
    "edge_additive",
    "edge_dot",
    "edge_sum",
    "edges",
    "features",
    "located_attend",
    "tiles",
]

_WORD = (1 << 32) - 1


def _wide(*tensors: Tensor) -> list[Tensor]:
    """In float32 at least."""
    return [x.float() if x.element_size() < 4 else x for x in tensors]


def additive_scores(query: Tensor, key: Tensor, v: Tensor, heads: int = 1) -> Tensor:
    r"""The perceptron score, :math:`v^\top \tanh(q_i + k_j)`.

    Args:
        heads: of rows without an axis of heads; 1 where they have one.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), v (D,), or (heads, D) for a last batch axis of
        heads or for rows of as many heads in turn, to (*batch, Q, K)
    """
    query, key, v = _wide(query, key, v)
    hidden = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))  # (*batch, Q, K, D)
    if v.dim() == 1:
        scores: Tensor = hidden @ v
        return scores
    split = hidden if heads == 1 else hidden.unflatten(0, (-1, heads))
    scores = (split @ v[:, None, :, None]).squeeze(-1)
    return scores if heads == 1 else scores.flatten(0, 1)


def additive_attend(
    query: Tensor,
    key: Tensor,
    v: Tensor,
    value: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    scale: float,
    heads: int,
) -> tuple[Tensor, Tensor]:
    """Context and weights of the perceptron score; mask (B, Q, K), lengths (B,)."""
    scores = additive_scores(query, key, v, heads) * scale
    if lengths is not None:
        inside = torch.arange(key.shape[1], device=key.device) < lengths[:, None, None]
        mask = inside if mask is None else mask & inside
    if mask is not None:
        mask = mask.expand(scores.shape)
    weights = masked_softmax(scores, mask)
    return weights @ value, weights


def located_attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    v: Tensor,
    filters: Tensor,
    project: Tensor,
    before: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Context and weights of the hybrid score; shapes as `cpu.located.attend`."""
    half = filters.shape[1] // 2
    signal = F.pad(before, (half, half)).unfold(-1, filters.shape[1], 1)  # (B, Q, K, width)
    shown = signal @ filters.mT @ project.mT  # (B, Q, K, D)
    scores = torch.tanh(query[:, :, None] + key[:, None] + shown) @ v * scale
    if lengths is not None:
        inside = torch.arange(key.shape[1], device=key.device) < lengths[:, None, None]
        mask = inside if mask is None else mask & inside
    weights = masked_softmax(scores, None if mask is None else mask.expand(scores.shape))
    return weights @ value, weights


def dots(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    near_keys: Tensor | None,
    near_values: Tensor | None,
    near_biases: Tensor | None,
    spans: Tensor,
    seed: Tensor,
    queries: int,
    keys: int,
    scale: float,
    threshold: int,
    clip: int,
) -> Tensor:
    """Attention within spans of rows; arguments and shapes as the operator `regard::dots`."""
    first_query, count, first_key, length, shift, at, since = spans[:, :, None]
    i, j = torch.arange(queries), torch.arange(keys)
    there = i < count  # (S, Q): which queries there are
    row = (first_query + i).clamp(max=max(len(query) - 1, 0))
    column = (first_key + j).clamp(max=max(len(key) - 1, 0))
    q, k, v = (
        x.float()[at].transpose(1, 2) for x, at in ((query, row), (key, column), (value, column))
    )  # (S, H, Q or K, size)
    sees = (j < length)[:, None] & (j <= i[:, None] + shift[:, :, None])  # (S, Q, K)
    sees &= j >= i[:, None] + since[:, :, None]
    scores = q @ k.mT
    offsets = (j - (i[:, None] + at[:, :, None])).clamp(-clip, clip) + clip  # (S, Q, K)
    offsets = offsets[:, None].expand_as(scores)
    if near_keys is not None:
        scores = scores + (q @ near_keys[..., : q.shape[-1]].mT).gather(-1, offsets)
    scores = scale * scores
    if near_biases is not None:
        rows = near_biases[None, :, None].expand(*scores.shape[:3], -1)
        scores = scores + rows.gather(-1, offsets)
    weights = masked_softmax(scores, sees[:, None].expand(-1, q.shape[1], -1, -1))
    if threshold:
        weights = weights * _kept(weights.shape, int(seed), threshold)
    read = weights @ v
    if near_values is not None:
        summed = weights.new_zeros(*weights.shape[:-1], near_values.shape[1])
        read = read + summed.scatter_add(-1, offsets, weights) @ near_values[..., : v.shape[-1]]
    context = read.transpose(1, 2)[there]
    return context.new_zeros(len(query), *context.shape[1:]).index_copy(0, row[there], context)


def _kept(shape: torch.Size, seed: int, threshold: int) -> Tensor:
    """0 or 1 / (1 - p) for each weight: `dots_factors` of native/dots.inc, number by number."""
    sequences, heads, queries, keys = shape
    blocks = ((keys + 15) // 16 * 16 + 31) // 32
    key = torch.arange(keys)
    block = torch.arange(sequences * heads * queries)[:, None] * blocks + key // 32
    x = (block * 16 + key % 16) & _WORD
    x = (x * 0x9E3779B1 + (seed & _WORD)) & _WORD
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & _WORD
    x = x ^ (x >> 15) ^ ((seed >> 32) & _WORD) ^ ((block >> 28) & _WORD)
    x = (x * 0x846CA68B) & _WORD
    x = x ^ (x >> 16)
    bits = torch.where(key % 32 < 16, x & 0xFFFF, x >> 16)
    kept = (bits >= threshold).float() / (1.0 - threshold / BITS)
    return kept.view(sequences, heads, queries, keys)


def edges(
    left: Tensor,
    right: Tensor,
    value: Tensor,
    seed: Tensor,
    offsets: Tensor,
    sources: Tensor,
    back: Tensor | None,
    towards: Tensor | None,
    places: Tensor | None,
    slope: float,
    rate: float,
) -> Tensor:
    """Graph attention over edges; arguments and shapes as the operator `regard::edges`."""
    left, right, value = _wide(left, right, value)
    batch, queries, heads = left.shape
    count = len(sources)
    targets = torch.repeat_interleave(
        torch.arange(queries, device=offsets.device), offsets.diff(), output_size=count
    )
    sources = sources.long()
    scores = F.leaky_relu(left[:, targets] + right[:, sources], slope)  # (B, E, H)
    index = targets[:, None].expand_as(scores)
    top = scores.new_full(left.shape, -torch.inf)
    top = top.scatter_reduce(1, index, scores.detach(), "amax")
    weights = torch.exp(scores - top[:, targets])
    weights = weights / torch.zeros_like(left).index_add(1, targets, weights)[:, targets]
    if rate:
        weights = weights * _kept_edges(batch, count, heads, int(seed), rate).to(weights)
    shares = weights[..., None] * value[:, sources]
    return value.new_zeros(batch, queries, *value.shape[2:]).index_add(1, targets, shares)


def _kept_edges(batch: int, count: int, heads: int, seed: int, rate: float) -> Tensor:
    """0 or 1 / (1 - rate): `drop` of native/edges.inc, (B, E, H)."""
    base = torch.arange(batch * count)[:, None] * heads
    high = ((seed >> 32) & _WORD) ^ (((base >> 32) * 0x9E3779B9) & _WORD)
    x = ((base & _WORD) + torch.arange(heads)) & _WORD
    x = (x * 0x9E3779B9 + (seed & _WORD)) & _WORD
    x = x ^ (x >> 16)
    x = (x * 0x85EBCA6B) & _WORD
    x = x ^ (x >> 13) ^ high
    x = (x * 0xC2B2AE35) & _WORD
    x = x ^ (x >> 16)
    x = (x * 0x27D4EB2F) & _WORD
    x = (x ^ (x >> 15)) >> 8
    bar = int(torch.tensor(rate, dtype=torch.float32) * 16777216.0)
    return ((x >= bar).float() / (1.0 - rate)).view(batch, count, heads)


def edge_sum(
    weights: Tensor, value: Tensor, targets: Tensor, sources: Tensor, count: int
) -> Tensor:
    """(B, E), (B, K, D) to (B, count, D): the sum over each query's edges."""
    shares = weights[..., None] * value.index_select(1, sources)
    return shares.new_zeros(shares.shape[0], count, shares.shape[2]).index_add(1, targets, shares)


def edge_dot(query: Tensor, key: Tensor, targets: Tensor, sources: Tensor) -> Tensor:
    """(B, Q, D), (B, K, D) to (B, E): the product of both ends of each edge."""
    return (query.index_select(1, targets) * key.index_select(1, sources)).sum(-1)


def edge_additive(
    query: Tensor, key: Tensor, v: Tensor, targets: Tensor, sources: Tensor
) -> Tensor:
    """The perceptron score of each edge: (B, E)."""
    return torch.tanh(query.index_select(1, targets) + key.index_select(1, sources)) @ v


def features(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> Tensor:
    """Feature-wise attention; arguments and shapes as the operator `regard::features`."""
    query, key, value = _wide(query, key, value)
    scores = bound * torch.tanh((query[:, :, None] + key[:, None]) / scale)  # (B, Q, K, D)
    place, sees = torch.arange(key.shape[1], device=key.device), mask
    for inside in (
        None if start is None else place >= start[..., None],
        None if stop is None else place < stop[..., None],
    ):
        if inside is not None:
            sees = inside if sees is None else sees & inside
    weights = masked_softmax(scores, None if sees is None else sees[..., None], -2)
    return (weights * value[:, None]).sum(-2)


def tiles(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    relative: Tensor | None,
    values: Tensor | None,
    bias: Tensor | None,
    slopes: Tensor | None,
    sees: Tensor,
    factors: Tensor | None,
    at: int,
    scale: float,
    heads: int,
    inverse: float | None,
) -> Tensor:
    """As `attend_by_tiles`; sees and factors (row, Q, K): the mask and the dropout factors."""
    head = torch.arange(len(query), device=query.device) % heads
    offset = torch.arange(key.shape[1], device=query.device)
    offset = offset - at - torch.arange(query.shape[1], device=query.device)[:, None]  # (Q, K)

    def of_pairs(table: Tensor) -> Tensor:
        """(1 or head, 2k + 1, ...) to (row, Q, K, ...)."""
        clip = table.shape[1] // 2
        own = table[head if len(table) > 1 else torch.zeros_like(head)]
        return own[:, offset.clamp(-clip, clip) + clip]

    query = query * scale
    if inverse is not None:
        scores = inverse / (1 + distance(query[:, :, None] - key[:, None]))
    else:
        scores = query @ key.mT
    if relative is not None:
        scores = scores + (of_pairs(relative) @ query[:, :, :, None]).squeeze(-1)
    if bias is not None:
        scores = scores + of_pairs(bias)
    if slopes is not None:
        own = slopes[head if len(slopes) > 1 else torch.zeros_like(head)]
        scores = scores - own[:, None, None] * offset.abs().to(slopes.dtype)
    weights = masked_softmax(scores, sees)
    if factors is not None:
        weights = weights * factors
    context = weights @ value
    if values is not None:
        context = context + (weights[:, :, None] @ of_pairs(values)).squeeze(2)
    return context


def differentiable(context: Tensor) -> None:
    """Make the gradients of PyTorch's fused kernel differentiable.

    PyTorch has no second derivative of it. A hook on its autograd node replaces the gradients if a
    second derivative is requested. It costs 2 us forward in training, and nothing otherwise.
    """
    if torch.compiler.is_compiling():
        return
    node = context.grad_fn
    if node is not None and type(node).__name__.startswith("ScaledDotProduct"):
        node.register_hook(_replaced)


def _replaced(grads: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Differentiable gradients, if a second derivative is requested; else None."""
    if not double_backward_wanted():
        return None
    node: Any = torch._C._current_autograd_node()
    if getattr(node, "_saved_dropout_p", 0.0):  # drawn inside the kernel, on a GPU
        return None
    query, key, value = node._saved_query, node._saved_key, node._saved_value
    bias = getattr(node, "_saved_attn_mask", None)
    if bias is None:
        bias = getattr(node, "_saved_attn_bias", None)
    scale = node._saved_scale
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    causal = bool(node._saved_is_causal)

    def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = scale * (query @ key.mT)
        sees = None
        if causal:
            sees = torch.ones_like(scores, dtype=torch.bool).tril()
        if bias is not None:
            sees = (bias != -torch.inf).expand(scores.shape)
            scores = scores + bias.masked_fill(~sees, 0.0)
        return masked_softmax(scores, sees) @ value

    wanted = [x is not None for x in grads[:3]]
    if not any(wanted) or outputs[0] is None:
        return None
    return (*double_backward(plain, (query, key, value), outputs[:1], wanted), *grads[3:])
