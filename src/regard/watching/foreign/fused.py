"""PyTorch's fused operations: what each was given, in one form.

Each entry of `FUSED` reads the arguments of an operation, by position as its schema has them, and
gives `Fused`: the products whose softmax are the weights, and what the kernel made of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.watching.foreign.products import Products

__all__ = ["FUSED", "Fused"]


class Fused(NamedTuple):
    """One fused call.

    Args:
        products: queries, keys, values and masks.
        output: what to compare weights times values with; None where that cannot be.
        dropout: the probability with which the kernel dropped weights.
        finish: what the operation does with weights times values before it gives them.
        parameter: a parameter by which the module can be found where no hook may stand.
        projection: W^O, where the operation has it.
    """

    products: Products
    output: Tensor | None
    dropout: float = 0.0
    finish: Callable[[Tensor], Tensor] | None = None
    parameter: Tensor | None = None
    projection: Tensor | None = None


Reader = Callable[[Sequence[Any], Mapping[str, Any], Any], Fused]


def _named(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of the operation's schema."""
    schema = func._schema.arguments
    given = {a.name: a.default_value for a in schema if a.has_default_value()}
    given.update({a.name: value for a, value in zip(schema, args, strict=False)})
    given.update(kwargs)
    return given


def product(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Fused:
    """The forms of `scaled_dot_product_attention`: one for each kernel and device."""
    given = _named(func, args, kwargs)
    mask = given.get("attn_mask", given.get("attn_bias"))
    output = result[0] if isinstance(result, tuple | list) else result
    products = Products(
        given["query"].detach(),
        given["key"].detach(),
        given["value"].detach(),
        mask,
        bool(given.get("is_causal")),
        given.get("scale"),
    )
    return Fused(products, output, float(given.get("dropout_p") or 0.0))


def multihead(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Fused:
    """The fast path of `nn.MultiheadAttention`: projections included."""
    given = _named(func, args, kwargs)
    inputs = [given["query"], given["key"], given["value"]]
    made = _projected(inputs, given["num_head"], given["qkv_weight"], given["qkv_bias"])
    mask = _allowed(given["mask"], given["mask_type"], made[0])

    def finish(context: Tensor) -> Tensor:
        joined = context.transpose(1, 2).flatten(2)
        return F.linear(joined, given["proj_weight"], given["proj_bias"])

    return Fused(
        Products(*made, mask), result[0], 0.0, finish, given["qkv_weight"], given["proj_weight"]
    )


def layer(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Fused:
    """The fast path of `nn.TransformerEncoderLayer`: everything in one operation."""
    g = _named(func, args, kwargs)
    src, mask, kind = g["src"], g["mask"], g["mask_type"]
    output = result
    lengths: Tensor | None = None
    if src.is_nested:  # PyTorch leaves padding out; here it comes back, and nobody looks at it
        sizes = src._nested_tensor_size()[:, 0]
        src, output = src.to_padded_tensor(0.0), None
        lengths = torch.arange(src.shape[1]) < sizes[:, None]
        lengths = lengths.to(src.device)
    size = (g["embed_dim"],)
    norms = [(size, g[f"norm_weight_{n}"], g[f"norm_bias_{n}"], g["eps"]) for n in (1, 2)]
    first = bool(g["norm_first"])
    inputs = F.layer_norm(src, *norms[0]) if first else src
    made = _projected([inputs] * 3, g["num_heads"], g["qkv_weight"], g["qkv_bias"])
    allowed = _allowed(mask, kind, made[0])
    if lengths is not None:  # rows of padding are not there: they look at nothing
        allowed = (lengths[:, :, None] & lengths[:, None, :])[:, None]

    def finish(context: Tensor) -> Tensor:
        x = src + F.linear(context.transpose(1, 2).flatten(2), g["proj_weight"], g["proj_bias"])
        x = x if first else F.layer_norm(x, *norms[0])
        inner = F.layer_norm(x, *norms[1]) if first else x
        active = F.gelu if g["use_gelu"] else F.relu
        inner = active(F.linear(inner, g["ffn_weight_1"], g["ffn_bias_1"]))
        x = x + F.linear(inner, g["ffn_weight_2"], g["ffn_bias_2"])
        return x if first else F.layer_norm(x, *norms[1])

    return Fused(Products(*made, allowed), output, 0.0, finish, g["qkv_weight"], g["proj_weight"])


def _projected(
    inputs: Sequence[Tensor], heads: int, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values: (B, H, T, D / H) each."""
    parts = zip(inputs, weight.chunk(3), bias.chunk(3), strict=True)
    made = [F.linear(x, w, b).unflatten(-1, (heads, -1)).transpose(1, 2) for x, w, b in parts]
    return made[0], made[1], made[2]


def _allowed(mask: Tensor | None, kind: int | None, query: Tensor) -> Tensor | None:
    """Where one may look: these operations take a mask that is true where one may not.

    kind: 0 for a mask of pairs (Q, K), 1 for one of keys (B, K), 2 for both (B, H, Q, K).
    """
    if mask is None:
        return None
    hidden = mask.bool()
    if kind == 1:
        hidden = hidden[:, None, None, :]
    elif hidden.dim() == 3:  # (B · H, Q, K)
        hidden = hidden.view(query.shape[0], -1, *hidden.shape[-2:])
    return ~hidden


_aten = torch.ops.aten
_READERS: Mapping[str, Any] = {
    "scaled_dot_product_attention": product,  # as it is under `torch.inference_mode`
    "_scaled_dot_product_flash_attention_for_cpu": product,
    "_scaled_dot_product_flash_attention": product,
    "_scaled_dot_product_efficient_attention": product,
    "_scaled_dot_product_cudnn_attention": product,
    "_scaled_dot_product_fused_attention_overrideable": product,
    "_native_multi_head_attention": multihead,
    "_transformer_encoder_layer_fwd": layer,
}

FUSED: Mapping[Any, Any] = {
    getattr(_aten, name).default: reader
    for name, reader in _READERS.items()
    if hasattr(_aten, name)
}
