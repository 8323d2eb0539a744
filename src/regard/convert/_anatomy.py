"""What another program has to know of a Transformer of ours to compute the same."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import MultiHead, ScaledDot, Softmax, WeightedSum
from regard.attention.plain import Altered, PlainForm, is_causal, plain_form
from regard.decode.program.structure import altered
from regard.errors import RequestError
from regard.layers.norm import PreNorm
from regard.layers.positional_encoding import LearnedPositions
from regard.models.following_transformer import FollowingTransformer
from regard.models.transformer import DecoderLayer, Transformer

__all__ = ["Anatomy", "anatomy"]

PLAIN = PlainForm(ScaledDot, Softmax, WeightedSum, NoneType, NoneType, NoneType)
NEEDED = "only Transformers of plain multi-head attention can be exported"


@dataclass(frozen=True)
class Anatomy:
    """A Transformer's sizes and choices; its weights are those of `model`.

    Args:
        scale: what word vectors are multiplied by.
        first: the row of the position table that the first token gets.
        reads_end: whether the encoder sees the EOS of a source.
        tied: which matrices are one: "all", "output" or "none".
    """

    model: Transformer
    dim: int
    heads: int
    ffn_dim: int
    layers: int
    decoder_layers: int
    pre_norm: bool
    activation: str
    epsilon: float
    scale: float
    first: int
    reads_end: bool
    tied: str

    def positions(self, length: int) -> Tensor:
        """What is added to the word vectors of the first `length` places: (length, dim)."""
        place: Any = self.model.position
        if isinstance(place, LearnedPositions):
            length = min(length, len(place.table))
        with torch.no_grad():
            table: Tensor = place(torch.zeros(length, self.dim), self.first)
        return table.detach()

    def layers_of(self, side: str) -> Iterator[tuple[str, Any]]:
        """The layers of the encoder or the decoder, with their paths."""
        for i, layer in enumerate(getattr(self.model, side)):
            yield f"{side}.{i}", layer


def layer_form(layer: Any) -> tuple[Any, ...]:
    """Classes, sizes and settings of a layer: what other programs expect to be equal in all."""
    crossing = isinstance(layer, DecoderLayer)
    attentions = [layer.self_attention, *([layer.cross_attention] if crossing else [])]
    residuals = [layer.self_residual, *([layer.cross_residual] if crossing else [])]
    feed = layer.feedforward
    products = [one for a in attentions for one in (a.query, a.key, a.value, a.out)]
    return (
        type(feed),
        getattr(feed, "activation", "relu"),
        *(a.heads for a in attentions),
        *((p.in_features, p.out_features) for p in (*products, feed.into, feed.out)),
        *(
            (type(r), type(r.norm), r.norm.eps, r.norm.normalized_shape)
            for r in (*residuals, layer.feedforward_residual)
        ),
    )


def anatomy(model: nn.Module) -> Anatomy:
    """Describe a plain Transformer, and reject any other model.

    Raises:
        RequestError: another model, or an attention, a norm or a head size of another kind.
    """
    if not isinstance(model, Transformer):
        raise RequestError(f"{NEEDED}; this is a {type(model).__name__}")
    if isinstance(model, FollowingTransformer):
        raise RequestError(f"{NEEDED}; this one follows the words of its source")
    why = altered(model)
    if why is not None:
        raise RequestError(f"{NEEDED}; {why}, which weights do not say")
    for layers in (model.encoder, model.decoder):
        if len({layer_form(layer) for layer in layers}) > 1:
            raise RequestError(f"{NEEDED}; its layers differ")
    for path, module in model.named_modules():
        if isinstance(module, MultiHead):
            _check_heads(path, module, model.dim)
    encoder: Any = model.encoder[0]
    decoder: Any = model.decoder[0]
    feedforward = encoder.feedforward
    embed, out = model.embed_target.weight, model.output.weight
    output = "output" if out is embed else "none"
    return Anatomy(
        model=model,
        dim=model.dim,
        heads=encoder.self_attention.heads,
        ffn_dim=feedforward.into.out_features,
        layers=len(model.encoder),
        decoder_layers=len(model.decoder),
        pre_norm=isinstance(decoder.self_residual, PreNorm),
        activation=getattr(feedforward, "activation", "relu"),
        epsilon=encoder.self_residual.norm.eps,
        scale=getattr(model, "scale", math.sqrt(model.dim)),
        first=getattr(model, "first", 0),
        reads_end=getattr(model, "reads_end", True),
        tied="all" if output == "output" and model.embed_source.weight is embed else output,
    )


def _check_heads(path: str, layer: MultiHead, dim: int) -> None:
    inner = layer.attention
    form = plain_form(inner)
    if isinstance(form, Altered):
        raise RequestError(f"{NEEDED}; in {path}, {form}, which weights do not say")
    masked = inner.mask is not None and not is_causal(inner.mask)
    if masked or replace(form, mask=NoneType) != PLAIN:
        raise RequestError(f"{NEEDED}; {path} is {inner}")
    if layer.query.out_features != dim or layer.value.out_features != dim:
        raise RequestError(
            f"{path} has heads of {layer.query.out_features // layer.heads}; other programs expect"
            f" dim / heads, {dim // layer.heads}"
        )
