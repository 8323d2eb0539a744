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

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import RequestError, nearest
from regard.layers.bilstm import BiLSTM
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.pool import max_pool, max_shares, mean_pool
from regard.models._sentence import Head, SentenceClassifier, SentencePair, words_of
from regard.protocols import Inputs, states_of

__all__ = ["POOLS", "BiLSTMPair", "BiLSTMPool", "PooledBiLSTM"]


POOLS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {"max": max_pool, "mean": mean_pool}
"""How states (B, T, D) of sentences with lengths (B,) become one vector (B, D)."""


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
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.lstm = BiLSTM(embed, hidden, bias=True)

    def forward(self, source: Inputs) -> Float[Tensor, "batch size"]:
        """The vector of each sentence."""
        states, lengths = self._states(source)
        return POOLS[self.pool](states, lengths)

    def shares(self, source: Inputs) -> Float[Tensor, "batch time"] | None:
        """See `protocols.MaxPooled`; a state has read the words around its own."""
        return max_shares(*self._states(source)) if self.pool == "max" else None

    def _states(
        self, source: Inputs
    ) -> tuple[Float[Tensor, "batch time size"], Int[Tensor, " batch"]]:
        ids, lengths = words_of(source)
        x = dropout(self.embed(ids, states_of(source, ids)), self.dropout, self.training)
        return self.lstm(x, lengths), lengths

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
        compare: how the two vectors are joined: one of `layers.pair_vectors.COMPARISONS`.
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
            self.joined(encoder.size, compare, num_features),
            num_classes,
            ffn_dim=ffn_dim,
            activation=activation,
            dropout=dropout,
        )
        super().__init__(encoder, head, compare=compare, num_features=num_features)
