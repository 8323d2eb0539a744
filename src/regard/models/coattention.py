r"""Hierarchical co-attention of two sequences.

Lu, Yang, Batra and Parikh, "Hierarchical Question-Image Co-Attention for Visual Question
Answering", NIPS 2016, arXiv 1606.00061.

    parallel:     C  = tanh(Q^T W_b V)                                                   (3)
                  H^v = tanh(W_v V + (W_q Q) C),   H^q = tanh(W_q Q + (W_v V) C^T)       (4)
                  a^v = softmax(w_hv^T H^v),       a^q = softmax(w_hq^T H^q)
                  v̂ = Σ_n a^v_n v_n,               q̂ = Σ_t a^q_t q_t                      (5)
    alternating:  x̂ = A(X; g):  a = softmax(w_hx^T tanh(W_x X + (W_g g) 1^T)),  x̂ = Σ a_i x_i   (6)
                  ŝ = A(Q; 0),  v̂ = A(V; ŝ),  q̂ = A(Q; v̂)
    levels:       word    q^w_t, a word vector
                  phrase  q^p_t = max(tanh(W^1 q^w_t), tanh(W^2 q^w_{t:t+1}), tanh(W^3 q^w_{t:t+2}))
                  question q^s_t = LSTM(q^p_1 … q^p_t)
    answer:       h^w = tanh(W_w (q̂^w + v̂^w)),  h^p = tanh(W_p [q̂^p + v̂^p; h^w])
                  h^s = tanh(W_s [q̂^s + v̂^s; h^p]),  y = W_h h^s + b_h

The second sequence is another text, read at the same three levels with the same weights, or the
regions of an image, which are the same at each level. C is one matrix of scores that both sequences
are read with: an attention whose weights are the scores. The steps of `alternating` have weights of
their own, as in the released code. tanh grows with its argument, so the maximum over n-grams is
taken before it.

Shapes: Q (B, T, d), V (B, N, d); C (B, T, N); a^v (B, 1, N), a^q (B, 1, T); logits
(B, num_classes).

**Departs from the paper**: the paper's second sequence is an image; reading a second text is ours.
The LSTM has one layer and two bias vectors for each gate, as in PyTorch (released code: two
layers). The layers of the attentions have no biases, as printed. Dropout is on word vectors,
regions and what each layer of the answer reads.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Additive, Attention, Biaffine, Dot, Identity, Lengths
from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.linear import linear
from regard.layers.lstm import LSTM
from regard.layers.pool import real
from regard.models._sentence import features_of, words_of
from regard.protocols import Inputs, Output, QueryKeyTexts, states_of, unpacked

__all__ = ["AlternatingCoAttention", "CoAttention", "ParallelCoAttention"]

GRAMS = (1, 2, 3)
LEVELS = ("word", "phrase", "question")

Level = tuple[Tensor, Tensor]
"""A sequence at one level (B, n, d), and how long each row is (B,)."""


class Affinity(nn.Module):
    r"""The affinity of two vectors, between -1 and 1.

    .. math:: C_{ij} = \tanh(q_i^\top W_b k_j)

    Source: Lu et al. (2016), eq. 3.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.product = Biaffine(dim, dim, query_bias=False)

    def prepare(self, key: Tensor) -> Tensor:
        """The keys unchanged."""
        return key

    def forward(
        self,
        query: Float[Tensor, "*#batch q dim"],
        key: Float[Tensor, "*#batch k dim"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """Multiply and squash."""
        squashed: Tensor = torch.tanh(self.product(query, key))
        return squashed


class Summary(nn.Module):
    """A learned query that looks at hidden units of a sequence and reads the sequence.

    `words` is a for who watches.

    Args:
        hidden: of a hidden unit.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(1, hidden).uniform_(-1, 1) * hidden**-0.5)  # w_h
        self.words = Attention(Dot(), role="word")

    def forward(
        self,
        hidden: Float[Tensor, "batch n hidden"],
        values: Float[Tensor, "batch n dim"],
        lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch dim"]:
        """Read the values where the hidden units match the query."""
        query = self.query.to(hidden.dtype).expand(len(hidden), -1, -1)
        found: Tensor = self.words(query, hidden, values, mask=Lengths(lengths)).context
        return found[:, 0].to(values.dtype)


class ParallelCoAttention(nn.Module):
    """Both sequences are read at once; `affinity` is C for who watches.

    Args:
        dim: d, of both sequences.
        hidden: k, units of H.

    Shapes:
        Q (B, T, d) and V (B, N, d) with their lengths to q̂ and v̂ (B, d)
    """

    query_key_texts: ClassVar[QueryKeyTexts] = {
        "affinity": (0, 1),
        "of_query.words": (None, 0),
        "of_value.words": (None, 1),
    }

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.affinity = Attention(Affinity(dim), select=Identity(), role="cross")
        self.query = nn.Linear(dim, hidden, bias=False)  # W_q
        self.value = nn.Linear(dim, hidden, bias=False)  # W_v
        self.of_query, self.of_value = Summary(hidden), Summary(hidden)

    def forward(self, first: Level, second: Level) -> tuple[Tensor, Tensor]:
        """Equations 3 to 5."""
        (q, lengths), (v, others) = first, second
        here, there = linear(self.query, q), linear(self.value, v)
        mask = Lengths(others) & real(lengths, q)[..., None]
        met = self.affinity(q, v, there, mask=mask, need_weights=True)
        assert met.weights is not None
        back = torch.matmul(met.weights.mT.to(here.dtype), here)
        return (
            self.of_query(torch.tanh(here + met.context.to(here.dtype)), q, lengths),
            self.of_value(torch.tanh(there + back), v, others),
        )


class AlternatingCoAttention(nn.Module):
    """First Q alone, then V knowing it, then Q knowing that; `second` and `first` for who watches.

    Args, Shapes: as in `ParallelCoAttention`.
    """

    query_key_texts: ClassVar[QueryKeyTexts] = {
        "alone.words": (None, 0),
        "second": (None, 1),
        "first": (None, 0),
    }

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.start = nn.Linear(dim, hidden, bias=False)  # W_x of the first step
        self.alone = Summary(hidden)
        self.second = Attention(Additive(dim, dim, hidden), role="cross")
        self.first = Attention(Additive(dim, dim, hidden), role="cross")

    def forward(self, first: Level, second: Level) -> tuple[Tensor, Tensor]:
        """Equation 6, three times."""
        (q, lengths), (v, others) = first, second
        s = self.alone(torch.tanh(linear(self.start, q)), q, lengths)
        found = self.second(s[:, None], v, mask=Lengths(others)).context.to(v.dtype)
        again = self.first(found, q, mask=Lengths(lengths)).context.to(q.dtype)
        return again[:, 0], found[:, 0]


ATTENTIONS: Mapping[str, type[nn.Module]] = {
    "parallel": ParallelCoAttention,
    "alternating": AlternatingCoAttention,
}
"""How two sequences are read together."""


class Hierarchy(nn.Module):
    """A text at three levels: words, phrases, the whole.

    Args:
        dim: d, of a word vector and of every level.

    Shapes:
        words (B, T, d) and lengths (B,) to three times (B, T, d)
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.grams = nn.Linear(dim, sum(GRAMS) * dim, bias=False)
        self.bias = nn.Parameter(torch.empty(len(GRAMS), dim))
        for row, n in zip(self.bias.detach(), GRAMS, strict=True):
            nn.init.uniform_(row, -((n * dim) ** -0.5), (n * dim) ** -0.5)
        self.lstm = LSTM(dim, dim, bias=True)

    def forward(
        self, words: Float[Tensor, "batch time dim"], lengths: Int[Tensor, " batch"]
    ) -> list[Float[Tensor, "batch time dim"]]:
        """Read the words; they are zero at padding."""
        size = words.shape[1]
        parts = linear(self.grams, words).unflatten(-1, (sum(GRAMS), -1)).unbind(2)
        responses, place = [], 0
        for n, bias in zip(GRAMS, self.bias.to(words.dtype), strict=True):
            shifted = [F.pad(parts[place + k][:, k:], (0, 0, 0, min(k, size))) for k in range(n)]
            responses.append(sum(shifted[1:], shifted[0]) + bias)
            place += n
        phrases = torch.tanh(torch.stack(responses).amax(0))
        return [words, phrases, self.lstm(phrases, lengths)[0]]


class CoAttention(nn.Module):
    """A classifier of a question with a second text or an image, attended together.

    `levels.<n>` are the co-attentions of words, phrases and the whole for who watches.

    Args:
        vocab_size: size of the vocabulary.
        num_classes: of the output; answers.
        num_features: numbers that come with each pair, joined to what the last layer reads.
        embed: d, size of a word vector, of every level and of the answer's layers.
        hidden: k, units of H.
        attention: "parallel" or "alternating".
        regions: size of the vectors of an image's regions, if the second sequence is those:
            (B, N, regions); 0 for a text.
        dropout: on word vectors, regions and what the answer's layers read.
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        num_features: int = 0,
        *,
        embed: int = 512,
        hidden: int = 512,
        attention: str = "parallel",
        regions: int = 0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if attention not in ATTENTIONS:
            raise RequestError(
                f"CoAttention has no attention {attention!r}: {nearest(attention, ATTENTIONS)}"
            )
        self.vocab_size, self.num_classes, self.num_features = vocab_size, num_classes, num_features
        self.dropout = dropout
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.regions = nn.Linear(regions, embed) if regions else None
        self.hierarchy = Hierarchy(embed)
        self.levels = nn.ModuleList(ATTENTIONS[attention](embed, hidden) for _ in LEVELS)
        self.answer = nn.ModuleList(nn.Linear((1 + (n > 0)) * embed, embed) for n in range(3))
        self.output = nn.Linear(embed + num_features, num_classes)

    def forward(
        self,
        first: Tensor | Inputs,
        second: Tensor | Inputs,
        lengths: Tensor | None = None,
        second_lengths: Tensor | None = None,
    ) -> Output:
        """Logits (B, num_classes) of texts (B, T) with texts (B, U), or with regions (B, N, D)."""
        q, here = self._text(first, lengths)
        read = self._text if self.regions is None else self._image
        v, there = read(second, second_lengths)
        known: list[Tensor] = []
        for level, layer, one, other in zip(self.levels, self.answer, q, v, strict=True):
            a, b = level((one, here), (other, there))
            joined = torch.cat([a + b, *known], -1)
            known = [torch.tanh(layer(dropout(joined, self.dropout, self.training)))]
        h = dropout(known[0], self.dropout, self.training)
        return Output(self.output(torch.cat([h, *features_of(first, self.num_features, h)], -1)))

    def _text(
        self, source: Tensor | Inputs, lengths: Tensor | None
    ) -> tuple[list[Tensor], Int[Tensor, " batch"]]:
        """A text at each level, and how many words it has."""
        ids, lengths = words_of(source, lengths)
        x = dropout(self.embed(ids, states_of(source, ids)), self.dropout, self.training)
        return self.hierarchy(x * real(lengths, x)[..., None], lengths), lengths

    def _image(
        self, source: Tensor | Inputs, lengths: Tensor | None
    ) -> tuple[list[Tensor], Int[Tensor, " batch"]]:
        """Regions, the same at each level, and how many there are."""
        values, lengths = unpacked(source, lengths)
        assert self.regions is not None
        if not values.is_floating_point() or values.shape[2:] != (self.regions.in_features,):
            raise RequestError(
                f"CoAttention expected regions (batch, n, {self.regions.in_features}), "
                f"got {values.dtype} of shape {tuple(values.shape)}"
            )
        if lengths is None:
            lengths = torch.full(values.shape[:1], values.shape[1], device=values.device)
        v = torch.tanh(linear(self.regions, values.to(self.regions.weight.dtype)))
        return [dropout(v, self.dropout, self.training)] * len(LEVELS), lengths
