r"""RNNsearch, additive attention over a bidirectional encoder.

Bahdanau, Cho and Bengio, "Neural Machine Translation by Jointly Learning to Align and Translate",
ICLR 2015, arXiv 1409.0473.

    h_j  = [→h_j ; ←h_j]                                      3.2, a GRU from each end
    s_0  = tanh(W_s ←h_1)                                     A.2.2
    e_ij = v^T tanh(W_a s_{i-1} + U_a h_j)                    A.1.2
    c_i  = Σ_j softmax_j(e_ij) h_j                            (5), (6)
    s_i  = (1 - z_i) s_{i-1} + z_i tanh(W E y_{i-1} + U (r_i s_{i-1}) + C c_i)        A.1.1
    t_i  = maxout(U_o s_{i-1} + V_o E y_{i-1} + C_o c_i)      A.2.2, pairs
    p(y_i) ∝ exp(y_i^T W_o t_i)

Attention *and* the readout use the state s_{i-1} from before the step; the state s_i is for the
next word only. RNNencdec, the paper's baseline, is the same with c_i ≡ →h_Tx, read from left to
right only.

Shapes: source (B, S) and target (B, T) ids; embeddings m, states n (H), alignment n', maxout l;
annotations (B, S, 2H); logits (B, T, V).

**Departs from the paper**: dropout (on word vectors, annotations and maxout units) can be asked
for; the paper has none. `reset="after"` puts the reset gate behind the product with U, as PyTorch
and dl4mt do: another function (dl4mt's whole model is `conditional_gru`). The first target word is
an explicit start symbol; the padding's vector is zero.
Our recipes train with Adam (the paper: Adadelta, batches of 80, gradients rescaled to norm 1).
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Additive, Attention, Lengths, Memory
from regard.catalog.parts import Chosen, chosen
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.maxout import Maxout
from regard.layers.rnn import GRU, BiGRU, Gated
from regard.protocols import Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["RNNencdec", "RNNsearch"]


class _GatedDecoder(nn.Module):
    """What both models share: a gated decoder that reads a context, and the deep output."""

    normalized = False

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int,
        hidden: int,
        maxout: int,
        context: int,
        reset: str,
        dropout: float,
        scale: float | None,
    ) -> None:
        super().__init__()
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.dropout, self.scale = dropout, scale
        self.embed_source = Embed(source_vocab_size, embed, dropout=dropout)
        self.embed_target = Embed(target_vocab_size, embed, dropout=dropout)
        self.initial = nn.Linear(hidden, hidden)  # W_s
        self.word = nn.Linear(embed, 3 * hidden)  # W_r, W_z, W
        self.context = nn.Linear(context, 3 * hidden, bias=False)  # C_r, C_z, C
        self.recurrent = Gated(hidden, reset=reset, update="take")  # U_r, U_z, U
        self.readout = Maxout(hidden + embed + context, maxout)  # U_o, V_o, C_o
        self.output = nn.Linear(maxout, target_vocab_size)  # W_o

    def _initialize(self) -> None:
        """Appendix B.1: biases 0, all matrices N(0, scale²) but the orthogonal recurrent ones."""
        for module in self.modules():
            if isinstance(module, nn.Linear | Embed):
                if self.scale is None:
                    nn.init.xavier_uniform_(module.weight)
                else:
                    nn.init.normal_(module.weight, std=self.scale)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, Embed):
                module.silence()

    def _logits(self, state: Tensor, word: Tensor, context: Tensor) -> Any:
        """The deep output for any number of steps at once."""
        t = self.readout(torch.cat([state, word, context.to(word.dtype)], -1))
        return project(self.output, dropout(t, self.dropout, self.training))


class RNNsearch(_GatedDecoder):
    """The encoder-decoder that searches: additive attention over a bidirectional GRU.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: m, size of a word vector.
        hidden: n, size of a state.
        align: n', size of the alignment perceptron.
        maxout: l, maxout units of the readout.
        reset: the reset gate "before" U as printed, or "after".
        dropout: on word vectors, annotations and maxout units; 0 in the paper.
        scale: standard deviation of the matrices at the start (not the recurrent ones). None is
            Glorot's start, attention included: for small models, which the paper's holds up long.
        attention: parts in the place of the paper's, as `{score: general, select: sparsemax}`; see
            `catalog.parts`.
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 620,
        hidden: int = 1000,
        align: int = 1000,
        maxout: int = 500,
        reset: str = "before",
        dropout: float = 0.0,
        scale: float | None = 0.01,
        attention: Chosen | None = None,
    ) -> None:
        super().__init__(
            source_vocab_size,
            target_vocab_size,
            embed=embed,
            hidden=hidden,
            maxout=maxout,
            context=2 * hidden,
            reset=reset,
            dropout=dropout,
            scale=scale,
        )
        self.encoder = BiGRU(embed, hidden, reset=reset, update="take")
        score = Additive(hidden, 2 * hidden, align)  # W_a, U_a, v_a
        own = Attention(score=score, role="cross")
        self.attention = chosen(own, attention, query=hidden, key=2 * hidden, hidden=align)
        self._initialize()
        if scale is not None and self.attention is own:
            for weight in (*score.query.parameters(), *score.key.parameters()):
                nn.init.normal_(weight, std=0.001)
            nn.init.zeros_(score.v)  # so attention starts exactly uniform

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Annotations (B, S, 2H); final is the backward state at the first word (B, H)."""
        source, lengths = ids_of(source, lengths)
        states, _, first = self.encoder.words(self.embed_source, source, lengths)
        return Encoded(dropout(states, self.dropout, self.training), lengths, first)

    def start(self, encoded: Encoded) -> Decoding:
        """U_a h once per sentence, and s_0."""
        return Decoding({"source": self._remember(encoded)}, {"state": self._initial(encoded)})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); beams are the queries."""
        word, state = self.embed_target(tokens), decoding.carried["state"]
        context = self.attention(state, decoding.memories["source"]).context
        logits = self._logits(state, word, context)
        state = self.recurrent(self.word(word) + self.context(context), state)
        return logits, decoding.advance(state=state)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: only attention and the recurrence are done word by word."""
        encoded = self.encode(source, lengths)
        memory, state = self._remember(encoded), self._initial(encoded)  # (B, 1, H)
        words = self.embed_target(target_in)  # (B, T, m)
        inputs = self.embed_target.through(target_in, self.word, words)  # (B, T, 3H)
        advance = self.recurrent.loop(self.context.weight, inputs.dtype)
        states, contexts = [state], []
        for i, word in enumerate(inputs.unbind(1)):
            context = self.attention(states[i], memory).context  # (B, 1, 2H)
            contexts.append(context)
            if i + 1 < inputs.shape[1]:
                state = advance(word, context.squeeze(1), states[i].squeeze(1))
                states.append(state.unsqueeze(1))
        return Output(self._logits(torch.cat(states, 1), words, torch.cat(contexts, 1)), {})

    def _remember(self, encoded: Encoded) -> Memory:
        return self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))

    def _initial(self, encoded: Encoded) -> Tensor:
        return torch.tanh(self.initial(encoded.final))[:, None]


class RNNencdec(_GatedDecoder):
    """The paper's baseline: the last state of a forward GRU as the context of every step.

    Args:
        source, target, embed, hidden, maxout, reset, dropout, scale: as in `RNNsearch`.
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 620,
        hidden: int = 1000,
        maxout: int = 500,
        reset: str = "before",
        dropout: float = 0.0,
        scale: float | None = 0.01,
    ) -> None:
        super().__init__(
            source_vocab_size,
            target_vocab_size,
            embed=embed,
            hidden=hidden,
            maxout=maxout,
            context=hidden,
            reset=reset,
            dropout=dropout,
            scale=scale,
        )
        self.encoder = GRU(embed, hidden, reset=reset, update="take")
        self._initialize()

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """States (B, S, H); final is the last one (B, H), the context c of every step."""
        source, lengths = ids_of(source, lengths)
        states, last = self.encoder.words(self.embed_source, source, lengths)
        return Encoded(states, lengths, last)

    def start(self, encoded: Encoded) -> Decoding:
        """s_0 = tanh(W_s c); the sentence is c alone."""
        state = torch.tanh(self.initial(encoded.final))[:, None]
        return Decoding({"summary": encoded.final}, {"state": state})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V)."""
        word, state = self.embed_target(tokens), decoding.carried["state"]
        context = decoding.memories["summary"][:, None].expand(-1, tokens.shape[1], -1)
        logits = self._logits(state, word, context)
        state = self.recurrent(self.word(word) + self.context(context), state)
        return logits, decoding.advance(state=state)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: one recurrence over the whole target."""
        encoded = self.encode(source, lengths)
        state = torch.tanh(self.initial(encoded.final))  # (B, H)
        words = self.embed_target(target_in)  # (B, T, m)
        context = encoded.final[:, None]  # (B, 1, H)
        inputs = self.embed_target.through(target_in, self.word, words) + self.context(context)
        states = self.recurrent.sequence(inputs[:, :-1], state)
        states = torch.cat([state[:, None], states], 1)
        return Output(self._logits(states, words, context.expand(-1, words.shape[1], -1)), {})
