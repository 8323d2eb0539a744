r"""Decomposable attention. Parikh, Täckström, Das and Uszkoreit, EMNLP 2016, arXiv 1606.01933.

"A Decomposable Attention Model for Natural Language Inference".

    ā_i  = P x_i                                     word vectors, projected without a bias
    e_ij = F(ā_i)^T F(b̄_j)                          attend
    β_i  = Σ_j softmax_j(e_ij) b̄_j        α_j = Σ_i softmax_i(e_ij) ā_i
    v_1i = G([ā_i; β_i])                  v_2j = G([b̄_j; α_j])              compare
    y    = H([Σ_i v_1i; Σ_j v_2j])                                           aggregate
    intra-sentence:  f_ij = F_intra(a_i)^T F_intra(a_j) + d_|i-j|
                     a'_i = Σ_j softmax_j(f_ij) a_j,   ā_i = [a_i; a'_i]

F, F_intra, G and H are two layers of ReLUs; H has a linear layer behind them. F is computed once
for each word, not once for each pair. β and α are two attentions with the same scores: the words of
each sentence look at those of the other. Fused kernels compute both from the products, so e is
never stored.

Shapes: sentences a (B, T) and b (B, U); ā (B, T, D); logits (B, num_classes). With NULL, T and U
are one more.

**Departs from the paper**: word vectors start at random; the paper's are GloVe, scaled to length 1
and fixed (the task can load and freeze them). Weights start as PyTorch's layers do. The NULL token
is a learned vector in the space of word vectors. Parameters as counted in the paper (382 and 582
thousand) are 381,803 and 582,214 without NULL; with it there are 300 more, which rounds the same.
Distances of 10 words and more share a bias: 11 in all.
"""

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention, Dot, Lengths
from regard.attention.mask import offsets
from regard.errors import RequestError
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.pool import real
from regard.models._sentence import Head, features_of, words_of
from regard.protocols import Inputs, Output, QueryKeyTexts, states_of

__all__ = ["Decomposable", "DistanceBias"]


class DistanceBias(nn.Module):
    r"""A learned bias for each distance, the same to the left and to the right.

    .. math:: e_{ij} \leftarrow e_{ij} + d_{\min(|j - p_i|,\,k)}

    Args:
        clip: k, the distance from which on all share a bias.

    Shapes:
        scores (*batch, Q, K); the table (k + 1,), initialized to zero

    Source: Parikh et al. (2016), section 3.4.
    """

    def __init__(self, clip: int = 10) -> None:
        super().__init__()
        self.clip = clip
        self.table = nn.Parameter(torch.zeros(clip + 1))

    def before(self, query: Tensor, key: Tensor, *, at: int | Tensor = 0) -> tuple[Tensor, Tensor]:
        """Return queries and keys unchanged."""
        return query, key

    def bias(
        self, scores: Float[Tensor, "*batch q k"], query: Tensor, *, at: int | Tensor = 0
    ) -> Float[Tensor, "*batch q k"]:
        """Add the bias of each pair's distance."""
        distance = offsets(scores.shape[-2], scores.shape[-1], at, scores.device).abs()
        return scores + self.table[distance.clamp(max=self.clip)].to(scores.dtype)

    def extra_repr(self) -> str:
        """Say the clip."""
        return f"clip={self.clip}"


class Perceptron(nn.Module):
    """Two layers of ReLUs, with dropout before each.

    Shapes:
        (*batch, size) to (*batch, hidden)
    """

    def __init__(self, size: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(size, hidden), nn.Linear(hidden, hidden)
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch hidden"]:
        """Apply both."""
        for layer in (self.first, self.second):
            x = torch.relu(linear(layer, dropout(x, self.dropout, self.training)))
        return x


class Intra(nn.Module):
    """Each word with what it finds in its own sentence: a to [a; a'].

    `words` is the attention for who watches.

    Shapes:
        a (B, T, dim) to (B, T, 2 dim)
    """

    def __init__(self, dim: int, hidden: int, distances: int, dropout: float) -> None:
        super().__init__()
        self.score = Perceptron(dim, hidden, dropout)
        self.words = Attention(Dot(), position=DistanceBias(distances - 1), role="self")

    def forward(
        self, a: Float[Tensor, "batch time dim"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch time both"]:
        """Look at the own sentence."""
        f = self.score(a)
        found = self.words(f, f, a, mask=Lengths(lengths)).context
        return torch.cat([a, found.to(a.dtype)], -1)


class Decomposable(nn.Module):
    """A classifier of pairs that aligns words with words, and reads no order.

    `premise` is softmax_j(e) and `hypothesis` softmax_i(e), transposed, for who watches: the words
    of the first sentence look at the second's, and those of the second at the first's.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair, joined to what H reads.
        embed: size of a word vector.
        dim: of a projected word vector.
        hidden: units of each layer of F, G and H.
        distances: biases of the intra-sentence attention, for distances 0, 1, …; 0 for no such
            attention. The paper's has 11.
        null: a learned token before each sentence, for words that match nothing.
        dropout: before each layer of F, G and H.
    """

    query_key_texts: ClassVar[QueryKeyTexts] = {
        "premise": (0, 1),
        "hypothesis": (1, 0),
    }

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        embed: int = 300,
        dim: int = 200,
        hidden: int = 200,
        distances: int = 0,
        null: bool = True,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        if distances < 0:
            raise RequestError(f"Decomposable expected distances >= 0, got {distances}")
        self.vocab_size, self.num_classes, self.num_features = vocab_size, num_classes, num_features
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.null = nn.Parameter(torch.randn(embed) * embed**-0.5) if null else None
        self.project = nn.Linear(embed, dim, bias=False)
        self.intra = Intra(dim, hidden, distances, dropout) if distances else None
        size = dim if self.intra is None else 2 * dim
        self.attend = Perceptron(size, hidden, dropout)  # F
        self.premise = Attention(Dot(), role="cross")
        self.hypothesis = Attention(Dot(), role="cross")
        self.compare = Perceptron(2 * size, hidden, dropout)  # G
        self.head = Head(
            2 * hidden + num_features, num_classes, ffn_dim=hidden, layers=2, dropout=dropout
        )  # H

    def forward(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Output:
        """Logits (B, num_classes) of pairs of sentences (B, T) and (B, U)."""
        (a, here), (b, there) = self._words(first, lengths), self._words(second, second_lengths)
        left, right = self.attend(a), self.attend(b)
        beta = self.premise(left, right, b, mask=Lengths(there)).context
        alpha = self.hypothesis(right, left, a, mask=Lengths(here)).context
        v = [self._compared(a, beta, here), self._compared(b, alpha, there)]
        return Output(self.head(torch.cat([*v, *features_of(first, self.num_features, v[0])], -1)))

    def _words(
        self, source: Tensor | Inputs, lengths: Tensor | None
    ) -> tuple[Float[Tensor, "batch time dim"], Int[Tensor, " batch"]]:
        """The projected words of a sentence, after NULL, and how many there are."""
        ids, lengths = words_of(source, lengths)
        x = self.embed(ids, states_of(source, ids))
        if self.null is not None:
            x = torch.cat([self.null.to(x.dtype).expand(len(x), 1, -1), x], 1)
            lengths = lengths + 1
        x = linear(self.project, x)
        return (x if self.intra is None else self.intra(x, lengths)), lengths

    def _compared(
        self, words: Tensor, found: Tensor, lengths: Tensor
    ) -> Float[Tensor, "batch hidden"]:
        """The sum over a sentence's words, each beside what it found in the other."""
        v = self.compare(torch.cat([words, found.to(words.dtype)], -1))
        total: Tensor = (v * real(lengths, v)[..., None]).sum(1)
        return total
