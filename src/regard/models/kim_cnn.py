r"""A convolution over word vectors and the largest of each filter's answers.

Kim, "Convolutional Neural Networks for Sentence Classification", EMNLP 2014, arXiv 1408.5882.

    c_i = f(w · x_{i : i+h-1} + b)               a filter over h words, i = 1 … n - h + 1       (2)
    ĉ   = max_i c_i                              max over time
    y   = W (z ∘ r) + b,  z = [ĉ_1 ; … ; ĉ_m]    r drops half of z in training                (4-5)

There are filters of several widths h. f is the rectifier, which never falls, so max f(x) = f(max x)
is computed. Windows with padding in them are left out; a sentence shorter than a filter has one
window, filled up with zeros.

Shapes: source (B, T) ids; z (B, widths * filters); logits (B, num_classes).

**Departs from the paper**: word vectors start at random, the paper's CNN-rand; its others have
word2vec vectors, fixed (static) or trained further (non-static), which is the data's part. Two sets
of vectors (multichannel) are not here. The bound on the norm of W is the optimizer's part. Filters
and W start as PyTorch's layers do.
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import RequestError
from regard.layers.embed import Embed
from regard.layers.pool import real, spread
from regard.models._sentence import Head, SentenceClassifier, words_of
from regard.protocols import Inputs, states_of

__all__ = ["KimCNN", "MaxOverTime"]


class MaxOverTime(nn.Module):
    """The encoder: (B, T) ids to (B, widths * filters).

    Args:
        vocab_size: size of the vocabulary.
        embed: size of a word vector.
        widths: h of each set of filters.
        filters: of each width.
    """

    def __init__(self, vocab_size: int, embed: int, widths: Sequence[int], filters: int) -> None:
        super().__init__()
        if not widths or min(widths) < 1:
            raise RequestError(
                f"KimCNN expected widths of 1 word or more, one or several, got {list(widths)}"
            )
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.convolutions = nn.ModuleList(nn.Conv1d(embed, filters, width) for width in widths)
        self.widths, self.size = tuple(widths), filters * len(self.convolutions)

    def forward(self, source: Inputs) -> Float[Tensor, "batch size"]:
        """The vector z of each sentence."""
        found = [answers.amax(-1) for answers in self._answers(*self._words(source))]
        return torch.relu(torch.cat(found, -1))

    def shares(self, source: Inputs) -> Float[Tensor, "batch time"]:
        """See `protocols.MaxPooled`; the words of a window share what it gave.

        Filters whose largest answer is not above 0 say nothing, and are left out.
        """
        x, lengths = self._words(source)
        total, count = x.new_zeros(x.shape[:2]), x.new_zeros(len(x))
        for width, answers in zip(self.widths, self._answers(x, lengths), strict=True):
            largest, where = answers.max(-1)  # (B, filters)
            fires = (largest > 0).to(x.dtype)
            windows = x.new_zeros(len(x), answers.shape[-1]).scatter_add(1, where, fires)
            total = total + spread(windows, lengths.clamp(1, width), x.shape[1])
            count = count + fires.sum(1)
        return total / count.clamp_min(1)[:, None]

    def _words(
        self, source: Inputs
    ) -> tuple[Float[Tensor, "batch time embed"], Int[Tensor, " batch"]]:
        ids, lengths = words_of(source, least=max(self.widths))
        lengths = lengths.to(ids.device)
        return self.embed(ids, states_of(source, ids)) * real(lengths, ids)[..., None], lengths

    def _answers(
        self, x: Float[Tensor, "batch time embed"], lengths: Int[Tensor, " batch"]
    ) -> Iterator[Float[Tensor, "batch filters windows"]]:
        """Of each width what the filters answer to each window; -inf where padding is in it."""
        for width, layer in zip(self.widths, self.convolutions, strict=True):
            answers: Tensor = layer(x.mT)
            windows = (lengths - width + 1).clamp_min(1)
            places = torch.arange(answers.shape[-1], device=x.device)
            yield answers.masked_fill(places >= windows[:, None, None], -torch.inf)


class KimCNN(SentenceClassifier):
    """A classifier of sentences by filters over a few words.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output.
        embed: size of a word vector.
        widths: how many words a filter reads: filters of each of these.
        filters: of each width.
        dropout: on z.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        embed: int = 300,
        widths: Sequence[int] = (3, 4, 5),
        filters: int = 100,
        dropout: float = 0.5,
    ) -> None:
        encoder = MaxOverTime(vocab_size, embed, widths, filters)
        super().__init__(encoder, Head(encoder.size, num_classes, dropout=dropout))
