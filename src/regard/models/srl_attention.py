r"""DeepAtt: semantic roles tagged by ten layers of self-attention.

Tan, Wang, Xie, Chen and Shi, "Deep Semantic Role Labeling with Self-Attention", AAAI 2018,
arXiv 1712.01586.

    x_t  = √d [e(w_t); m(1[t = p])] + b + timing(t)           p: the predicate asked about
    x    = LN(x + Dropout(F(x))),   x = LN(x + Dropout(MultiHead(x, x, x)))      each of N layers
    y_t  = softmax(W_o x_t + b_o)                             each word by itself

F, the non-linear sub-layer, comes before attention:

    "ffn":  F(x)   = W_2 max(0, W_1 x + b_1) + b_2
    "rnn":  F(x)_t = →h_t + ←h_t                              a bidirectional LSTM, summed
    "cnn":  F(x)_t = σ(g_t) ⊙ v_t,  [g_t; v_t] = Σ_k W_k x_{t+k} + b            width 3, GLU

    timing(t) = [sin(t r_0), …, sin(t r_{n-1}), cos(t r_0), …],  r_i = 10000^{-i/(n-1)},  n = d/2

Queries, keys, values and the output of MultiHead have biases. There is no output weight from tag to
tag: what tags know of each other comes from the top attention layer.

Shapes: source (B, T) ids, `extras["marks"]` (B, T); logits (B, T, num_tags); at padding they mean
nothing.

**Departs from the paper**: word vectors start at random (paper: GloVe). Each gate of the LSTM has
two bias vectors, as in PyTorch. √d, b and the form of the timing signal are those of the released
code. A model without marks (`marks=False`) tags sentences as such; there is none in the paper.
"""

import math
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention, MultiHead, WeightedSum
from regard.errors import RequestError, nearest
from regard.layers.bilstm import BiLSTM
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.feedforward import FeedForward
from regard.layers.layout import BatchLayout
from regard.layers.linear import linear
from regard.layers.norm import PostNorm
from regard.layers.positional_encoding import LearnedPositions, NoPositions, Sinusoid
from regard.models._tagging import WordBatch
from regard.protocols import Inputs, Output

__all__ = ["POSITIONS", "SUBLAYERS", "DeepAttTagger"]

POSITIONS: Mapping[str, Callable[[int], nn.Module]] = {
    "timing": lambda dim: Sinusoid(dim, layout="halves"),
    "learned": lambda dim: LearnedPositions(dim, 1000),
    "none": lambda dim: NoPositions(),
}
"""What is added to the words: the timing signal, a table of 1000 positions, or nothing."""


class GatedConvolution(nn.Module):
    """A convolution of width 3 with a gate for each output: x (B, T, d), or (N, d), to the same."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(dim, 2 * dim, 3, padding=1)
        nn.init.orthogonal_(self.convolution.weight.view(2 * dim, -1).data)
        nn.init.zeros_(self.convolution.bias)  # type: ignore[arg-type]

    def forward(
        self, x: Float[Tensor, "*words dim"], layout: BatchLayout
    ) -> Float[Tensor, "*words dim"]:
        """Read each word with both its neighbors; there is nothing beyond the sentence."""
        padded = layout.pad(x)
        places = torch.arange(padded.shape[1], device=x.device)
        real = places < layout.lengths.to(x.device)[:, None]
        both: Tensor = self.convolution((padded * real[..., None]).mT).mT
        gate, value = layout.unpad(both).chunk(2, -1)
        return torch.sigmoid(gate) * value


class SummedLSTM(nn.Module):
    """A bidirectional LSTM whose directions are summed: x (B, T, d), or (N, d), to the same."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.lstm = BiLSTM(dim, dim, bias=True)
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                for block in parameter.data.chunk(4):
                    nn.init.orthogonal_(block)

    def forward(
        self, x: Float[Tensor, "*words dim"], layout: BatchLayout
    ) -> Float[Tensor, "*words dim"]:
        """Read in both directions."""
        ahead, back = self.lstm(layout.pad(x), layout.lengths).chunk(2, -1)
        return layout.unpad(ahead + back)


class PositionwisePerceptron(nn.Module):
    """The feed-forward layer of a Transformer: x (B, T, d), or (N, d), to the same."""

    def __init__(self, dim: int, ffn_dim: int, activation_dropout: float) -> None:
        super().__init__()
        self.feedforward = FeedForward(dim, ffn_dim, activation_dropout)
        for layer in (self.feedforward.into, self.feedforward.out):
            nn.init.orthogonal_(layer.weight)

    def forward(
        self, x: Float[Tensor, "*words dim"], layout: BatchLayout
    ) -> Float[Tensor, "*words dim"]:
        """Each word by itself."""
        out: Tensor = self.feedforward(x)
        return out


SUBLAYERS: Mapping[str, Callable[[int, int, float], nn.Module]] = {
    "ffn": PositionwisePerceptron,
    "rnn": lambda dim, ffn_dim, activation_dropout: SummedLSTM(dim),
    "cnn": lambda dim, ffn_dim, activation_dropout: GatedConvolution(dim),
}
"""F by its name, from d, the hidden units of "ffn" and the dropout of its ReLU."""


class AttentiveLayer(nn.Module):
    """The non-linear sub-layer, then self-attention; each is added, then normalized."""

    def __init__(self, nonlinear: nn.Module, attention: MultiHead, dropout: float) -> None:
        super().__init__()
        dim = attention.out.out_features
        self.nonlinear, self.attention = nonlinear, attention
        self.nonlinear_residual = PostNorm(dim, dropout)
        self.attention_residual = PostNorm(dim, dropout)

    def forward(
        self, x: Float[Tensor, "*words dim"], layout: BatchLayout
    ) -> Float[Tensor, "*words dim"]:
        """States of one layer to the next: (B, T, d), or without padding (N, d)."""

        def look(y: Tensor) -> Tensor:
            context: Tensor = self.attention(layout(y), layout(y), mask=layout.mask).context
            return context

        x = self.nonlinear_residual(x, lambda y: self.nonlinear(y, layout))
        out: Tensor = self.attention_residual(x, look)
        return out


class DeepAttTagger(nn.Module):
    """A tagger of layers that each transform and attend.

    Args:
        vocab_size: size of the vocabulary.
        num_tags: of the output.
        embed: size of a word vector.
        marks: whether a predicate is marked; without, d is `embed`.
        mark: size of a mark's vector; d is `embed + mark`.
        layers: N.
        heads: of attention; d is a multiple of it.
        sublayer: F: one of `SUBLAYERS`.
        ffn_dim: hidden units of "ffn".
        positions: one of `POSITIONS`.
        dropout: on the input and on the output of every sub-layer.
        attention_dropout: on the weights of attention.
        activation_dropout: on the hidden units of "ffn".

    Raises:
        RequestError: no such sub-layer or positions, or `heads` that do not divide d.

    Example:
        >>> model = DeepAttTagger(50, 5, embed=8, mark=8, layers=2, heads=2, ffn_dim=12)
        >>> marks = torch.tensor([[0, 1, 0]])
        >>> model(Inputs(torch.tensor([[7, 8, 9]]), extras={"marks": marks})).logits.shape
        torch.Size([1, 3, 5])
    """

    normalized = False

    def __init__(
        self,
        vocab_size: int,
        num_tags: int,
        *,
        embed: int = 100,
        marks: bool = True,
        mark: int = 100,
        layers: int = 10,
        heads: int = 8,
        sublayer: str = "ffn",
        ffn_dim: int = 800,
        positions: str = "timing",
        dropout: float = 0.2,
        attention_dropout: float = 0.1,
        activation_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        for name, given, known in (
            ("sub-layer", sublayer, SUBLAYERS),
            ("positions", positions, POSITIONS),
        ):
            if given not in known:
                raise RequestError(
                    f"DeepAttTagger has no {name} {given!r}: {nearest(given, known)}"
                )
        self.vocab_size, self.num_tags, self.dropout = vocab_size, num_tags, dropout
        self.dim = embed + mark if marks else embed
        self.embed = Embed(vocab_size, embed, contextual=True)
        self.mark = nn.Embedding(2, mark) if marks else None
        self.bias = nn.Parameter(torch.zeros(self.dim))
        self.position = POSITIONS[positions](self.dim)

        def look() -> MultiHead:
            read = WeightedSum(dropout=attention_dropout)
            own = MultiHead(self.dim, heads, Attention(read=read, role="self"), bias=True)
            for projection in (own.query, own.key, own.value, own.out):
                nn.init.orthogonal_(projection.weight)
            return own

        self.layers = nn.ModuleList(
            AttentiveLayer(
                SUBLAYERS[sublayer](self.dim, ffn_dim, activation_dropout), look(), dropout
            )
            for _ in range(layers)
        )
        self.output = nn.Linear(self.dim, num_tags)
        nn.init.normal_(self.output.weight, std=self.dim**-0.5)
        nn.init.zeros_(self.output.bias)
        if self.mark is not None:
            nn.init.normal_(self.mark.weight, std=embed**-0.5)

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Read sentences with their marks: logits (B, T, num_tags)."""
        batch = WordBatch.of(source, lengths)
        x = self.embed(batch.ids, batch.states)
        if self.mark is not None:
            x = torch.cat([x, self.mark(batch.marks) * batch.real[..., None]], -1)
        x = self.position(x * math.sqrt(self.dim) + self.bias)
        layout = BatchLayout(batch.lengths, x.shape[1], self._without_padding(batch))
        x = dropout(layout.unpad(x), self.dropout, self.training)
        for layer in self.layers:
            x = layer(x, layout)
        return Output(batch.cut(layout.pad(linear(self.output, x))), {})

    def _without_padding(self, batch: WordBatch) -> bool:
        """Whether attention can do without."""
        time = batch.ids.shape[1]
        heads = (layer.attention for layer in self.layers)
        return bool(batch.lengths.any()) and all(
            one.ragged_is_faster(time)  # type: ignore[operator,union-attr]
            for one in heads
        )
