r"""DiSAN: sentences embedded by attention alone, directional and with a weight for each feature.

Shen, Zhou, Long, Jiang, Pan and Zhang, "DiSAN: Directional Self-Attention Network for RNN/CNN-Free
Language Understanding", AAAI 2018, arXiv 1709.04696.

    h      = ELU(W^h x + b^h)                                        of each word
    f_ij   = c tanh((W^1 h_i + W^2 h_j + b^1) / c) + M_ij 1          c = 5; a score for each feature
    s_j    = Σ_i softmax_i(f_ij) ⊙ h_i                               word j looks at words i
    F      = σ(W^f1 s + W^f2 h + b^f),   u = F ⊙ h + (1 - F) ⊙ s     fusion gate
    M^fw_ij = 0 if i < j, M^bw_ij = 0 if i > j, -∞ otherwise
    u_j    = [u_j^fw ; u_j^bw]                                       two blocks, no shared weights
    f(u_j) = W ELU(W^1 u_j + b^1) + b,   s = Σ_j softmax_j(f(u_j)) ⊙ u_j           source2token

    one:   y = W_o ELU(W_f s + b_f) + b_o
    pair:  the same of [s_p ; s_h ; s_p - s_h ; s_p ⊙ s_h], both read by one encoder

A word never looks at itself. The first word of the forward block and the last of the backward one
look at nothing, and their s_j is 0. The softmax is over words, for each feature by itself.
`weights="word"` has one weight for all features of a word, in blocks and source2token (additive
scores, w^T tanh(W^1 h_i + W^2 h_j + b)): the usual attention that the paper compares with. The
scores of a block are bounded by c, so the fused kernel sums without a maximum and never stores the
n x n x d tensor; softmax and mask are its own.

`directions` has a block for each name: "forward", "backward", or "none", in which a word looks at
all others. The paper's "without directions" is ["none", "none"]; without blocks, source2token reads
the word vectors.

Shapes: source (B, T) ids; blocks (B, T, d), encoder (B, d * blocks); logits (B, num_classes).

**Departs from the paper**: word vectors start at random (paper: GloVe). The fusion gate has one
bias, as printed (the released code has two). Dropout is before each linear layer and, of h, where
it is scored, not where it is read; the second layer of source2token has none (the released code
drops its input too). A sentence without words has s = 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import (
    Additive,
    Attention,
    Directional,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    Lengths,
    Mask,
    Read,
    Score,
    Select,
    Softmax,
    SourceToToken,
    WeightedSum,
    Window,
)
from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.models._sentence import Head, SentenceClassifier, SentencePair, words_of
from regard.protocols import Inputs, states_of

__all__ = [
    "DIRECTIONS",
    "WEIGHTS",
    "DiSA",
    "DiSAN",
    "DiSANEncoder",
    "DiSANPair",
    "SourceToTokenPool",
    "Weights",
]

DIRECTIONS: Mapping[str, Callable[[], Mask]] = {
    "forward": lambda: Directional("forward"),
    "backward": lambda: Directional("backward"),
    "none": lambda: ~Window(0, 0),
}
"""What a word of a block may look at: earlier words, later words, or all others."""


@dataclass(frozen=True)
class Weights:
    """Parts of attention that weigh words.

    Args:
        block: the score of a block, from d and c.
        pool: the score of source2token, from the size of its words.
        select, read: of both.
    """

    block: Callable[[int, float], Score]
    pool: Callable[[int], Score]
    select: Callable[[], Select]
    read: Callable[[], Read]


WEIGHTS: Mapping[str, Weights] = {
    "feature": Weights(
        lambda size, scale: FeatureAdditive(size, size, size, scale=scale),
        lambda size: SourceToToken(size, size),
        FeatureSoftmax,
        FeatureSum,
    ),
    "word": Weights(
        lambda size, scale: Additive(size, size, size), SourceToToken, Softmax, WeightedSum
    ),
}
"""One weight for each feature of a word, or one for all of them."""


def _weights(name: str) -> Weights:
    if name not in WEIGHTS:
        raise RequestError(f"DiSAN has no weights {name!r}: {nearest(name, WEIGHTS)}")
    return WEIGHTS[name]


class DiSA(nn.Module):
    """A block of directional self-attention with a fusion gate.

    Args:
        inputs: size of x.
        size: d.
        direction: one of `DIRECTIONS`.
        scale: c, where there is a weight for each feature.
        weights: one of `WEIGHTS`.
        dropout: before each linear layer.

    Shapes:
        x (B, T, inputs) and lengths (B,) to (B, T, d); what is at padding is not to be read
    """

    def __init__(
        self,
        inputs: int,
        size: int,
        direction: str,
        *,
        scale: float = 5.0,
        weights: str = "feature",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if direction not in DIRECTIONS:
            raise RequestError(
                f"DiSAN has no direction {direction!r}: {nearest(direction, DIRECTIONS)}"
            )
        self.dropout = dropout
        self.map = nn.Linear(inputs, size)  # W^h
        parts = _weights(weights)
        self.attention = Attention(
            score=parts.block(size, scale),
            mask=DIRECTIONS[direction](),
            select=parts.select(),
            read=parts.read(),
            role="self",
        )
        self.gate_sum = nn.Linear(size, size, bias=False)  # W^f1
        self.gate_map = nn.Linear(size, size)  # W^f2
        _start(self.map, self.gate_sum, self.gate_map)

    def forward(
        self, x: Float[Tensor, "batch word inputs"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch word size"]:
        """Look around and fuse."""
        h = F.elu(linear(self.map, self._dropped(x)))
        scored = self._dropped(h)
        s = self.attention(scored, scored, h, mask=Lengths(lengths)).context
        logits = linear(self.gate_sum, self._dropped(s)) + linear(self.gate_map, self._dropped(h))
        return torch.lerp(s, h, torch.sigmoid(logits))

    def _dropped(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class SourceToTokenPool(nn.Module):
    """A sentence as one vector: a weight for each word and feature, from the word alone.

    Args:
        size: of a word's vector.
        weights: one of `WEIGHTS`.
        dropout: of the vectors where they are scored.

    Shapes:
        u (B, T, size) and lengths (B,) to (B, size)
    """

    def __init__(self, size: int, *, weights: str = "feature", dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        parts = _weights(weights)
        self.attention = Attention(
            score=parts.pool(size), select=parts.select(), read=parts.read(), role="word"
        )

    def forward(
        self, u: Float[Tensor, "batch word size"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch size"]:
        """Read the sentence."""
        keys = dropout(u, self.dropout, self.training)
        read: Tensor = self.attention(keys[:, :1], keys, u, mask=Lengths(lengths)).context
        return read[:, 0]


class DiSANEncoder(nn.Module):
    """Blocks side by side, and source2token of what they give: (B, T) ids to (B, d * blocks).

    Args:
        vocab_size: size of the vocabulary.
        embed: size of a word vector.
        hidden: d, of each block; that of a word vector by default.
        directions: a block for each name of `DIRECTIONS`.
        scale: c.
        weights: one of `WEIGHTS`.
        dropout: before each linear layer.
    """

    def __init__(
        self,
        vocab_size: int,
        embed: int,
        hidden: int | None,
        directions: Sequence[str],
        scale: float,
        weights: str,
        dropout: float,
    ) -> None:
        super().__init__()
        hidden = embed if hidden is None else hidden
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.blocks = nn.ModuleList(
            DiSA(embed, hidden, direction, scale=scale, weights=weights, dropout=dropout)
            for direction in directions
        )
        self.size = hidden * len(self.blocks) if self.blocks else embed
        self.pool = SourceToTokenPool(self.size, weights=weights, dropout=dropout)

    def forward(self, source: Inputs) -> Float[Tensor, "batch size"]:
        """The vector of each sentence."""
        ids, lengths = words_of(source)
        x = self.embed(ids, states_of(source, ids))
        found = [block(x, lengths) for block in self.blocks]
        return self.pool(torch.cat(found, -1) if found else x, lengths)  # type: ignore[no-any-return]


class DiSAN(SentenceClassifier):
    """A classifier of sentences embedded by directional self-attention.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        embed: size of a word vector.
        hidden: d, of each block; that of a word vector by default.
        directions: a block for each: "forward", "backward" or "none". Without any, source2token
            reads the word vectors.
        scale: c, the bound of a block's scores.
        weights: "feature", one for each feature of a word, or "word", one for all of them.
        ffn_dim: hidden units of the classifier.
        activation: of these: "elu", "relu" or "tanh".
        dropout: before each linear layer.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        embed: int = 300,
        hidden: int | None = None,
        directions: Sequence[str] = ("forward", "backward"),
        scale: float = 5.0,
        weights: str = "feature",
        ffn_dim: int = 300,
        activation: str = "elu",
        dropout: float = 0.25,
    ) -> None:
        encoder = DiSANEncoder(vocab_size, embed, hidden, directions, scale, weights, dropout)
        head = Head(
            encoder.size, num_classes, ffn_dim=ffn_dim, activation=activation, dropout=dropout
        )
        super().__init__(encoder, head)


class DiSANPair(SentencePair):
    """A classifier of pairs of sentences, both embedded by one encoder.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair.
        compare: how the two vectors are joined: one of `layers.pair_vectors.COMPARISONS`.
        embed, hidden, directions, scale, weights, ffn_dim, activation, dropout: as in
            `DiSAN`.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        compare: str = "difference-product",
        embed: int = 300,
        hidden: int | None = None,
        directions: Sequence[str] = ("forward", "backward"),
        scale: float = 5.0,
        weights: str = "feature",
        ffn_dim: int = 300,
        activation: str = "elu",
        dropout: float = 0.25,
    ) -> None:
        encoder = DiSANEncoder(vocab_size, embed, hidden, directions, scale, weights, dropout)
        head = Head(
            self.joined(encoder.size, compare, num_features),
            num_classes,
            ffn_dim=ffn_dim,
            activation=activation,
            dropout=dropout,
        )
        super().__init__(encoder, head, compare=compare, num_features=num_features)


def _start(*layers: nn.Linear) -> None:
    """Glorot weights and zero biases."""
    for layer in layers:
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
