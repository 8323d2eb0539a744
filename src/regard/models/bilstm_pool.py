r"""A bidirectional LSTM whose states are pooled: the usual sentence embedding without attention.

Conneau, Kiela, Schwenk, Barrault and Bordes, "Supervised Learning of Universal Sentence
Representations from Natural Language Inference Data" (InferSent), EMNLP 2017, arXiv 1705.02364.

    h_t  = [→h_t ; ←h_t]                                  a bidirectional LSTM            (3.2.2)
    s    = max_t h_t, feature by feature                  "max"; or the mean, "mean"
    one:   y = W_o f(W_f s + b_f) + b_o
    pair:  the same of [u ; v ; |u - v| ; u ⊙ v]          both read by one encoder        (3.1)

What is pooled are the states of real words only.

Shapes: source (B, T) ids; encoder (B, 2u); logits (B, num_classes).

**Departs from the paper**: word vectors start at random (paper: GloVe). Each gate of the LSTM has
two bias vectors, as in PyTorch; weights start as PyTorch's layers do. f is tanh: the paper names no
activation for its layer of 512. A sentence without words has s = 0.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RequestError, nearest
from regard.layers.bilstm import BiLSTM
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.models._sentence import Head, SentenceClassifier, SentencePair
from regard.protocols import Inputs, ids_of

__all__ = ["POOLS", "BiLSTMPair", "BiLSTMPool", "PooledBiLSTM"]


def _max(
    states: Float[Tensor, "batch word size"], real: Bool[Tensor, "batch word"]
) -> Float[Tensor, "batch size"]:
    largest = states.masked_fill(~real[..., None], -torch.inf).amax(1)
    return largest.masked_fill(~real.any(1, keepdim=True), 0.0)


def _mean(
    states: Float[Tensor, "batch word size"], real: Bool[Tensor, "batch word"]
) -> Float[Tensor, "batch size"]:
    total = (states * real[..., None]).sum(1)
    return total / real.sum(1, keepdim=True).clamp_min(1)


POOLS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {"max": _max, "mean": _mean}
"""How states (B, T, D) become one vector (B, D); the mask (B, T) has the real words."""


class PooledBiLSTM(nn.Module):
    """The encoder: (B, T) ids to (B, 2u).

    Args:
        vocab_size: size of the vocabulary.
        embed: size of a word vector.
        hidden: u, LSTM cells of one direction.
        pool: "max" or "mean".
        dropout: on word vectors.
    """

    def __init__(self, vocab_size: int, embed: int, hidden: int, pool: str, dropout: float) -> None:
        super().__init__()
        if pool not in POOLS:
            raise RequestError(f"BiLSTMPool has no pool {pool!r}: {nearest(pool, POOLS)}")
        self.pool, self.dropout, self.size = pool, dropout, 2 * hidden
        self.embed = Embed(vocab_size, embed)
        self.lstm = BiLSTM(embed, hidden, bias=True)

    def forward(self, source: Inputs) -> Float[Tensor, "batch size"]:
        """The vector of each sentence."""
        ids, lengths = ids_of(source)
        if not ids.shape[1]:  # not one word in the whole batch
            ids = F.pad(ids, (0, 1))
        x = dropout(self.embed(ids), self.dropout, self.training)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths.to(ids.device)[:, None]
        return POOLS[self.pool](self.lstm(x, lengths), real)

    def extra_repr(self) -> str:
        """Say the pool."""
        return f"pool={self.pool!r}"


class BiLSTMPool(SentenceClassifier):
    """A classifier of sentences embedded by a pooled bidirectional LSTM.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        embed: size of a word vector.
        hidden: u, LSTM cells of one direction.
        pool: of the states: "max" or "mean".
        ffn_dim: hidden units of the classifier.
        activation: of these: "tanh", "relu" or "elu".
        dropout: on word vectors and before the classifier's layers; the paper has none.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        embed: int = 300,
        hidden: int = 2048,
        pool: str = "max",
        ffn_dim: int = 512,
        activation: str = "tanh",
        dropout: float = 0.0,
    ) -> None:
        encoder = PooledBiLSTM(vocab_size, embed, hidden, pool, dropout)
        head = Head(
            encoder.size, num_classes, ffn_dim=ffn_dim, activation=activation, dropout=dropout
        )
        super().__init__(encoder, head)


class BiLSTMPair(SentencePair):
    """A classifier of pairs of sentences, both embedded by one pooled bidirectional LSTM.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair.
        compare: how the two vectors are joined: one of `layers.compare.COMPARISONS`.
        embed, hidden, pool, ffn_dim, activation, dropout: as in `BiLSTMPool`.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        compare: str = "distance-product",
        embed: int = 300,
        hidden: int = 2048,
        pool: str = "max",
        ffn_dim: int = 512,
        activation: str = "tanh",
        dropout: float = 0.0,
    ) -> None:
        encoder = PooledBiLSTM(vocab_size, embed, hidden, pool, dropout)
        head = Head(
            self.joined(encoder.size, compare, num_features), num_classes, ffn_dim=ffn_dim,
            activation=activation, dropout=dropout,
        )  # fmt: skip
        super().__init__(encoder, head, compare=compare, num_features=num_features)
