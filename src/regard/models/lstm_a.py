r"""LSTM+A, the parser that writes trees as a foreign language.

Vinyals, Kaiser, Koo, Petrov, Sutskever and Hinton, "Grammar as a Foreign Language", NIPS 2015,
arXiv 1412.7449.

    h_1..h_S  = LSTM(x_1..x_S)                             2.1, layers on layers
    d_t       = LSTM(E y_{t-1}, d_{t-1})
    u_t(i)    = v^T tanh(W_1 h_i + W_2 d_t)                2.1, "attention"
    a_t       = softmax(u_t)
    d'_t      = Σ_i a_t(i) h_i
    p(y_t)    = softmax(W_o [d_t ; d'_t])

and with `follow`, which is ours, the decoder is told what it would otherwise have to count:

    w_t       = Σ_{j<t} reads(y_j)                         how many words have been written about
    d_t       = LSTM([E y_{t-1} ; h_{w_t}], d_{t-1})       h_{w_t}: the next word
    p(y_t)    = softmax(W_o tanh(W_c [d_t ; d'_t ; h_{w_t}]))

`reads` is a table, 1 for symbols that stand for a word, 0 for others; the task fills it in.

Shapes: source (B, S) and target (B, T) ids; h (B, S, 2H); d (B, T, H); logits (B, T, V).

**Departs from the paper**: the encoder reads from both ends (the paper: from the end alone); the
decoder starts from zeros, not from the encoder's last state; the attended state goes through a
layer before the output, and is not fed to the next step, so that all steps are trained at once.
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Additive, Attention, Lengths
from regard.attention.mask import take
from regard.layers.bilstm import BiLSTM
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.lstm import LSTM
from regard.layers.project import project
from regard.protocols import Decoding, Encoded, Output, lengths_of

__all__ = ["LSTMA"]


class LSTMA(nn.Module):
    """LSTMs from both ends, and one that attends and, if so asked, follows the words.

    Args:
        source, target: vocabulary sizes.
        embed: size of a word's or symbol's vector.
        hidden: H, cells of a layer (in each direction).
        layers: of the encoder, and of the decoder unless `decoder_layers` says otherwise.
        align: size of the alignment perceptron.
        follow: the decoder sees the state of the next word that it has not written about.
        dropout: on vectors, between layers and before the output.
    """

    normalized = False
    reads: Tensor

    def __init__(
        self,
        source: int,
        target: int,
        *,
        embed: int = 512,
        hidden: int = 256,
        layers: int = 3,
        decoder_layers: int | None = None,
        align: int = 256,
        follow: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source, self.target = source, target
        self.follow, self.dropout = follow, dropout
        self.embed_source = Embed(source, embed, dropout=dropout)
        self.embed_target = Embed(target, embed, dropout=dropout)
        self.encoder = nn.ModuleList(
            BiLSTM(2 * hidden if layer else embed, hidden, bias=True) for layer in range(layers)
        )
        seen = 2 * hidden if follow else 0
        deep = layers if decoder_layers is None else decoder_layers
        self.decoder = LSTM(embed + seen, hidden, deep, bias=True, dropout=dropout)
        self.attention = Attention(score=Additive(hidden, 2 * hidden, align))  # W_2, W_1, v
        self.combine = nn.Linear(3 * hidden + seen, hidden)  # W_c
        self.output = nn.Linear(hidden, target)  # W_o
        self.register_buffer("reads", torch.zeros(target, dtype=torch.int64))
        for name, weight in self.named_parameters():
            if weight.dim() > 1 and "embed" not in name:
                nn.init.xavier_uniform_(weight)
        for module in (self.embed_source, self.embed_target):
            nn.init.normal_(module.weight, std=0.1)
            module.silence()

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Encoded:
        """States from both ends (B, S, 2H)."""
        lengths = lengths_of(source, lengths)
        x = self.embed_source(source)
        for layer, read in enumerate(self.encoder):
            x = read(self._drop(x) if layer else x, lengths)
        return Encoded(self._drop(x), lengths)

    def forward(self, source: Tensor, target_in: Tensor, lengths: Tensor | None = None) -> Output:
        """Teacher forced: one pass of the decoder's stack, one of the attention."""
        decoding = self.start(self.encode(source, lengths))
        places = self.reads[target_in].cumsum(1)
        x, following = self._input(target_in, places, decoding)
        states, _ = self.decoder(x)
        return Output(self._logits(states, following, decoding), {})

    def start(self, encoded: Encoded) -> Decoding:
        """W_1 h once for each sentence; no word is written about."""
        memory = self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))
        states = encoded.states
        zeros = states.new_zeros(len(states), 1, self.decoder.layers, self.decoder.hidden)
        place = torch.zeros_like(encoded.lengths)[:, None]
        memories = {"source": memory, "states": states, "last": encoded.lengths - 1}
        return Decoding(memories, {"state": (zeros, zeros), "place": place})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One symbol a hypothesis: (B, beam) to (B, beam, V); states (B, beam, L, H)."""
        h, c = (state.flatten(0, 1) for state in decoding.carried["state"])
        place = decoding.carried["place"] + self.reads[tokens]
        x, following = self._input(tokens, place, decoding)
        states, (h, c) = self.decoder(x.flatten(0, 1)[:, None], None, (h, c))
        top = states[:, 0].unflatten(0, tokens.shape)
        state = (h.unflatten(0, tokens.shape), c.unflatten(0, tokens.shape))
        return self._logits(top, following, decoding), decoding.advance(state=state, place=place)

    def _input(
        self, tokens: Tensor, places: Tensor, decoding: Decoding
    ) -> tuple[Tensor, Tensor | None]:
        """What the decoder reads (B, Q, E [+ 2H]), and the next words' states (B, Q, 2H)."""
        words = self.embed_target(tokens)
        if not self.follow:
            return words, None
        last = decoding.memories["last"][:, None]
        following = take(decoding.memories["states"], torch.minimum(places, last))
        return torch.cat([words, following.to(words.dtype)], -1), following

    def _logits(self, states: Tensor, following: Tensor | None, decoding: Decoding) -> Any:
        """The output for any number of steps: d (B, Q, H) to (B, Q, V)."""
        context = self.attention(states, decoding.memories["source"]).context
        parts = [states, context.to(states.dtype)]
        if following is not None:
            parts.append(following.to(states.dtype))
        combined = torch.tanh(self.combine(self._drop(torch.cat(parts, -1))))
        return project(self.output, self._drop(combined))

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)
