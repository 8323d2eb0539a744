r"""What models of one sentence, and of two read alike, have in common: a head on an encoder.

    one:  y = W_o f(W_f s + b_f) + b_o                     s = encoder(sentence)
    two:  y = W_o f(W_f [compare(u, v); features] + b_f) + b_o      u, v = encoder(a), encoder(b)

An encoder is a module with `embed`, an `Embed`; it reads `Inputs` and gives (B, size). A paper's
file has the encoder and subclasses of these two, whose constructors say all settings.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.pair_vectors import COMPARISONS, joined_size
from regard.protocols import Inputs, Output, ids_of, unpacked

__all__ = [
    "ACTIVATIONS",
    "Head",
    "SentenceClassifier",
    "SentencePair",
    "features_of",
    "words_of",
]

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": F.elu,
}


def words_of(
    source: Tensor | Inputs, lengths: Tensor | None = None, least: int = 1
) -> tuple[Int[Tensor, "batch time"], Int[Tensor, " batch"]]:
    """(ids, lengths) with `least` columns or more: a batch may have not one word in it.

    Raises:
        RequestError: the source is no text.
    """
    ids, lengths = ids_of(source, lengths)
    return F.pad(ids, (0, max(0, least - ids.shape[1]))), lengths


def features_of(first: Tensor | Inputs, count: int, like: Tensor) -> list[Tensor]:
    """The features of a pair, `extras["features"]` of its first sentence, as [(B, count)].

    An empty list where the model has none; zeros where nobody gave any.

    Raises:
        RequestError: the pair has another number of features than the model.
    """
    if not count:
        return []
    given = first.extras.get("features") if isinstance(first, Inputs) else None
    if given is None:
        return [like.new_zeros(len(like), count)]
    if given.shape[-1] != count:
        raise RequestError(
            f"the model reads {count} features of a pair, and was given {given.shape[-1]}"
        )
    return [given.to(like.dtype)]


class Head(nn.Module):
    """A classifier on a vector: layers of hidden units, then one logit a class.

    Args:
        size: of the vector.
        num_classes: of the output.
        ffn_dim: hidden units of each layer; 0: the vector is projected as it is.
        layers: of hidden units.
        activation: one of `ACTIVATIONS`.
        dropout: before each layer.

    Shapes:
        (B, size) to logits (B, num_classes)
    """

    def __init__(
        self,
        size: int,
        num_classes: int,
        *,
        ffn_dim: int = 0,
        layers: int = 1,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_classes < 1:
            raise RequestError(f"expected a class or more, got num_classes={num_classes}")
        if activation not in ACTIVATIONS:
            raise RequestError(
                f"there is no activation {activation!r}: {nearest(activation, ACTIVATIONS)}"
            )
        self.activation, self.dropout = activation, dropout
        sizes = [size, *[ffn_dim] * (layers if ffn_dim else 0)]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.output = nn.Linear(sizes[-1], num_classes)

    def forward(self, x: Float[Tensor, "batch size"]) -> Float[Tensor, "batch classes"]:
        """Classify."""
        for layer in self.hidden:
            x = ACTIVATIONS[self.activation](linear(layer, dropout(x, self.dropout, self.training)))
        found: Tensor = self.output(dropout(x, self.dropout, self.training))
        return found


class _Encoding(nn.Module):
    """A head on what an encoder makes of a sentence."""

    normalized = False

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    @property
    def embed(self) -> Embed:
        """The word vectors."""
        found: Embed = self.encoder.embed  # type: ignore[assignment]
        return found

    @property
    def vocab_size(self) -> int:
        """Size of the vocabulary."""
        return self.embed.weight.shape[0]

    @property
    def num_classes(self) -> int:
        """Of the output."""
        found: int = self.head.output.out_features  # type: ignore[union-attr, assignment]
        return found

    def embedding(
        self, source: Tensor | Inputs, lengths: Tensor | None = None
    ) -> Float[Tensor, "batch size"]:
        """The vector of each sentence."""
        values, lengths = unpacked(source, lengths)
        extras = source.extras if isinstance(source, Inputs) else {}
        found: Tensor = self.encoder(Inputs(values, lengths, extras))
        return found


class SentenceClassifier(_Encoding):
    """A `Classifier` of what an encoder makes of a sentence.

    Args:
        encoder: `Inputs` to (B, size); with `embed`.
        head: (B, size) to logits (B, num_classes).
    """

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Logits (B, num_classes) of sentences (B, T), or of `Inputs` with those."""
        return Output(self.head(self.embedding(source, lengths)), {})


class SentencePair(_Encoding):
    """A `PairClassifier` that reads both sentences with one encoder and compares the two vectors.

    Args:
        encoder: `Inputs` to (B, size); with `embed`.
        head: on the joined vectors and the features of the pair: `joined(size, compare, features)`
            numbers.
        compare: one of `layers.pair_vectors.COMPARISONS`.
        num_features: numbers that come with each pair (`extras["features"]` of the first sentence).
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        compare: str = "distance-product",
        num_features: int = 0,
    ) -> None:
        super().__init__(encoder, head)
        self.compare, self.num_features = compare, num_features

    @staticmethod
    def joined(size: int, compare: str, num_features: int = 0) -> int:
        """How many numbers the head reads.

        Raises:
            RequestError: there is no such comparison.
        """
        if compare not in COMPARISONS:
            raise RequestError(
                f"there is no comparison {compare!r}: {nearest(compare, COMPARISONS)}"
            )
        return joined_size(compare, size) + num_features

    def forward(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Output:
        """Logits (B, num_classes) of pairs of sentences (B, T) and (B, U)."""
        u, v = self.embedding(first, lengths), self.embedding(second, second_lengths)
        joined = [COMPARISONS[self.compare](u, v), *features_of(first, self.num_features, u)]
        return Output(self.head(torch.cat(joined, -1)), {})
