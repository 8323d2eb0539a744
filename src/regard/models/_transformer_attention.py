"""The settings of a Transformer's attention and positions, and the attentions that they make."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

from regard.attention import (
    Attention,
    BucketBias,
    Mask,
    MultiHead,
    Read,
    RelativeBias,
    RelativeKeys,
    RelativeValues,
    ScaledDot,
    Score,
    Select,
    Softmax,
    TalkingHeads,
    WeightedSum,
)
from regard.errors import RequestError, nearest
from regard.layers.positional_encoding import LearnedPositions, NoPositions, Sinusoid

__all__ = ["AttentionSettings", "PositionSettings", "cross_attention", "self_attention"]

POSITIONS: Mapping[str, Callable[[int, int], nn.Module]] = {
    "sinusoid": lambda dim, length: Sinusoid(dim),
    "halves": lambda dim, length: Sinusoid(dim, layout="halves"),
    "learned": LearnedPositions,
    "shaw": lambda dim, length: NoPositions(),  # self-attention knows them
    "bias": lambda dim, length: NoPositions(),
    "buckets": lambda dim, length: NoPositions(),
    "none": lambda dim, length: NoPositions(),
}


@dataclass(frozen=True, kw_only=True)
class AttentionSettings:
    """The section `attention` of a Transformer: the same for all of its attentions.

    Args:
        head_dim: d_k of each head; None: dim / heads.
        value_head_dim: d_v of each head; None: d_k.
        dropout: on the attention weights; 0 in the paper.
        window: r, how many positions self-attention may look at: its own, r // 2 before and
            (r - 1) // 2 behind (in the decoder none behind); None: all.
        talking: whether heads exchange scores and weights; see `TalkingHeads`.
    """

    head_dim: int | None = None
    value_head_dim: int | None = None
    dropout: float = 0.0
    window: int | None = None
    talking: bool = False

    def selection(self, heads: int) -> Select:
        """How weights are made of scores."""
        return TalkingHeads(heads) if self.talking else Softmax()

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise RequestError(
                "model.attention.window: expected 1 position or more, or null for all; "
                f"got {self.window}"
            )


@dataclass(frozen=True, kw_only=True)
class PositionSettings:
    """The section `position` of a Transformer: how it knows the order of its tokens.

    Args:
        kind: "sinusoid" as printed, "halves" as in the authors' code, "learned", "none", or
            relative ones in self-attention: "shaw", "bias" (a number for each offset and head) or
            "buckets" (a number for each range of offsets and head, as in T5).
        max_length: rows of a learned table.
        clip: c, the largest distance that relative positions tell apart.
        buckets: how many ranges of offsets "buckets" has up to c; see `BucketBias`.
        relative: what has Shaw's vectors: "both" keys and values, or "keys" or "values" alone.
        tables: one for each "head", as in Shaw's base model, or "shared" by all of a layer as in
            the big one.
    """

    kind: str = "sinusoid"
    max_length: int = 1024
    clip: int = 16
    buckets: int = 8
    relative: str = "both"
    tables: str = "head"

    def __post_init__(self) -> None:
        for key, known in (
            ("kind", tuple(POSITIONS)),
            ("relative", ("both", "keys", "values")),
            ("tables", ("head", "shared")),
        ):
            if (value := getattr(self, key)) not in known:
                hint = nearest(value, known)
                raise RequestError(f"model.position.{key}: there is no {value!r}; {hint}")

        few = self.buckets < 4 or self.buckets % 2 or self.buckets >= 2 * self.clip
        if self.kind == "buckets" and few:
            raise RequestError(
                "model.position.buckets: expected an even number, at least 4 and below 2 clip "
                f"({2 * self.clip}), got {self.buckets}"
            )

    def added(self, dim: int) -> nn.Module:
        """What is added to word vectors of `dim` features: nothing where attention knows places."""
        return POSITIONS[self.kind](dim, self.max_length)


def cross_attention(dim: int, heads: int, settings: AttentionSettings) -> MultiHead:
    """A decoder layer's attention to the encoder."""
    read = WeightedSum(settings.dropout)
    inner = Attention(select=settings.selection(heads), read=read, role="cross")
    return _multihead(dim, heads, settings, inner)


def self_attention(
    dim: int,
    heads: int,
    settings: AttentionSettings,
    position: PositionSettings,
    *,
    mask: Mask | None,
    role: str,
) -> MultiHead:
    """A layer's attention to its own side, with relative positions where they are asked for."""
    clip = position.clip
    score: Score = ScaledDot()
    read: Read = WeightedSum(settings.dropout)
    bias = None
    if position.kind == "bias":
        bias = RelativeBias(clip, heads)
    elif position.kind == "buckets":
        bias = BucketBias(position.buckets, clip, heads, both=mask is None)
    if position.kind == "shaw":
        size = dim // heads if settings.head_dim is None else settings.head_dim
        wide = size if settings.value_head_dim is None else settings.value_head_dim
        tables = heads if position.tables == "head" else None
        if position.relative != "values":
            score = RelativeKeys(size, clip, heads=tables)
        if position.relative != "keys":
            read = RelativeValues(wide, clip, heads=tables, dropout=settings.dropout)
    select = settings.selection(heads)
    inner = Attention(score, position=bias, read=read, select=select, mask=mask, role=role)
    return _multihead(dim, heads, settings, inner)


def _multihead(dim: int, heads: int, settings: AttentionSettings, inner: Attention) -> MultiHead:
    keys, values = settings.head_dim, settings.value_head_dim
    return MultiHead(dim, heads, inner, head_dim=keys, value_head_dim=values)
