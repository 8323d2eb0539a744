r"""LSTM+A, the parser that writes trees as a foreign language.

Vinyals, Kaiser, Koo, Petrov, Sutskever and Hinton, "Grammar as a Foreign Language", NIPS 2015,
arXiv 1412.7449.

    h_1..h_S  = LSTM(x_S..x_1)                             2.1, layers on layers; d_0 is its last
    d_t       = LSTM([E y_{t-1} ; d'_{t-1}], d_{t-1})
    u_t(i)    = v^T tanh(W_1 h_i + W_2 d_t)                2.1, "attention"
    a_t       = softmax(u_t)
    d'_t      = Σ_i a_t(i) h_i
    p(y_t)    = softmax(W_o [d_t ; d'_t])

That is `encoder: reversed, start: encoder, feed: true, readout: linear`. And with `follow`, which
is ours, the decoder is told what it would otherwise have to count:

    w_t       = Σ_{j<t} reads(y_j)                         how many words have been written about
    d_t       = LSTM([E y_{t-1} ; h_{w_t}], d_{t-1})       h_{w_t}: the next word
    p(y_t)    = softmax(W_o tanh(W_c [d_t ; d'_t ; h_{w_t}]))

`reads` is a table, 1 for symbols that stand for a word, 0 for others; the task fills it in.

Shapes: source (B, S) and target (B, T) ids; h (B, S, 2H), or (B, S, H) read in one direction;
d (B, T, H); logits (B, T, V).

**Departs from the paper**, unless asked not to: the encoder reads from both ends (the paper: from
the end alone); the decoder starts from zeros, not from the encoder's last states; the attended
state goes through a layer before the output, and is not fed to the next step, so that all steps are
trained at once. The end-of-sentence symbol stays at the end of a reversed source.
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Additive, Attention, Lengths
from regard.attention.mask import take
from regard.catalog.parts import Chosen, chosen
from regard.errors import RequestError, nearest
from regard.layers.bilstm import BiLSTM
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.lstm import LSTM
from regard.layers.reverse import reverse
from regard.protocols import Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["LSTMA"]


class LSTMA(nn.Module):
    """LSTMs from both ends, and one that attends and, if so asked, follows the words.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: size of a word's or symbol's vector.
        hidden: H, cells of a layer (in each direction).
        layers: of the encoder, and of the decoder unless `decoder_layers` says otherwise.
        align: size of the alignment perceptron.
        follow: the decoder sees the state of the next word that it has not written about.
        encoder: reads from "both" ends, or in one direction, "reversed" (as printed) or "forward".
        start: the decoder's first states are "zeros", or those of the "encoder" after its last word
            (as printed; it then has as many layers and reads in one direction).
        readout: "deep", with the layer W_c, or "linear" (as printed), without.
        feed: what was attended to is read at the next step (as printed); steps then wait for each
            other.
        dropout: on vectors, between layers and before the output.
        attention: parts in the place of the paper's, as `{score: general, select: sparsemax}`; see
            `catalog.parts`.
    """

    normalized = False
    reads: Tensor

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 512,
        hidden: int = 256,
        layers: int = 3,
        decoder_layers: int | None = None,
        align: int = 256,
        follow: bool = False,
        encoder: str = "both",
        start: str = "zeros",
        readout: str = "deep",
        feed: bool = False,
        dropout: float = 0.0,
        attention: Chosen | None = None,
    ) -> None:
        super().__init__()
        deep = layers if decoder_layers is None else decoder_layers
        for given, name, known in (
            (encoder, "encoder", ("both", "reversed", "forward")),
            (start, "start", ("zeros", "encoder")),
            (readout, "readout", ("deep", "linear")),
        ):
            if given not in known:
                raise RequestError(
                    f"no {name} of LSTM+A is called {given!r}; {nearest(given, known)}"
                )
        if start == "encoder" and (encoder == "both" or deep != layers):
            raise RequestError(
                "start='encoder' expected an encoder that reads in one direction and has as many "
                f"layers as the decoder; got encoder={encoder!r}, layers={layers}, "
                f"decoder_layers={deep}"
            )
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.follow, self.dropout = follow, dropout
        self.reverse, self.handed, self.feed = encoder == "reversed", start == "encoder", feed
        self.embed_source = Embed(source_vocab_size, embed, dropout=dropout)
        self.embed_target = Embed(target_vocab_size, embed, dropout=dropout)
        self.encoder: nn.Module
        if encoder == "both":
            self.encoder = nn.ModuleList(
                BiLSTM(2 * hidden if layer else embed, hidden, bias=True) for layer in range(layers)
            )
        else:
            self.encoder = LSTM(embed, hidden, layers, bias=True, dropout=dropout)
        self.size = 2 * hidden if encoder == "both" else hidden  # of an encoder's state
        seen = self.size if follow else 0
        fed = self.size if feed else 0
        self.decoder = LSTM(embed + seen + fed, hidden, deep, bias=True, dropout=dropout)
        own = Attention(score=Additive(hidden, self.size, align), role="cross")  # W_2, W_1, v
        self.attention = chosen(own, attention, query=hidden, key=self.size, hidden=align)
        wide = hidden + self.size + seen
        self.combine = nn.Linear(wide, hidden) if readout == "deep" else None  # W_c
        self.output = nn.Linear(wide if self.combine is None else hidden, target_vocab_size)  # W_o
        self.register_buffer("reads", torch.zeros(target_vocab_size, dtype=torch.int64))
        for name, weight in self.named_parameters():
            if weight.dim() > 1 and "embed" not in name:
                nn.init.xavier_uniform_(weight)
        for module in (self.embed_source, self.embed_target):
            nn.init.normal_(module.weight, std=0.1)
            module.silence()

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """States (B, S, 2H or H) in the sentence's order; of one direction also the last of all."""
        source, lengths = ids_of(source, lengths)
        if self.reverse:
            source = reverse(source, lengths - 1)
        x, final = self.embed_source(source), None
        if isinstance(self.encoder, LSTM):
            x, final = self.encoder(x, lengths)
        else:
            assert isinstance(self.encoder, nn.ModuleList)
            for layer, read in enumerate(self.encoder):
                x = read(self._drop(x) if layer else x, lengths)
        x = reverse(x, lengths - 1) if self.reverse else x
        return Encoded(self._drop(x), lengths, final)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: one pass of the decoder's stack, one of the attention; fed, by steps."""
        decoding = self.start(self.encode(source, lengths))
        if self.feed:
            found = []
            for tokens in target_in.split(1, 1):
                seen, decoding = self._advance(tokens, decoding)
                found.append(seen)
            return Output(self._logits(torch.cat(found, 1)), {})
        following = self._following(self.reads[target_in].cumsum(1), decoding)
        inputs = torch.cat([self.embed_target(target_in), *following], -1)
        states, _ = self.decoder(inputs, None, self._first(decoding))
        context = self._look(states, decoding)
        return Output(self._logits(torch.cat([states, context, *following], -1)), {})

    def start(self, encoded: Encoded) -> Decoding:
        """W_1 h once for each sentence; no word is written about."""
        memory = self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))
        states = encoded.states
        zeros = states.new_zeros(len(states), 1, self.decoder.layers, self.decoder.hidden)
        place = torch.zeros_like(encoded.lengths)[:, None]
        memories = {"source": memory, "states": states, "last": encoded.lengths - 1}
        h, c = (x[:, None] for x in encoded.final) if self.handed else (zeros, zeros)
        carried: dict[str, Any] = {"state": (h, c), "place": place}
        if self.feed:
            carried["context"] = states.new_zeros(len(states), 1, self.size)  # d'_0
        return Decoding(memories, carried)

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One symbol a hypothesis: (B, beam) to (B, beam, V); states (B, beam, L, H)."""
        seen, decoding = self._advance(tokens, decoding)
        return self._logits(seen), decoding

    def _advance(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One symbol a hypothesis; what the output sees of it: (B, beam, wide)."""
        h, c = (state.flatten(0, 1) for state in decoding.carried["state"])
        place = decoding.carried["place"] + self.reads[tokens]
        following = self._following(place, decoding)
        fed = [self._drop(decoding.carried["context"])] if self.feed else []
        inputs = torch.cat([self.embed_target(tokens), *following, *fed], -1)
        states, (h, c) = self.decoder(inputs.flatten(0, 1)[:, None], None, (h, c))
        top = states[:, 0].unflatten(0, tokens.shape)
        state = (h.unflatten(0, tokens.shape), c.unflatten(0, tokens.shape))
        context = self._look(top, decoding)
        decoding = decoding.advance(
            state=state, place=place, **({"context": context} if self.feed else {})
        )
        return torch.cat([top, context, *following], -1), decoding

    def _first(self, decoding: Decoding) -> tuple[Tensor, Tensor] | None:
        """The decoder's first states (B, L, H); None for zeros."""
        if not self.handed:
            return None
        h, c = decoding.carried["state"]
        return h[:, 0], c[:, 0]

    def _following(self, places: Tensor, decoding: Decoding) -> list[Tensor]:
        """The next words' states, one of (B, Q, 2H or H) if they are followed."""
        if not self.follow:
            return []
        last = decoding.memories["last"][:, None]
        return [take(decoding.memories["states"], torch.minimum(places, last))]

    def _look(self, states: Tensor, decoding: Decoding) -> Tensor:
        """What any number of steps or hypotheses attends to: d'."""
        context: Tensor = self.attention(states, decoding.memories["source"]).context
        return context.to(states.dtype)

    def _logits(self, seen: Tensor) -> Any:
        """The output for any number of steps: (B, Q, wide) to (B, Q, V)."""
        x = self._drop(seen)
        if self.combine is not None:
            x = self._drop(torch.tanh(self.combine(x)))
        return project(self.output, x)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)
