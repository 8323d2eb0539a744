"""The naive forms: attention as the papers' codes write it. Frozen: nothing here may get faster.

`torch.tanh`, every pair materialized, no kernel of ours. `regard bench kernels` divides by these,
and `tests/attention/test_naive.py` holds each equal to `kernels("reference")`, so that a ratio
compares two roads to the same numbers. Queries and keys come projected, axes are batch (or batch
and heads), query, key, dim. `*_sigmoid` is the one-line change that anybody could make: PyTorch's
sigmoid is ten times as fast as its tanh on a CPU, and tanh x = 2 sigmoid(2x) - 1.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = [
    "additive_attention",
    "additive_scores",
    "additive_scores_sigmoid",
    "additive_step",
    "biased",
    "dot",
    "euclidean",
    "features",
    "features_sigmoid",
    "gat",
    "local_p",
    "location_aware_step",
    "ragged",
    "shaw",
    "window",
]


def additive_scores(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    """e_ij = v . tanh(q_i + k_j): (B, Q, D), (B, K, D), (D,) to (B, Q, K)."""
    hidden = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))  # (B, Q, K, D)
    return torch.matmul(hidden, v)


def additive_scores_sigmoid(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    """The same with the sigmoid; twos and ones are taken out of the large tensor."""
    hidden = torch.sigmoid((2 * query).unsqueeze(-2) + (2 * key).unsqueeze(-3))
    return 2 * torch.matmul(hidden, v) - v.sum()


def additive_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    scores=additive_scores,
) -> Tensor:
    """Bahdanau's attention: scores, softmax, expected value."""
    e = scores(query, key, v)
    if mask is not None:
        e = e.masked_fill(~mask, float("-inf"))
    return torch.matmul(torch.softmax(e, dim=-1), value)


def additive_step(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, v: Tensor, scores=additive_scores
) -> Tensor:
    """One decoder step: the state is projected, the keys were."""
    return additive_attention(F.linear(query, weight), key, value, v, scores=scores)


def location_aware_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    v: Tensor,
    previous: Tensor,
    filters: Tensor,
    features: Tensor,
) -> tuple[Tensor, Tensor]:
    """Chorowski et al. (2015): e_j = v . tanh(q + k_j + U f_j), f = F * previous weights.

    previous (B, 1, K), filters (C, 1, width), features = U (D, C); gives context and weights.
    """
    f = F.conv1d(previous, filters, padding=filters.shape[-1] // 2)  # (B, C, K)
    located = torch.matmul(f.transpose(1, 2), features.t())  # (B, K, D)
    e = torch.matmul(torch.tanh(query + key + located), v).unsqueeze(1)  # (B, 1, K)
    weights = torch.softmax(e, dim=-1)
    return torch.matmul(weights, value), weights


def features(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    c: float = 5.0,
    mask: Tensor | None = None,
    tanh=torch.tanh,
) -> Tensor:
    """DiSAN (Shen et al. 2018): a softmax for each feature of f_ij = c tanh((q_i + k_j) / c).

    mask (Q, K): what may be looked at; a row with nothing reads zeros.
    """
    f = c * tanh((query.unsqueeze(-2) + key.unsqueeze(-3)) / c)  # (B, Q, K, D)
    if mask is not None:
        f = f.masked_fill(~mask.unsqueeze(-1), -1e30)
    p = torch.softmax(f, dim=-2)
    if mask is not None:
        p = p * mask.any(-1)[:, None, None]
    return (p * value.unsqueeze(-3)).sum(-2)


def features_sigmoid(
    query: Tensor, key: Tensor, value: Tensor, c: float = 5.0, mask: Tensor | None = None
) -> Tensor:
    """The same with the sigmoid; the softmax does not see the constant between them."""
    scale = 2 / c
    return features(
        scale * query, scale * key, value, 1.0, mask, lambda x: (2 * c) * torch.sigmoid(x)
    )


def shaw(query: Tensor, key: Tensor, value: Tensor, table: Tensor, values: Tensor | None) -> Tensor:
    """Shaw et al. (2018) as in tensor2tensor: a^K_ij and a^V_ij as (T, T, D), shared by heads.

    query, key, value (B, H, T, D); table (2 clip + 1, D) of keys, values (2 clip + 1, D) or None.
    """
    length, dim = query.shape[-2], query.shape[-1]
    clip = table.shape[0] // 2
    place = torch.arange(length)
    index = (place[None] - place[:, None]).clamp(-clip, clip) + clip
    relative = table[index]  # (T, T, D)
    e = torch.matmul(query, key.transpose(-2, -1))
    e = e + torch.einsum("bhid,ijd->bhij", query, relative)
    weights = torch.softmax(e / math.sqrt(dim), dim=-1)
    context = torch.matmul(weights, value)
    if values is not None:
        context = context + torch.einsum("bhij,ijd->bhid", weights, values[index])
    return context


def dot(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Scaled dot product, the (B, H, Q, K) scores stored."""
    e = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.shape[-1])
    if mask is not None:
        e = e.masked_fill(~mask, float("-inf"))
    return torch.matmul(torch.softmax(e, dim=-1), value)


def biased(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """Scaled dot product with a dense bias of each pair: ALiBi, T5, distances."""
    e = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.shape[-1])
    return torch.matmul(torch.softmax(e + bias, dim=-1), value)


def window(query: Tensor, key: Tensor, value: Tensor, left: int, right: int) -> Tensor:
    """A window as a dense bool mask for PyTorch's own fused kernel: (B, H, T, D)."""
    place = torch.arange(query.shape[-2])
    offset = place[None] - place[:, None]
    mask = (offset >= -left) & (offset <= right)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def local_p(
    query: Tensor, key: Tensor, value: Tensor, center: Tensor, half: int, dot_scale: float = 1.0
) -> Tensor:
    """Luong et al. (2015) local-p, dense: softmax in the window, then the Gaussian, sigma = D/2.

    query, key, value (B, T, D); center (B, Q) is p_i, a real number.
    """
    e = torch.matmul(query, key.transpose(-2, -1)) * dot_scale  # (B, Q, K)
    place = torch.arange(key.shape[-2], dtype=center.dtype)
    distance = place - center.unsqueeze(-1)
    inside = (place - center.unsqueeze(-1).floor()).abs() <= half
    weights = torch.softmax(e.masked_fill(~inside, float("-inf")), dim=-1)
    gauss = torch.exp(-(distance**2) / (2 * (half / 2) ** 2))
    return torch.matmul(weights * gauss, value)


def euclidean(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """ABCNN's match score 1 / (1 + |q_i - k_j|), softmax, expected value; differences stored."""
    difference = query.unsqueeze(-2) - key.unsqueeze(-3)  # (B, Q, K, D)
    e = 1.0 / (1.0 + difference.square().sum(-1).sqrt())
    return torch.matmul(torch.softmax(e, dim=-1), value)


def gat(
    nodes: Tensor, left: Tensor, right: Tensor, source: Tensor, target: Tensor, slope: float = 0.2
) -> Tensor:
    """Velickovic et al. (2018) as PyTorch Geometric's plain road: gather, scatter softmax, scatter.

    nodes (N, H, F), already projected; left, right (H, F); edges source -> target (E,).
    """
    count, heads = nodes.shape[:2]
    from_source = (nodes * left).sum(-1).index_select(0, source)  # (E, H)
    to_target = (nodes * right).sum(-1).index_select(0, target)
    e = F.leaky_relu(from_source + to_target, slope)
    rows = target.unsqueeze(-1).expand(-1, heads)
    largest = e.new_full((count, heads), float("-inf"))
    largest = largest.scatter_reduce(0, rows, e.detach(), "amax")
    exponential = (e - largest.index_select(0, target)).exp()
    total = e.new_zeros(count, heads).scatter_add(0, rows, exponential)
    weights = exponential / total.index_select(0, target)
    messages = nodes.index_select(0, source) * weights.unsqueeze(-1)  # (E, H, F)
    index = target.view(-1, 1, 1).expand_as(messages)
    return torch.zeros_like(nodes).scatter_add(0, index, messages)


def ragged(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor) -> Tensor:
    """A padded batch with its mask through PyTorch's fused kernel: (B, H, T, D)."""
    mask = torch.arange(key.shape[-2]) < lengths.view(-1, 1, 1, 1)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
