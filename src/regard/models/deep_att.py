r"""Deep-Att: LSTMs joined by fast-forward connections, in two interleaved columns.

Zhou, Cao, Wang, Li and Xu, "Deep Recurrent Models with Fast-Forward Connections for Neural Machine
Translation", TACL 2016, arXiv 1606.04199.

    f_t^k = W_f^k [Half(f_t^{k-1}) ; h_t^{k-1}],   f_t^1 = W_f^1 e(x_t)     the "f" block, linear
    h_t^k = LSTM(f_t^k + U^k h_{t-1}^k)                                     the "r" block
    e_j   = W_e [h^a ; h^b ; f^a ; f^b]_j       both columns' tops, to a quarter of the size
    a_t   = Σ_j softmax_j(v^T tanh(W h_{t-1}^1 + U e_j)) e_j                h^1: first decoder layer
    f_t^1 = W_f^1 [e(y_{t-1}) ; a_t],   p(y_t) = softmax(W_o [Half(f_t^L) ; h_t^L])

f has the four gates' pre-activations (4H) and goes on without any non-linearity or recurrence;
Half takes its first half. Column a reads ahead in odd layers and back in even ones, column b the
other way round ("interleaved bi-directional").

Shapes: source (B, S) and target (B, T) ids; f (B, T, 4H), h (B, T, H); states (B, S, C) with
C = 10 H / 4; logits (B, T, V).

**Departs from the paper**: what it does not say in what we could read is chosen: the order of the
gates (i, f, g, o), no peepholes, zero states to start with, the size of the perceptron, what the
output sees. Dropout is on the input of every f block. The padding's vector is zero.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Additive, Attention, Lengths, Memory
from regard.catalog.parts import Chosen, chosen
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.lstm import lstm_cell
from regard.layers.reading import padded_order, read_by, reads
from regard.layers.reverse import reverse
from regard.native.operation import operation
from regard.native.reading import RecurrentWeights
from regard.protocols import Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["DeepAtt"]


class DeepAtt(nn.Module):
    """A deep encoder in two columns and a deep decoder, with additive attention between.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: size of a word vector.
        hidden: H, cells of a layer.
        layers: of each column of the encoder.
        decoder_layers: of the decoder.
        align: size of the alignment perceptron.
        dropout: on the input of every f block.
        attention: parts in the place of the paper's, as `{score: general, select: sparsemax}`; see
            `catalog.parts`.
    """

    normalized = False

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 256,
        hidden: int = 512,
        layers: int = 9,
        decoder_layers: int = 7,
        align: int = 512,
        dropout: float = 0.1,
        attention: Chosen | None = None,
    ) -> None:
        super().__init__()
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.dropout = dropout
        context = 10 * hidden // 4
        self.embed_source = Embed(source_vocab_size, embed)
        self.embed_target = Embed(target_vocab_size, embed)
        self.columns = nn.ModuleList(
            nn.ModuleList(Layer(3 * hidden if k else embed, hidden) for k in range(layers))
            for _ in range(2)
        )
        self.summary = nn.Linear(10 * hidden, context, bias=False)  # W_e
        own = Attention(score=Additive(hidden, context, align), role="cross")
        self.attention = chosen(own, attention, query=hidden, key=context, hidden=align)
        self.word = nn.Linear(embed, 4 * hidden)  # W_f^1, in two parts
        self.context = nn.Linear(context, 4 * hidden, bias=False)
        self.first = nn.Parameter(torch.empty(4 * hidden, hidden))  # U^1
        nn.init.orthogonal_(self.first)
        self.above = nn.ModuleList(Layer(3 * hidden, hidden) for _ in range(decoder_layers - 1))
        self.output = nn.Linear(3 * hidden, target_vocab_size)

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Both columns, then e: (B, S, 10 H / 4)."""
        source, lengths = ids_of(source, lengths)
        words = self._drop(self.embed_source(source))
        tops: list[Tensor] = []
        for back_first, column in enumerate(self.columns):
            x = words
            assert isinstance(column, nn.ModuleList)
            for k, layer in enumerate(column):
                turned = (k + back_first) % 2 == 1
                f, h = layer(x, lengths if turned else None)
                x = self._drop(torch.cat([half(f), h], -1))
            tops += [h, f]
        states = self.summary(torch.cat([tops[0], tops[2], tops[1], tops[3]], -1))
        return Encoded(states, lengths)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: the first decoder layer step by step, those above one after another."""
        memory = self._remember(self.encode(source, lengths))
        words = self.word(self._drop(self.embed_target(target_in)))  # (B, T, 4H)
        h = c = words.new_zeros(len(source), self.first.shape[1])
        fs, hs = [], []
        for word in words.unbind(1):
            f, h, c = self._first(word, h, c, memory)
            fs.append(f)
            hs.append(h)
        f, h = torch.stack(fs, 1), torch.stack(hs, 1)
        for layer in self.above:
            f, h = layer(self._drop(torch.cat([half(f), h], -1)))
        return Output(self._logits(f, h), {})

    def start(self, encoded: Encoded) -> Decoding:
        """U e once per sentence; all states are zero."""
        size = (len(encoded.states), 1, len(self.above) + 1, self.first.shape[1])
        zeros = encoded.states.new_zeros(size)
        return Decoding({"source": self._remember(encoded)}, {"h": zeros, "c": zeros})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); beams are the queries."""
        h, c = (list(decoding.carried[k].unbind(2)) for k in ("h", "c"))  # L times (B, beam, H)
        word = self.word(self._drop(self.embed_target(tokens)))
        f = word + self._read(h[0], decoding.memories["source"])
        h[0], c[0] = cell(f, self.first, h[0], c[0])
        for k, layer in enumerate(self.above, start=1):
            assert isinstance(layer, Layer)
            f = layer.forward_part(self._drop(torch.cat([half(f), h[k - 1]], -1)))
            h[k], c[k] = cell(f, layer.recurrent, h[k], c[k])
        carried = {"h": torch.stack(h, 2), "c": torch.stack(c, 2)}
        return self._logits(f, h[-1]), decoding.advance(**carried)

    def _first(
        self, word: Tensor, h: Tensor, c: Tensor, memory: Memory
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The first decoder layer's f, h and c: word (B, 4H), states (B, H)."""
        f = word + self._read(h[:, None], memory)[:, 0]
        return f, *cell(f, self.first, h, c)

    def _read(self, states: Tensor, memory: Memory) -> Tensor:
        """What attention adds to f of any number of steps or hypotheses: (B, Q, 4H)."""
        found = self.attention(states, memory).context.to(states.dtype)
        read: Tensor = self.context(self._drop(found))
        return read

    def _remember(self, encoded: Encoded) -> Memory:
        return self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))

    def _logits(self, f: Tensor, h: Tensor) -> Any:
        return project(self.output, self._drop(torch.cat([half(f), h], -1)))

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class Layer(nn.Module):
    """An f block and an r block.

    Shapes:
        x (B, T, inputs) to f (B, T, 4H) and h (B, T, H)
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.forward_part = nn.Linear(inputs, 4 * hidden)  # W_f
        self.recurrent = nn.Parameter(torch.empty(4 * hidden, hidden))  # U
        nn.init.orthogonal_(self.recurrent)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read ahead, or back from the end of each row where lengths are given."""
        f = self.forward_part(x)
        inputs = f if lengths is None else reverse(f, lengths)
        if reads(inputs, [(self, Layer)]) and (order := padded_order(inputs, None, [False])):
            weights = [RecurrentWeights(None, self.recurrent)]
            read = read_by(self, "states", weights, inputs.flatten(0, 1), order, lstm=True)
            out = read.states.view(*inputs.shape[:2], -1)
        else:
            out = states_of(inputs, self.recurrent)
        return f, out if lengths is None else reverse(out, lengths)


@operation("lstm_states")
def states_of(inputs: Tensor, recurrent: Tensor) -> Tensor:
    """The states of an r block over all steps: (B, T, 4H) to (B, T, H)."""
    h = c = inputs.new_zeros(len(inputs), recurrent.shape[1])
    states = []
    for now in inputs.unbind(1):
        h, c = cell(now, recurrent, h, c)
        states.append(h)
    return torch.stack(states, 1)


def half(f: Tensor) -> Tensor:
    """The first half of an f block's output."""
    return f[..., : f.shape[-1] // 2]


def cell(f: Tensor, recurrent: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """One step of an r block for any number of states (*, H)."""
    gates = f + F.linear(h, recurrent)
    new = lstm_cell(gates.flatten(0, -2), c.flatten(0, -2))
    return new[0].view(h.shape), new[1].view(h.shape)
