r"""RNN Encoder-Decoder, the origin of the gated recurrent unit.

Cho, van Merriënboer, Gulcehre, Bahdanau, Bougares, Schwenk and Bengio, "Learning Phrase
Representations using RNN Encoder-Decoder for Statistical Machine Translation", EMNLP 2014,
arXiv 1406.1078. Appendix A:

    encoder   r, z = σ(W e(x_t) + U h_{t-1}),  h~ = tanh(W e(x_t) + U (r ⊙ h_{t-1}))
              h_t  = z ⊙ h_{t-1} + (1 - z) ⊙ h~,  h_0 = 0
    summary   c    = tanh(V h_N)
    decoder   h'_0 = tanh(V' c),  e(y_0) = 0
              r, z = σ(W' e(y_{t-1}) + U' h'_{t-1} + C c)
              h~   = tanh(W' e(y_{t-1}) + r ⊙ (U' h'_{t-1} + C c))
    output    s'   = O_h h'_t + O_y e(y_{t-1}) + O_c c,  s = max of consecutive pairs
              p(y_t) ∝ exp(G_l G_r s)

z *keeps* the old state (Bahdanau et al. turn it round). The encoder's reset gate acts on h before
U; the decoder's stands outside and gates C c too. The summary enters every step: gates, candidate
and output.

Shapes: source (B, S) and target (B, T) ids; embeddings E, states H, maxout units M;
logits (B, T, V).

**Departs from the paper**: biases (the paper leaves them out of its equations). `embed` is the rank
of the input matrices and `rank` that of the output one; the paper says 100 for both, and prints 500
in its appendix. Dropout can be asked for. The authors' released code differs: c = h_N, and the
readout sees h'_{t-1}.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.maxout import Maxout
from regard.layers.rnn import GRU, Gated
from regard.protocols import BOS, PAD, Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["RNNEncoderDecoder"]


class RNNEncoderDecoder(nn.Module):
    """A gated encoder and a gated decoder with one vector between them.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: size of a word vector: the rank of the input matrices.
        hidden: H, gated units on both sides.
        maxout: M, maxout units of two inputs.
        rank: of the output matrix G; `embed` by default.
        dropout: on word vectors and maxout units; 0 in the paper.
        scale: standard deviation of the matrices at the start (not the recurrent ones).
    """

    normalized = False

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 100,
        hidden: int = 1000,
        maxout: int = 500,
        rank: int | None = None,
        dropout: float = 0.0,
        scale: float = 0.01,
    ) -> None:
        super().__init__()
        rank = embed if rank is None else rank
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.dropout = dropout
        self.embed_source = Embed(source_vocab_size, embed, dropout=dropout)
        self.embed_target = Embed(
            target_vocab_size, embed, zeros=(PAD, BOS), dropout=dropout
        )  # e(y_0) = 0
        self.encoder = GRU(embed, hidden, reset="before", update="keep")
        self.summary = nn.Linear(hidden, hidden)  # V
        self.initial = nn.Linear(hidden, hidden)  # V'
        self.word = nn.Linear(embed, 3 * hidden)  # W'_r, W'_z, W'
        self.context = nn.Linear(hidden, 3 * hidden, bias=False)  # C_r, C_z, C
        self.recurrent = Gated(hidden, reset="after", update="keep")  # U'_r, U'_z, U'
        self.readout = Maxout(2 * hidden + embed, maxout)  # O_h, O_y, O_c
        self.output = nn.Sequential(
            nn.Linear(maxout, rank, bias=False), nn.Linear(rank, target_vocab_size)
        )
        for module in self.modules():
            if isinstance(module, nn.Linear | Embed):
                nn.init.normal_(module.weight, std=scale)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, Embed):
                module.silence()

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """States (B, S, H); final is the summary c (B, H)."""
        source, lengths = ids_of(source, lengths)
        states, last = self.encoder.words(self.embed_source, source, lengths)
        return Encoded(states, lengths, self.summary(last).tanh())

    def start(self, encoded: Encoded) -> Decoding:
        """h'_0 from the summary, and the products C c, which are the same in every step."""
        c = encoded.final
        memories = {"summary": c, "context": self.context(c)}
        return Decoding(memories, {"state": self.initial(c).tanh()[:, None]})

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: one recurrence over the whole target."""
        decoding = self.start(self.encode(source, lengths))
        state = decoding.carried["state"][:, 0]
        words, inputs, inside = self._inputs(target_in, decoding)
        states = self.recurrent.sequence(inputs, state, inside[:, 0])  # (B, T, H)
        return Output(self._logits(states, words, decoding), {})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); beams stand where words stood."""
        state = decoding.carried["state"]  # (B, beam, H)
        words, inputs, inside = self._inputs(tokens, decoding)
        state = self.recurrent(inputs, state, inside.expand_as(state))
        return self._logits(state, words, decoding), decoding.advance(state=state)

    def _inputs(self, ids: Tensor, decoding: Decoding) -> tuple[Tensor, Tensor, Tensor]:
        """What a step reads: words (B, N, E), and what the gates and the candidate get of them.

        Outside the reset gate W' e and the gates' C c (B, N, 3H); within it the candidate's C c
        (B, 1, H).
        """
        words = self.embed_target(ids)
        context = decoding.memories["context"][:, None]  # (B, 1, 3H)
        size = self.recurrent.hidden
        words_in = self.embed_target.through(ids, self.word, words)
        inputs = words_in + F.pad(context[..., : 2 * size], (0, size))
        return words, inputs, context[..., 2 * size :]

    def _logits(self, states: Tensor, words: Tensor, decoding: Decoding) -> Any:
        """The maxout readout for any number of steps at once."""
        summary = decoding.memories["summary"][:, None].expand(-1, words.shape[1], -1)
        s = self.readout(torch.cat([states, words, summary.to(words.dtype)], -1))
        return project(self.output, dropout(s, self.dropout, self.training))
