r"""SWEM: word vectors that are pooled, and nothing else. What attention has to be above.

Shen, Wang, Wang, Min, Su, Zhang, Li, Henao and Carin, "Baseline Needs More Love: On Simple
Word-Embedding-Based Models and Associated Pooling Mechanisms", ACL 2018, arXiv 1805.09843.

    s = 1/T Σ_t x_t                                       "mean" (SWEM-aver)                 (1)
    s = max_t x_t, feature by feature                     "max" (SWEM-max)                   (2)
    s = [mean; max]                                       "concat" (SWEM-concat)
    s = max over windows of the mean of n words           "hier" (SWEM-hier)            (3.3)
    one:   y = W_o f(W_f s + b_f) + b_o
    pair:  the same of u and v compared, and of the features of the pair

With `data.vectors.encoder` x_t is the state of an encoder, so "mean" without hidden units is the
linear model on pooled states; of a pair, `compare: cosine` begins with their cosine.

Shapes: source (B, T) ids; s (B, D), or (B, 2D) of "concat"; logits (B, num_classes).

**Departs from the paper**: word vectors start at random (paper: GloVe). The paper maps them through
a layer of hidden units where they stay as they are; here states of an encoder pass a linear layer,
word vectors none. A window that is longer than the sentence sees all of it.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.pool import max_pool, max_shares, mean_pool, real, spread
from regard.models._sentence import Head, SentenceClassifier, SentencePair, words_of
from regard.protocols import Inputs, states_of

__all__ = ["POOLS", "SWEM", "PooledWords", "SWEMPair"]

Words = Float[Tensor, "batch time dim"]
Sizes = Int[Tensor, " batch"]


def _both(x: Words, lengths: Sizes, window: int) -> Float[Tensor, "batch both"]:
    return torch.cat([mean_pool(x, lengths), max_pool(x, lengths)], -1)


def _means(x: Words, lengths: Sizes, window: int) -> tuple[Words, Sizes, Sizes]:
    """The means of windows, how many each sentence has, and of how many words each is.

    A sentence shorter than `window` has one, of all its words.
    """
    sums = nn.functional.pad((x * real(lengths, x)[..., None]).cumsum(1), (0, 0, 1, 0))
    size = lengths.to(x.device).clamp(1, window)
    first = torch.arange(x.shape[1], device=x.device)
    last = (first + size[:, None]).clamp(max=x.shape[1])
    ends = sums.gather(1, last[..., None].expand(-1, -1, x.shape[2]))
    means = (ends - sums[:, :-1]) / size[:, None, None].to(x.dtype)
    return means, (lengths.to(x.device) - size + 1).clamp_min(0), size


def _windows(x: Words, lengths: Sizes, window: int) -> Float[Tensor, "batch dim"]:
    """The largest mean of a window, feature by feature."""
    means, count, _ = _means(x, lengths, window)
    return max_pool(means, count)


POOLS: Mapping[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "mean": lambda x, lengths, window: mean_pool(x, lengths),
    "max": lambda x, lengths, window: max_pool(x, lengths),
    "concat": _both,
    "hier": _windows,
}
"""How words (B, T, D) of sentences with lengths (B,) become one vector."""


class PooledWords(nn.Module):
    """The encoder: (B, T) ids to (B, D).

    Args:
        vocab_size: size of the vocabulary.
        embed: D, size of a word vector.
        pool: one of `POOLS`.
        window: words of a window of "hier".
        dropout: on word vectors.
    """

    def __init__(self, vocab_size: int, embed: int, pool: str, window: int, dropout: float) -> None:
        super().__init__()
        if pool not in POOLS:
            raise RequestError(f"SWEM has no pool {pool!r}: {nearest(pool, POOLS)}")
        if window < 1:
            raise RequestError(f"SWEM expected a window of 1 word or more, got {window}")
        self.pool, self.window, self.dropout = pool, window, dropout
        self.size = 2 * embed if pool == "concat" else embed
        self.embed = Embed(vocab_size, embed, contextual=True)

    def forward(self, source: Inputs) -> Float[Tensor, "batch size"]:
        """The vector of each sentence."""
        x, lengths = self._words(source)
        return POOLS[self.pool](x, lengths, self.window)

    def shares(self, source: Inputs) -> Float[Tensor, "batch time"] | None:
        """See `protocols.MaxPooled`; the words of a window share what it gave."""
        x, lengths = self._words(source)
        if self.pool == "mean":
            return None
        if self.pool != "hier":
            return max_shares(x, lengths)
        means, count, size = _means(x, lengths, self.window)
        return spread(max_shares(means, count), size, x.shape[1])

    def _words(self, source: Inputs) -> tuple[Words, Sizes]:
        ids, lengths = words_of(source)
        x = dropout(self.embed(ids, states_of(source, ids)), self.dropout, self.training)
        return x, lengths

    def extra_repr(self) -> str:
        """Say the pool."""
        return f"pool={self.pool!r}" + (f", window={self.window}" if self.pool == "hier" else "")


class SWEM(SentenceClassifier):
    """A classifier of sentences by their pooled words.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        embed: D, size of a word vector.
        pool: "mean", "max", "concat" or "hier".
        window: words of a window of "hier".
        ffn_dim: hidden units of the classifier; 0: a linear layer.
        activation: of these: "relu", "tanh" or "elu".
        dropout: on word vectors and before the classifier's layers.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        embed: int = 300,
        pool: str = "mean",
        window: int = 5,
        ffn_dim: int = 0,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        encoder = PooledWords(vocab_size, embed, pool, window, dropout)
        head = Head(
            encoder.size, num_classes, ffn_dim=ffn_dim, activation=activation, dropout=dropout
        )
        super().__init__(encoder, head)


class SWEMPair(SentencePair):
    """A classifier of pairs of sentences by their pooled words.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair.
        compare: how the two vectors are joined: one of `layers.pair_vectors.COMPARISONS`.
        embed, pool, window, ffn_dim, activation, dropout: as in `SWEM`.
    """

    def __init__(  # settings of a paper's model, all told by name
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        compare: str = "cosine",
        embed: int = 300,
        pool: str = "mean",
        window: int = 5,
        ffn_dim: int = 0,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        encoder = PooledWords(vocab_size, embed, pool, window, dropout)
        head = Head(
            self.joined(encoder.size, compare, num_features),
            num_classes,
            ffn_dim=ffn_dim,
            activation=activation,
            dropout=dropout,
        )
        super().__init__(encoder, head, compare=compare, num_features=num_features)
