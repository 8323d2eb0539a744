r"""GNMT: deep residual LSTMs, the attention of the first decoder layer handed to all.

Wu et al., "Google's Neural Machine Translation System: Bridging the Gap between Human and Machine
Translation", 2016, arXiv 1609.08144.

    x_j^1 = [→LSTM(e) ; ←LSTM(e)]_j                             3.2, both ways in the first layer
    x^i   = LSTM_i(x^{i-1}) + x^{i-1},   i >= 3                 3.1, residual; layer 2 has none
    a_t   = Σ_j softmax_j(v^T tanh(W y_{t-1}^1 + U x_j)) x_j    eq. 4, y^1: the first decoder layer
    y_t^1 = LSTM_1([e(w_{t-1}) ; a_t])
    y_t^i = LSTM_i([y_t^{i-1} ; a_t])  (+ y_t^{i-1},  i >= 3)
    p(w_t) = softmax(W_s y_t^L)

Only the first decoder layer waits for the attention of each step; those above it run over all
target positions at once. The score of section 7, with length and coverage penalties, is the
decoder's: `decode: {penalty: gnmt, length_penalty: 0.2, coverage_penalty: 0.2}`.

Shapes: source (B, S) and target (B, T) ids; annotations (B, S, H); logits (B, T, V).

**Departs from the paper**: decoders start from zero states (the paper does not say). Which layers
have no residual is from the authors' later code, whose attention asks with the *new* output of the
first layer (`gnmt_v2`); here, as printed, with the one before. Biases are PyTorch's, two vectors a
gate. Dropout is on the input of every layer. No quantization, no reinforcement learning (but see
`task.risk`). The padding's vector is zero.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Additive, Attention, Lengths, Memory
from regard.catalog.parts import Chosen, chosen
from regard.layers.bilstm import BiLSTM
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.lstm import LSTM
from regard.protocols import Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["GNMT"]

RESIDUAL = 3
"""The first layer, counted from 1, whose input is added to its output."""


class GNMT(nn.Module):
    """Stacked residual LSTMs with additive attention from the first decoder layer.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: size of a word vector.
        hidden: H, cells of a layer (and of each direction of the first encoder layer).
        layers: of the encoder, the one that reads both ways among them; 2 or more.
        decoder_layers: of the decoder; as many where not given.
        align: size of the alignment perceptron.
        dropout: on the input of every layer; the paper has 0.2 for French, 0.3 for German.
        scale: all parameters start between -scale and scale.
        attention: parts in the place of the paper's, as `{score: general, select: sparsemax}`; see
            `catalog.parts`.
    """

    normalized = False

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 1024,
        hidden: int = 1024,
        layers: int = 8,
        decoder_layers: int | None = None,
        align: int = 1024,
        dropout: float = 0.2,
        scale: float = 0.04,
        attention: Chosen | None = None,
    ) -> None:
        super().__init__()
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.embed, self.dropout = embed, dropout
        self.embed_source = Embed(source_vocab_size, embed, dropout=dropout)
        self.embed_target = Embed(target_vocab_size, embed, dropout=dropout)
        self.both = BiLSTM(embed, hidden, bias=True)
        self.encoder = nn.ModuleList(
            LSTM(hidden if i else 2 * hidden, hidden, bias=True) for i in range(layers - 1)
        )
        own = Attention(score=Additive(hidden, hidden, align), role="cross")
        self.attention = chosen(own, attention, query=hidden, key=hidden, hidden=align)
        self.first = LSTM(embed + hidden, hidden, bias=True)
        self.decoder = nn.ModuleList(
            LSTM(2 * hidden, hidden, bias=True)
            for _ in range((layers if decoder_layers is None else decoder_layers) - 1)
        )
        self.output = nn.Linear(hidden, target_vocab_size)
        for weight in self.parameters():
            nn.init.uniform_(weight, -scale, scale)
        self.embed_source.silence()
        self.embed_target.silence()

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Annotations of the top layer: (B, S, H)."""
        source, lengths = ids_of(source, lengths)
        x = self.both(self.embed_source(source), lengths)
        for number, layer in enumerate(self.encoder, start=2):
            states, _ = layer(self._drop(x), lengths)
            x = states + x if number >= RESIDUAL else states
        return Encoded(x, lengths)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: the first layer step by step, those above over all of T."""
        encoded = self.encode(source, lengths)
        memory = self._remember(encoded)
        words = self.embed_target.through(target_in, self._word).unbind(1)  # T times (B, 4H)
        reading = self._reading()
        h = c = encoded.states.new_zeros(len(source), self.first.hidden)
        seen, states = [], []
        for word in words:
            context = self._look(h[:, None], memory)[:, 0]  # (B, H)
            gates = word + F.linear(self._drop(context), reading)
            (h,), (c,) = self.first.step(gates, [h], [c])
            seen.append(context)
            states.append(h)
        x, contexts = torch.stack(states, 1), torch.stack(seen, 1)  # (B, T, H) each
        for number, layer in enumerate(self.decoder, start=2):
            above, _ = layer(self._drop(torch.cat([x, contexts], -1)))
            x = above + x if number >= RESIDUAL else above
        return Output(project(self.output, self._drop(x)), {})

    def start(self, encoded: Encoded) -> Decoding:
        """U x once per sentence; all states are zero."""
        layers = len(self.decoder) + 1
        zeros = encoded.states.new_zeros(len(encoded.states), 1, layers, self.first.hidden)
        return Decoding({"source": self._remember(encoded)}, {"h": zeros, "c": zeros})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); beams are the queries."""
        h, c = (list(decoding.carried[k].unbind(2)) for k in ("h", "c"))  # L times (B, beam, H)
        context = self._look(h[0], decoding.memories["source"]).flatten(0, 1)
        h, c = ([state.flatten(0, 1) for state in states] for states in (h, c))
        gates = self._word(self.embed_target(tokens).flatten(0, 1))
        gates = gates + F.linear(self._drop(context), self._reading())
        h[:1], c[:1] = self.first.step(gates, h[:1], c[:1])
        x = h[0]
        for number, layer in enumerate(self._above(), start=2):
            at = slice(number - 1, number)
            inputs = layer.project(self._drop(torch.cat([x, context], -1)))
            h[at], c[at] = layer.step(inputs, h[at], c[at])
            x = h[number - 1] + x if number >= RESIDUAL else h[number - 1]
        logits: Tensor = self.output(self._drop(x)).unflatten(0, tokens.shape)
        carried = {
            name: torch.stack(states, 1).unflatten(0, tokens.shape)
            for name, states in (("h", h), ("c", c))
        }
        return logits, decoding.advance(**carried)

    def _above(self) -> list[LSTM]:
        return [layer for layer in self.decoder if isinstance(layer, LSTM)]

    def _remember(self, encoded: Encoded) -> Memory:
        return self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))

    def _look(self, states: Tensor, memory: Memory) -> Tensor:
        """Look for any number of steps or hypotheses: (B, Q, H)."""
        context: Tensor = self.attention(states, memory).context
        return context.to(states.dtype)

    def _word(self, vectors: Tensor) -> Tensor:
        """The first decoder layer's product with word vectors: (*, E) to (*, 4H)."""
        return self.first.project(vectors, slice(self.embed))

    def _reading(self) -> Tensor:
        """The columns of the first decoder layer that meet what attention read: (4H, H)."""
        return self.first.stack.get_parameter("weight_ih_l0")[:, self.embed :]

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)
