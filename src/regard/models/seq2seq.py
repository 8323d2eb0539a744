r"""Seq2Seq, one stack of LSTMs that starts another; no attention.

Sutskever, Vinyals and Le, "Sequence to Sequence Learning with Neural Networks", NIPS 2014,
arXiv 1409.3215.

    h, c      = LSTM_source(x_n ... x_1 EOS)          all layers; the words come in reverse
    h_t, c_t  = LSTM_target(y_{t-1}; h_{t-1}, c_{t-1}), started with the source's last h, c
    p(y_t)    = softmax(W h_t)

Two different stacks; a sentence is the 2 L H numbers of the encoder's last state and nothing else:
no attention. The words are reversed and the target is not, so that the first words of both sides
are close; the end-of-sentence symbol stays at the end.

Shapes: source (B, S) and target (B, T) ids; states (B, S, H); h and c (B, L, H); logits (B, T, V).

**Departs from the paper**: the decoder's first input is an explicit start symbol (the paper: the
source's end-of-sentence symbol). The padding's vector is zero. Dropout and biases can be asked for;
the paper's 384 M parameters leave no room for biases or peepholes. So can a wider start and forget
gates that start open: without them a model of a few hundred cells hardly learns to remember.
"""

from torch import Tensor, nn

from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.lstm import LSTM
from regard.layers.reverse import reverse
from regard.protocols import Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["Seq2Seq"]


class Seq2Seq(nn.Module):
    """Two stacks of LSTMs; the first one's last state starts the second.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: size of a word vector.
        hidden: H, cells of a layer.
        layers: L of each stack.
        reverse: read the source's words from last to first.
        bias: biases in the LSTMs and the output.
        scale: all parameters start between -scale and scale. A recurrent matrix of H columns grows
            with sqrt(H): 0.08 at the paper's 1,000 cells is 0.16 at 256.
        forget_bias: what the forget gates' biases start at (Jozefowicz et al. 2015 advise 1), so
            that cells keep what they hold; asks for `bias`.
        dropout: on non-recurrent connections (Zaremba et al. 2014); 0 in the paper.
    """

    normalized = False

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 1000,
        hidden: int = 1000,
        layers: int = 4,
        reverse: bool = True,
        bias: bool = False,
        scale: float = 0.08,
        forget_bias: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if forget_bias and not bias:
            raise ValueError(
                f"forget_bias is {forget_bias:g}, but the model has no biases: set bias to true"
            )
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.reverse, self.dropout = reverse, dropout
        self.embed_source = Embed(source_vocab_size, embed, dropout=dropout)
        self.embed_target = Embed(target_vocab_size, embed, dropout=dropout)
        self.encoder = LSTM(embed, hidden, layers, bias=bias, dropout=dropout)
        self.decoder = LSTM(embed, hidden, layers, bias=bias, dropout=dropout)
        self.output = nn.Linear(hidden, target_vocab_size, bias=bias)
        for weight in self.parameters():
            nn.init.uniform_(weight, -scale, scale)
        if forget_bias:
            self.encoder.remember(forget_bias)
            self.decoder.remember(forget_bias)
        self.embed_source.silence()
        self.embed_target.silence()

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Read the source; final is (h, c) of all layers, (B, L, H) each."""
        source, lengths = ids_of(source, lengths)
        if self.reverse:
            source = reverse(source, lengths - 1)
        states, final = self.encoder(self.embed_source(source), lengths)
        return Encoded(states, lengths, final)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: one pass of the decoder's stack."""
        words = self.embed_target(target_in)  # (B, T, E)
        states, _ = self.decoder(words, None, self.encode(source, lengths).final)
        return Output(project(self.output, self._drop(states)), {})

    def start(self, encoded: Encoded) -> Decoding:
        """Nothing stays of the source but the state."""
        h, c = encoded.final
        return Decoding({}, {"state": (h[:, None], c[:, None])})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); states (B, beam, L, H)."""
        h, c = decoding.carried["state"]
        word = self.embed_target(tokens).flatten(0, 1)[:, None]  # (B * beam, 1, E)
        states, (h, c) = self.decoder(word, None, (h.flatten(0, 1), c.flatten(0, 1)))
        logits = self.output(self._drop(states[:, 0])).unflatten(0, tokens.shape)
        state = (h.unflatten(0, tokens.shape), c.unflatten(0, tokens.shape))
        return logits, decoding.advance(state=state)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)
