r"""The encoder of BERT (Devlin et al. 2018, arXiv 1810.04805) and of what was built like it.

    e_i = LN(W_{x_i} + P_i + T_0)
    a   = LN(x + W_o attend(W_q x, W_k x, W_v x))
    x'  = LN(a + W_2 f(W_1 a))

No padding is computed: all pieces of a batch stand in one tensor, and attention is `attend_ragged`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Ragged, attend_ragged
from regard.layers.linear import linear

__all__ = ["ACTIVATIONS", "LAYER", "Shape", "Stack"]

LAYER = "pretrained."
"""What watchers know its attentions by, before the number of the layer, from 1."""


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
}
"""f, as `config.json` names it."""


@dataclass(frozen=True)
class Shape:
    """The sizes of an encoder.

    Args:
        vocabulary: pieces that it knows.
        dim: of a state.
        layers, heads, ffn: of the stack.
        positions: rows of P.
        first: the row of P of the first piece; RoBERTa's are behind its padding.
        embed: the size of W, P and T, brought to `dim` by a linear layer where it is another.
        epsilon: of the norms.
        activation: one of `ACTIVATIONS`.
    """

    vocabulary: int
    dim: int
    layers: int
    heads: int
    ffn: int
    positions: int
    first: int
    embed: int
    epsilon: float
    activation: str

    @property
    def longest(self) -> int:
        """The most pieces, the special ones among them, that are read at once."""
        return self.positions - self.first


class _Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.activation = shape.heads, ACTIVATIONS[shape.activation]
        self.read = nn.Linear(shape.dim, 3 * shape.dim)  # W_q, W_k and W_v
        self.out = nn.Linear(shape.dim, shape.dim)
        self.attended = nn.LayerNorm(shape.dim, shape.epsilon)
        self.wide = nn.Linear(shape.dim, shape.ffn)
        self.narrow = nn.Linear(shape.ffn, shape.dim)
        self.done = nn.LayerNorm(shape.dim, shape.epsilon)

    def forward(self, x: Tensor, offsets: Tensor, name: str) -> Tensor:
        parts = linear(self.read, x).view(len(x), 3, self.heads, -1).unbind(1)
        query, key, value = (Ragged(part, offsets) for part in parts)
        context = attend_ragged(query, key, value, name=name).tensor.flatten(1)
        x = self.attended(x + linear(self.out, context))
        inner = self.activation(linear(self.wide, x))
        found: Tensor = self.done(x + linear(self.narrow, inner))
        return found


class Stack(nn.Module):
    """Word pieces to states.

    Args:
        shape: its sizes.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.pieces = nn.Embedding(shape.vocabulary, shape.embed)
        self.places = nn.Embedding(shape.positions, shape.embed)
        self.kind = nn.Parameter(torch.zeros(shape.embed))  # T_0: there is one text
        self.norm = nn.LayerNorm(shape.embed, shape.epsilon)
        self.widen = nn.Linear(shape.embed, shape.dim) if shape.embed != shape.dim else None
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.layers))

    def forward(
        self, ids: Int[Tensor, " n"], lengths: Int[Tensor, " texts"], wanted: Sequence[int]
    ) -> Float[Tensor, "n wanted dim"]:
        """The states of some layers.

        Args:
            ids: the pieces of all texts, one text after another.
            lengths: how many each text has, at most `shape.longest`.
            wanted: numbers of layers; 0: the vectors that the first layer reads.
        """
        states = self.each(self.first(ids, lengths), lengths, max(wanted))
        return torch.stack([states[number] for number in wanted], 1)

    def first(
        self, ids: Int[Tensor, " n"], lengths: Int[Tensor, " texts"]
    ) -> Float[Tensor, "n dim"]:
        """The vectors that the first layer reads."""
        offsets = F.pad(lengths.cumsum(0), (1, 0))
        inside = torch.arange(len(ids), device=ids.device)
        inside = inside - offsets[:-1].repeat_interleave(lengths)
        x = self.norm(self.pieces(ids) + self.places(inside + self.shape.first) + self.kind)
        found: Tensor = x if self.widen is None else self.widen(x)
        return found

    def each(
        self, x: Float[Tensor, "n dim"], lengths: Int[Tensor, " texts"], last: int
    ) -> list[Float[Tensor, "n dim"]]:
        """The states of all layers from 0, which is x, to the last one that is wanted."""
        offsets, states = F.pad(lengths.cumsum(0), (1, 0)), [x]
        for number, layer in enumerate(self.layers[:last], 1):
            states.append(layer(states[-1], offsets, f"{LAYER}{number}"))
        return states
