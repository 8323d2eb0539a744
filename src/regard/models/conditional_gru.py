r"""The conditional GRU: two gated steps a word, attention between them (dl4mt, Nematus).

Firat and Cho, "Conditional Gated Recurrent Unit with Attention Mechanism", 2016, a note with the
code of the dl4mt tutorial; Sennrich et al., "Nematus: a Toolkit for Neural Machine Translation",
EACL 2017, arXiv 1703.04357, section 2.

    h_j  = [→h_j ; ←h_j]                                      a GRU from each end
    s_0  = tanh(W_s 1/S Σ_j h_j)
    s'_i = GRU_1(E y_{i-1}, s_{i-1})
    e_ij = v^T tanh(W_a s'_i + U_a h_j + b_a)                 with the state *after* the first step
    c_i  = Σ_j softmax_j(e_ij) h_j
    s_i  = GRU_2(c_i, s'_i)
    t_i  = tanh(U_o s_i + V_o E y_{i-1} + C_o c_i)            no maxout; the *new* state
    p(y_i) ∝ exp(W_o t_i)

    GRU: r, z = σ(W_{rz} x + b_{rz} + U_{rz} s),  n = tanh(W x + r (U s) [+ b]),  s' = z s + (1-z) n

It is not the model of Bahdanau et al. (2015, `rnnsearch`): there attention asks with s_{i-1}, one
GRU reads word and context together, the reset gate stands inside the product, and the readout is a
maxout of s_{i-1}. In GRU_2 the bias of n is added to U s, within the reset gate's reach; in the
others behind it.

Shapes: source (B, S) and target (B, T) ids; embeddings m, states n (H), alignment n';
annotations (B, S, 2H); logits (B, T, V).

**Departs from the paper**, which here is the code of dl4mt: the first target word is an explicit
start symbol, whose vector is zero as there. One number added to all scores is left out: it changes
no weight. Dropout is on word vectors and annotations as well as on t.
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Additive, Attention, Lengths, Memory
from regard.catalog.parts import Chosen, chosen
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.rnn import BiGRU, Gated, orthogonal
from regard.protocols import BOS, PAD, Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["ConditionalGRU"]


class ConditionalGRU(nn.Module):
    """An additive attention between the two halves of a decoder's step.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: m, size of a word vector, and of t.
        hidden: n, size of a state.
        align: n', size of the alignment perceptron; None: 2 n, as in the code.
        dropout: on word vectors, annotations and t.
        scale: standard deviation of the matrices at the start; square ones are orthogonal, as in
            the code, and biases zero. None is Glorot's start, for small models.
        attention: parts in the place of the paper's, as `{score: general, select: sparsemax}`; see
            `catalog.parts`.
    """

    normalized = False

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 512,
        hidden: int = 1024,
        align: int | None = None,
        dropout: float = 0.0,
        scale: float | None = 0.01,
        attention: Chosen | None = None,
    ) -> None:
        super().__init__()
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.dropout, self.scale = dropout, scale
        self.embed_source = Embed(source_vocab_size, embed, dropout=dropout)
        self.embed_target = Embed(target_vocab_size, embed, zeros=(PAD, BOS), dropout=dropout)
        self.encoder = BiGRU(embed, hidden, reset="after")
        self.initial = nn.Linear(2 * hidden, hidden)  # W_s
        self.word = nn.Linear(embed, 3 * hidden)  # GRU_1
        self.first = Gated(hidden, reset="after")
        align = 2 * hidden if align is None else align
        own = Attention(Additive(hidden, 2 * hidden, align, bias=True), role="cross")
        self.attention = chosen(
            own, attention, query=hidden, key=2 * hidden, hidden=align
        )  # W_a, U_a, b_a, v
        self.context = nn.Linear(2 * hidden, 3 * hidden, bias=False)  # GRU_2
        self.second = Gated(hidden, reset="after")
        self.bias = nn.Parameter(torch.zeros(3 * hidden))  # of GRU_2: r, z, and n with U s
        self.readout = nn.Linear(hidden + embed + 2 * hidden, embed)  # U_o, V_o, C_o
        self.output = nn.Linear(embed, target_vocab_size)  # W_o
        self._initialize()

    def _initialize(self) -> None:
        """The code's: N(0, scale²), square matrices orthogonal, biases zero."""
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.Linear | Embed):
                if self.scale is None:
                    nn.init.xavier_uniform_(module.weight)
                elif module.weight.shape[0] == module.weight.shape[1]:
                    orthogonal(module.weight)
                else:
                    nn.init.normal_(module.weight, std=self.scale)
            if isinstance(module, Embed):
                module.silence()
        if self.scale is not None and isinstance(self.attention.score, Additive):
            nn.init.normal_(self.attention.score.v, std=self.scale)

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Annotations (B, S, 2H); final is their mean (B, 2H)."""
        source, lengths = ids_of(source, lengths)
        states, _, _ = self.encoder.words(self.embed_source, source, lengths)
        mean = states.sum(1) / lengths.clamp_min(1)[:, None]  # padding's states are zero
        return Encoded(dropout(states, self.dropout, self.training), lengths, mean)

    def start(self, encoded: Encoded) -> Decoding:
        """U_a h + b_a once per sentence, and s_0."""
        return Decoding({"source": self._remember(encoded)}, {"state": self._initial(encoded)})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); beams are the queries."""
        word = self.embed_target(tokens)
        state = decoding.carried["state"]
        context, state = self._step(self.word(word), state, decoding.memories["source"])
        return self._logits(state, word, context), decoding.advance(state=state)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: only attention and the two recurrences are done word by word."""
        encoded = self.encode(source, lengths)
        memory, state = self._remember(encoded), self._initial(encoded)  # (B, 1, H)
        words = self.embed_target(target_in)  # (B, T, m)
        inputs = self.embed_target.through(target_in, self.word, words)  # (B, T, 3H)
        states, contexts = [], []
        for word in inputs.split(1, 1):
            context, state = self._step(word, state, memory)
            contexts.append(context)
            states.append(state)
        return Output(self._logits(torch.cat(states, 1), words, torch.cat(contexts, 1)), {})

    def _step(self, word: Tensor, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Both halves: word (B, Q, 3H), state (B, Q, H) to c (B, Q, 2H) and the next state."""
        between = self.first(word, state)  # s'
        context = self.attention(between, memory).context
        gates, inside = self.bias.split([2 * self.second.hidden, self.second.hidden])
        read = self.context(context.to(word.dtype))
        read = read + torch.cat([gates, torch.zeros_like(inside)]).to(read.dtype)
        return context, self.second(read, between, inside.expand_as(between))

    def _remember(self, encoded: Encoded) -> Memory:
        return self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))

    def _initial(self, encoded: Encoded) -> Tensor:
        return torch.tanh(self.initial(encoded.final))[:, None]

    def _logits(self, state: Tensor, word: Tensor, context: Tensor) -> Any:
        """The output for any number of steps at once."""
        parts = [state.to(word.dtype), word, context.to(word.dtype)]
        t = torch.tanh(self.readout(torch.cat(parts, -1)))
        return project(self.output, dropout(t, self.dropout, self.training))
