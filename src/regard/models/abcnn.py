r"""BCNN and ABCNN-1, -2 and -3: convolutions of two sentences, with attention between them.

Yin, Schütze, Xiang and Zhou, "ABCNN: Attention-Based Convolutional Neural Network for Modeling
Sentence Pairs", TACL 2016, arXiv 1512.05193.

    p_i   = tanh(W_c [x_{i-w+1}; …; x_i] + b)             wide convolution: s + w - 1 columns
    w-ap  : x'_j = 1/w Σ_{k=j}^{j+w-1} p_k                what the next block reads: s columns
    all-ap: mean of all p_k                               what is known of the sentence by then
    A_ij  = 1 / (1 + ‖x_0i - x_1j‖)                       match of two words or columns
    "input" (ABCNN-1):    x_0a = A W, x_1a = A^T W, W (s, d); the convolution reads two channels, x
                          and x_a
    "pooling" (ABCNN-2):  A of the columns p; a_0 = sums of its rows, a_1 = of its columns;
                          w-ap: x'_j = Σ_{k=j}^{j+w-1} a_k p_k
    "both":               ABCNN-3; "none": BCNN
    y     = W_o [sim(all-ap of words); sim(all-ap of block 1); …; features] + b_o

Both sentences are read with the same weights. A is an attention whose scores are the weights
(`Identity`): of the second sentence for the words of the first; transposed, the reverse. The
convolution is linear, so its second channel is A times the projected rows of W: W is projected
once, not x_a for each sentence.

Shapes: sentences (B, T) and (B, U); A (B, T, U) or (B, T + w - 1, U + w - 1); logits
(B, num_classes).

**Departs from the paper**: word vectors start at random; the paper's are word2vec. All blocks are
trained at once; the released code trains layer by layer and refits the last one as an SVM. With
attention, all-ap is the mean weighted with a, as in the released code; w-ap is the printed sum, or
with `weights="shares"` that of the released code, whose a adds up to 1. One W serves both
sentences. W has a row for each of `length` words: words behind those are not in x_a of the other
sentence, and have an x_a and a convolution of their own as any word. Dropout, on word vectors and
on what each block gives, is ours. A sentence without words is zero in every all-ap.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Identity, InverseEuclidean, Lengths
from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.pool import real
from regard.layers.similarity import cosine, distance
from regard.models._sentence import Head, features_of, words_of
from regard.protocols import Inputs, Output, QueryKeyTexts, states_of

__all__ = ["ABCNN"]

Words = Float[Tensor, "batch time dim"]
Sizes = Int[Tensor, " batch"]
Both = tuple[Tensor, Tensor]
"""Of the first and of the second sentence."""

ATTENTIONS: Mapping[str, tuple[bool, bool]] = {
    "none": (False, False),
    "input": (True, False),
    "pooling": (False, True),
    "both": (True, True),
}
"""Whether A is used before the convolution, and in the pooling behind it."""

SIMILARITIES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": lambda u, v: cosine(u, v)[:, None],
    "distance": lambda u, v: 1 / (1 + distance(u, v)[:, None]),
    "vectors": lambda u, v: torch.cat([u, v], -1),
}
"""What the last layer reads of each pair of all-ap: (B, d) and (B, d) to (B, n)."""

WEIGHTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sums": lambda a: a,
    "shares": lambda a: a / _or_one(a.sum(1, keepdim=True)),
}
"""Of columns in w-ap: sums of rows or columns of A, as printed; or these divided by their sum."""


def _or_one(x: Tensor) -> Tensor:
    return x.masked_fill(x == 0, 1.0)


class MatchScore(nn.Module):
    """A for a pair, whose words (or columns) look at each other; `columns` for who watches.

    Shapes:
        x (B, T, D) and y (B, U, D) to A (B, T, U), zero at padding, and A times `value` (B, U, n)
    """

    def __init__(self) -> None:
        super().__init__()
        self.columns = Attention(InverseEuclidean(), select=Identity(), role="cross")

    def forward(
        self,
        x: Float[Tensor, "batch t dim"],
        y: Float[Tensor, "batch u dim"],
        sizes: Both,
        value: Float[Tensor, "batch u n"],
    ) -> tuple[Float[Tensor, "batch t n"], Float[Tensor, "batch t u"]]:
        """Match every pair."""
        mask = Lengths(sizes[1]) & real(sizes[0], x)[..., None]
        found = self.columns(x, y, value, mask=mask, need_weights=True)
        assert found.weights is not None
        return found.context.to(value.dtype), found.weights


class MatchedInput(nn.Module):
    """The second channel of a convolution, projected: what words meet in the other sentence.

    Args:
        size: of a word vector.
        out: of the projection.
        length: rows of W.
    """

    query_key_texts: ClassVar[QueryKeyTexts] = {"match.columns": (0, 1)}

    def __init__(self, size: int, out: int, length: int) -> None:
        super().__init__()
        self.match = MatchScore()
        self.weight = nn.Parameter(torch.randn(length, size) * length**-0.5)  # W
        self.project = nn.Linear(size, out, bias=False)

    def forward(self, words: Both, sizes: Both) -> Both:
        """A W and A^T W, projected."""
        x, y = words
        rows = self.project(self.weight)
        here, there = (self._rows(rows, side.shape[1]) for side in words)
        first, a = self.match(x, y, sizes, there.expand(len(y), -1, -1))
        return first, torch.matmul(a.mT.to(here.dtype), here)

    def _rows(self, rows: Tensor, size: int) -> Tensor:
        """As many rows as words; zeros behind the last."""
        return F.pad(rows[:size], (0, 0, 0, max(0, size - len(rows))))


class Pooling(nn.Module):
    """Weights of columns by how well they match those of the other sentence."""

    query_key_texts: ClassVar[QueryKeyTexts] = {"match.columns": (None, None)}

    def __init__(self) -> None:
        super().__init__()
        self.match = MatchScore()

    def forward(self, columns: Both, sizes: Both) -> Both:
        """The sums of the rows and of the columns of A: (B, T) and (B, U)."""
        x, y = columns
        rows, a = self.match(x, y, sizes, y.new_ones(*y.shape[:2], 1))
        return rows[..., 0], a.sum(1).to(rows.dtype)


class WideBlock(nn.Module):
    """A convolution of both sentences and its pooling.

    Args:
        size: of a word vector, or of the block before.
        filters: d_1, columns' size.
        width: w.
        attention: a key of `ATTENTIONS`.
        length: rows of W.
        weights: a key of `WEIGHTS`.

    Shapes:
        words (B, T, size) and (B, U, size) to the same with `filters`, and all-ap (B, filters)
    """

    def __init__(
        self, size: int, filters: int, width: int, attention: str, length: int, weights: str
    ) -> None:
        super().__init__()
        before, behind = ATTENTIONS[attention]
        self.width, self.weights = width, weights
        self.convolve = nn.Linear(size, width * filters, bias=False)
        self.bias = nn.Parameter(torch.zeros(filters))
        bound = ((1 + before) * width * size) ** -0.5  # as PyTorch's convolution
        nn.init.uniform_(self.convolve.weight, -bound, bound)
        self.input = MatchedInput(size, width * filters, length) if before else None
        if self.input is not None:
            nn.init.uniform_(self.input.project.weight, -bound, bound)
        self.pooling = Pooling() if behind else None

    def forward(self, words: Both, sizes: Both) -> tuple[Both, Both]:
        """What the next block reads, and what is known of the sentences."""
        shifts = tuple(linear(self.convolve, x) for x in words)
        if self.input is not None:
            met = self.input(words, sizes)
            shifts = tuple(x + y for x, y in zip(shifts, met, strict=True))
        grown = tuple((n + self.width - 1) * (n > 0) for n in sizes)
        columns = tuple(self._columns(x, n) for x, n in zip(shifts, grown, strict=True))
        weights: tuple[Tensor, ...]
        if self.pooling is None:
            weights = tuple(real(n, x) for n, x in zip(grown, columns, strict=True))
            shares = tuple(
                a.to(x.dtype) / self.width for a, x in zip(weights, columns, strict=True)
            )
        else:
            weights = self.pooling(columns, grown)
            shares = tuple(WEIGHTS[self.weights](a) for a in weights)
        pooled = [
            self._pooled(x * a[..., None]) * real(n, size)[..., None]
            for x, a, n, size in zip(columns, shares, sizes, words, strict=True)
        ]
        known = [
            (x * a[..., None]).sum(1) / _or_one(a.sum(1, keepdim=True))
            for x, a in zip(columns, weights, strict=True)
        ]
        return (pooled[0], pooled[1]), (known[0], known[1])

    def _columns(
        self, shifts: Float[Tensor, "batch time shifted"], grown: Sizes
    ) -> Float[Tensor, "batch columns filters"]:
        """Every word's part in the w columns that see it, added up."""
        w = self.width
        parts = shifts.unflatten(-1, (w, -1))  # the k-th: of a word k columns before the last
        wide = [F.pad(parts[:, :, k], (0, 0, k, w - 1 - k)) for k in range(w)]
        columns = torch.tanh(sum(wide[1:], wide[0]) + self.bias.to(shifts.dtype))
        return columns * real(grown, columns)[..., None]

    def _pooled(
        self, columns: Float[Tensor, "batch columns filters"]
    ) -> Float[Tensor, "batch time filters"]:
        """The sum of each w columns."""
        size = columns.shape[1] - self.width + 1
        parts = [columns[:, k : k + size] for k in range(self.width)]
        return sum(parts[1:], parts[0])

    def extra_repr(self) -> str:
        """Say the width."""
        return f"width={self.width}"


class ABCNN(nn.Module):
    """A classifier of pairs by how alike both sentences are after each block of convolution.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair, joined to what the last layer reads.
        embed: size of a word vector.
        filters: of each convolution.
        width: w, words that a filter sees.
        blocks: of convolution and pooling.
        attention: "none" (BCNN), "input" (ABCNN-1), "pooling" (ABCNN-2) or "both" (ABCNN-3).
        length: rows of W: words of a sentence that another can meet before the convolution.
        similarity: what the last layer reads of each level: "cosine", "distance" (1 / (1 + it)), or
            both "vectors".
        weights: of columns in pooling with attention: "sums" or "shares".
        dropout: on word vectors and on what each block gives.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        embed: int = 300,
        filters: int = 50,
        width: int = 4,
        blocks: int = 2,
        attention: str = "both",
        length: int = 40,
        similarity: str = "cosine",
        weights: str = "sums",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for what, name, valid in (
            ("attention", attention, list(ATTENTIONS)),
            ("similarity", similarity, list(SIMILARITIES)),
            ("weights", weights, list(WEIGHTS)),
        ):
            if name not in valid:
                raise RequestError(f"ABCNN has no {what} {name!r}: {nearest(name, valid)}")
        if min(width, blocks, length) < 1:
            raise RequestError(
                f"ABCNN expected a width, blocks and a length of 1 or more, got {width}, {blocks} "
                f"and {length}"
            )
        self.vocab_size, self.num_classes, self.num_features = vocab_size, num_classes, num_features
        self.similarity, self.dropout = similarity, dropout
        self.embed = Embed(vocab_size, embed, contextual=True)
        sizes = [embed, *[filters] * blocks]
        self.blocks = nn.ModuleList(
            WideBlock(size, filters, width, attention, length, weights) for size in sizes[:-1]
        )
        read = 2 * sum(sizes) if similarity == "vectors" else len(sizes)
        self.head = Head(read + num_features, num_classes)

    def forward(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Output:
        """Logits (B, num_classes) of pairs of sentences (B, T) and (B, U)."""
        (x, here), (y, there) = self._words(first, lengths), self._words(second, second_lengths)
        sizes, words, alike = (here, there), (x, y), SIMILARITIES[self.similarity]
        means = [side.sum(1) / _or_one(n)[:, None] for side, n in zip(words, sizes, strict=True)]
        read = [alike(*means)]
        for block in self.blocks:
            pooled, known = block(words, sizes)
            x, y = (dropout(side, self.dropout, self.training) for side in pooled)
            words = x, y
            read.append(alike(*known))
        read += features_of(first, self.num_features, read[0])
        return Output(self.head(torch.cat(read, -1)), {})

    def _words(self, source: Tensor | Inputs, lengths: Tensor | None) -> tuple[Words, Sizes]:
        """Word vectors, zero at padding, and how many there are."""
        ids, lengths = words_of(source, lengths)
        x = dropout(self.embed(ids, states_of(source, ids)), self.dropout, self.training)
        return x * real(lengths, x)[..., None], lengths
