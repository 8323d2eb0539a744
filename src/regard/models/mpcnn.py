r"""MPCNN: sentences compared in many perspectives, and its attention-based input layer.

He, Gimpel and Lin, "Multi-Perspective Sentence Similarity Modeling with Convolutional Neural
Networks", EMNLP 2015; He, Wieting, Gimpel, Rao and Lin, "UMD-TTIC-UW at SemEval-2016 Task 1:
Attention-Based Multi-Perspective Convolutional Neural Networks", SemEval 2016.

    block A (ws, pool):  pool_t tanh(W [x_t; …; x_{t+ws-1}] + b)      pool = max, min or mean, each
                         n_A filters that see all dimensions          with filters of its own
    block A (∞, pool):   pool_t x_t
    block B (ws, pool):  pool_t tanh(W_d x_{t…t+ws-1, d} + b_d)       pool = max or min,
                         n_B filters for each dimension d
    comU_1(u, v) = [cos(u, v), ‖u - v‖, |u - v|]        comU_2(u, v) = [cos(u, v), ‖u - v‖]
    horizontal:  comU_2 of a filter's values over all widths, for each pool of A and each filter
    vertical:    comU_1 of A(ws_1, pool) and A'(ws_2, pool) over the filters, for each two widths;
                 comU_1 of B(ws, pool) and B'(ws, pool) over the dimensions, for each filter
    y = W_o tanh(W_f [all of these; features] + b_f) + b_o
    attention:   D_ab = cos(x_a, x'_b),  E_a = Σ_b D_ab,  A = softmax_a(E),  x_a <- [A_a x_a; x_a]

At 300 dimensions and filters these are 52,536 numbers for a pair. Filters of one width are one
product, whatever their pools. tanh grows with its argument, so of the filters with max and min it
is taken behind the pool, and the convolutions of single dimensions are never stored. The paper's
ablations are settings: fewer `pools`, `width=1`, and `dim_filters=0`, which leaves block B out.

Shapes: sentences (B, T) and (B, U); block A (B, 3, widths, n_A), block B (B, 2, widths, n_B, D);
D (B, T, U); logits (B, num_classes).

**Departs from the paper**: word vectors start at random; the paper's are GloVe and fixed (the task
can load and freeze them). Filters of block B are separate for each dimension, as the text says; the
first released code slides the same ones over all. That code has a layer of width 1 before wider
filters, which the text does not. If n_A is not the size of what the filters read, vectors of width
∞ have another size: they are compared with each other alone, and left out of the horizontal
comparisons, as in a later released code. A sentence shorter than the widest filter is padded with
zero vectors. Dropout, on word vectors and in the classifier, is ours.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention, Cosine, Identity, Lengths, masked_softmax
from regard.errors import RequestError, nearest
from regard.layers.dimension_conv import largest_response
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.pool import real
from regard.layers.similarity import cosine, distance
from regard.models._sentence import Head, features_of, words_of
from regard.protocols import Inputs, Output, QueryKeyTexts, states_of

__all__ = ["MPCNN"]

Words = Float[Tensor, "batch time dim"]
Sizes = Int[Tensor, " batch"]


class Alone(nn.Module):
    """No interaction: sentences as they are."""

    def forward(
        self,
        x: Float[Tensor, "batch t dim"],
        y: Float[Tensor, "batch u dim"],
        lengths: Sizes,
        others: Sizes,
    ) -> tuple[Tensor, Tensor]:
        """Return both."""
        return x, y


class Interaction(nn.Module):
    """Words weighted by how well they match the other sentence; `words` is D for who watches.

    Shapes:
        x (B, T, D) and y (B, U, D) to (B, T, 2D) and (B, U, 2D)
    """

    query_key_texts: ClassVar[QueryKeyTexts] = {"words": (0, 1)}

    def __init__(self) -> None:
        super().__init__()
        self.words = Attention(Cosine(), select=Identity(), role="cross")

    def forward(
        self,
        x: Float[Tensor, "batch t dim"],
        y: Float[Tensor, "batch u dim"],
        lengths: Sizes,
        others: Sizes,
    ) -> tuple[Float[Tensor, "batch t both"], Float[Tensor, "batch u both"]]:
        """Weigh both."""
        here, there = real(lengths, x), real(others, y)
        mask = Lengths(others) & here[..., None]
        matched = self.words(x, y, mask=mask, need_weights=True).weights
        assert matched is not None
        found = []
        for side, energy, own in ((x, matched.sum(2), here), (y, matched.sum(1), there)):
            share = masked_softmax(energy, own)[..., None]
            found.append(torch.cat([share.to(side.dtype) * side, side], -1))
        return found[0], found[1]


INTERACTIONS: Mapping[str, tuple[type[nn.Module], int]] = {
    "none": (Alone, 1),
    "attention": (Interaction, 2),
}
"""What sentences know of each other before the filters, and how much longer its vectors are."""


Pool = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Over time, of x (B, N, n), where it is real (B, N, 1), and how much of it is (B,)."""


def _largest(x: Tensor, real: Tensor, counts: Tensor) -> Tensor:
    return x.masked_fill(~real, torch.finfo(x.dtype).min).amax(1)


def _smallest(x: Tensor, real: Tensor, counts: Tensor) -> Tensor:
    return x.masked_fill(~real, torch.finfo(x.dtype).max).amin(1)


def _mean(x: Tensor, real: Tensor, counts: Tensor) -> Tensor:
    return (x * real).sum(1) / counts[:, None].to(x.dtype)


POOLS: Mapping[str, Pool] = {"max": _largest, "min": _smallest, "mean": _mean}
"""Pools of block A; those of block B are "max" and "min"."""


class Perspectives(nn.Module):
    """All filters of a sentence and their pools.

    Args:
        size: D, of a word vector.
        filters: n_A, for each pool.
        dim_filters: n_B, for each dimension and pool; 0 for no block B.
        widths: of the filters, 1, 2, … words; ∞ is one more.
        pools: of `POOLS`, P of them; block B has those of "max" and "min" among them, P_B.

    Shapes:
        x (B, T, D) to block A (B, P, widths, n_A), the pools of words (B, P, D), and block B
        (B, P_B, widths, n_B, D)
    """

    def __init__(
        self, size: int, filters: int, dim_filters: int, widths: int, pools: Sequence[str]
    ) -> None:
        super().__init__()
        self.pools = tuple(pools)
        self.dim_pools = tuple(pool for pool in pools if pool != "mean")
        spans = range(1, widths + 1)
        of_whole, of_dims = len(pools) * filters, len(self.dim_pools) * dim_filters
        of_all = [nn.Linear(size, w * of_whole, bias=False) for w in spans]
        self.whole = nn.ModuleList(of_all)
        self.whole_bias = nn.Parameter(torch.empty(widths, of_whole))
        self.dims = nn.ParameterList(torch.empty(size, w, of_dims) for w in spans)
        self.dims_bias = nn.Parameter(torch.empty(widths, size, of_dims))
        for w, whole, dims in zip(spans, of_all, self.dims, strict=True):  # as PyTorch's
            for weights, reads in (
                ((whole.weight, self.whole_bias[w - 1]), w * size),
                ((dims, self.dims_bias[w - 1]), w),
            ):
                for weight in weights:
                    nn.init.uniform_(weight.detach(), -(reads**-0.5), reads**-0.5)

    def forward(self, x: Words, lengths: Sizes) -> tuple[Tensor, Tensor, Tensor]:
        """Filter and pool; at least as many words as the widest filter sees."""
        there = real(lengths, x)[..., None]
        words = torch.stack([POOLS[pool](x, there, lengths) for pool in self.pools], 1)
        whole, dims = [], []
        for k, (layer, weight) in enumerate(zip(self.whole, self.dims, strict=True)):
            whole.append(self._whole(layer, self.whole_bias[k], x, lengths, k + 1))
            if weight.numel():
                dims.append(self._dims(weight, self.dims_bias[k], x, lengths))
        none = x.new_zeros(len(x), 0, len(self.whole), 0, x.shape[-1])
        return torch.stack(whole, 2), words, torch.stack(dims, 2) if dims else none

    def _whole(
        self, layer: nn.Module, bias: Tensor, x: Words, lengths: Sizes, width: int
    ) -> Float[Tensor, "batch pools filters"]:
        """Block A of one width, all pools."""
        parts = linear(layer, x).unflatten(-1, (width, -1))  # a word's, for its places in windows
        size = x.shape[1] - width + 1
        shifted = [parts[:, k : k + size, k] for k in range(width)]
        response = sum(shifted[1:], shifted[0]) + bias.to(x.dtype)
        counts = lengths - (width - 1)
        there = real(counts, response)[..., None]
        found = []
        for pool, part in zip(self.pools, response.chunk(len(self.pools), -1), strict=True):
            if pool == "mean":
                found.append(POOLS[pool](torch.tanh(part), there, counts))
            else:
                found.append(torch.tanh(POOLS[pool](part, there, counts)))
        return torch.stack(found, 1)

    def _dims(
        self, weight: Tensor, bias: Tensor, x: Words, lengths: Sizes
    ) -> Float[Tensor, "batch pools filters dim"]:
        """Block B of one width, all its pools; a minimum is the maximum of what is negated."""
        signs = [1 if pool == "max" else -1 for pool in self.dim_pools]
        parts = weight.chunk(len(signs), -1)
        signed = [part if sign > 0 else -part for sign, part in zip(signs, parts, strict=True)]
        response = largest_response(x, torch.cat(signed, -1), lengths)
        parts = response.chunk(len(signs), -1)
        signed = [part if sign > 0 else -part for sign, part in zip(signs, parts, strict=True)]
        response = torch.tanh(torch.cat(signed, -1) + bias.to(response.dtype))
        return torch.stack(response.mT.chunk(len(signs), 1), 1)

    def extra_repr(self) -> str:
        """Say the numbers of filters."""
        of_whole = self.whole_bias.shape[1] // len(self.pools)
        of_dims = self.dims_bias.shape[2] // max(len(self.dim_pools), 1)
        return f"{of_whole} and {of_dims} for a dimension, {', '.join(self.pools)}"


def units(
    x: Float[Tensor, "*#batch dim"], y: Float[Tensor, "*#batch dim"], *, each: bool
) -> Float[Tensor, "*batch units"]:
    r"""comU_1 where `each` (with :math:`|x - y|`), else comU_2: cosine and distance alone.

    Source: He et al. (2015), section 4.
    """
    found = [cosine(x, y)[..., None], distance(x, y)[..., None]]
    return torch.cat([*found, (x - y).abs()] if each else found, -1)


class MPCNN(nn.Module):
    """A classifier of pairs by thousands of comparisons between parts of both.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        num_features: numbers that come with each pair, joined to the comparisons.
        embed: size of a word vector.
        filters: n_A, that see all dimensions, for each pool.
        dim_filters: n_B, for each dimension and pool; 0 leaves block B out.
        width: of the widest filter; there are filters of all widths from 1, and ∞.
        pools: "max", "min" and "mean", or some of them; block B has no mean.
        interaction: "none", or "attention" (He et al. 2016).
        ffn_dim: hidden units of the classifier; the paper's are 250 for MSRP.
        dropout: on word vectors and in the classifier.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        embed: int = 300,
        filters: int = 300,
        dim_filters: int = 20,
        width: int = 3,
        pools: Sequence[str] = ("max", "min", "mean"),
        interaction: str = "none",
        ffn_dim: int = 150,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if interaction not in INTERACTIONS:
            raise RequestError(
                f"MPCNN has no interaction {interaction!r}: {nearest(interaction, INTERACTIONS)}"
            )
        if min(width, filters) < 1 or dim_filters < 0:
            raise RequestError(
                "MPCNN expected a width and filters of 1 or more, and dim_filters of 0 or more, "
                f"got {width}, {filters} and {dim_filters}"
            )
        for pool in pools:
            if pool not in POOLS:
                raise RequestError(f"MPCNN has no pool {pool!r}: {nearest(pool, POOLS)}")
        if not pools or len(set(pools)) < len(pools):
            raise RequestError(f"MPCNN expected pools, each once, got {list(pools)}")
        self.vocab_size, self.num_classes, self.num_features = vocab_size, num_classes, num_features
        self.width, self.dropout = width, dropout
        self.embed = Embed(vocab_size, embed, contextual=True)
        made, factor = INTERACTIONS[interaction]
        self.interaction, size = made(), embed * factor
        self.perspectives = Perspectives(size, filters, dim_filters, width, pools)
        same, every = filters == size, width + 1
        horizontal = len(pools) * filters * 2
        vertical = len(pools) * (every**2 if same else width**2) * (filters + 2)
        vertical += 0 if same else len(pools) * (size + 2)
        of_dims = len(self.perspectives.dim_pools) * dim_filters
        self.comparisons = horizontal + vertical + width * of_dims * (size + 2)
        self.head = Head(
            self.comparisons + num_features,
            num_classes,
            ffn_dim=ffn_dim,
            activation="tanh",
            dropout=dropout,
        )

    def forward(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Output:
        """Logits (B, num_classes) of pairs of sentences (B, T) and (B, U)."""
        compared = self.compared(first, second, lengths, second_lengths)
        read = [compared, *features_of(first, self.num_features, compared)]
        return Output(self.head(torch.cat(read, -1)), {})

    def compared(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Float[Tensor, "batch comparisons"]:
        """Every comparison: horizontal, then vertical of block A, then of block B."""
        (x, here), (y, there) = self._words(first, lengths), self._words(second, second_lengths)
        x, y = self.interaction(x, y, here, there)
        a, words, dims = self.perspectives(x, here.clamp_min(self.width))
        b, others, other_dims = self.perspectives(y, there.clamp_min(self.width))
        apart = []
        if a.shape[-1] == words.shape[-1]:  # ∞ is a width like the others
            a, b = (torch.cat([z, w[:, :, None]], 2) for z, w in ((a, words), (b, others)))
        else:
            apart = [units(words, others, each=True)]
        found = [
            units(a.mT, b.mT, each=False),
            units(a[:, :, :, None], b[:, :, None], each=True),
            *apart,
            units(dims, other_dims, each=True),
        ]
        return torch.cat([x.flatten(1) for x in found], -1)

    def _words(self, source: Tensor | Inputs, lengths: Tensor | None) -> tuple[Words, Sizes]:
        """Word vectors, zero at padding, at least as many as a filter sees; how many are real."""
        ids, lengths = words_of(source, lengths, least=self.width)
        x = dropout(self.embed(ids, states_of(source, ids)), self.dropout, self.training)
        return x * real(lengths, x)[..., None], lengths
