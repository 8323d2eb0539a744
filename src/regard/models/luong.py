r"""Luong's global and local attention, four scores, input feeding.

Luong, Pham and Manning, "Effective Approaches to Attention-based Neural Machine Translation",
EMNLP 2015, arXiv 1508.04025.

    h_t     = LSTM([e(y_{t-1}) ; h~_{t-1}], h_{t-1})       3.3, feeding layer 1 only, h~_0 = 0
    a_t(s)  = softmax_s(score(h_t, h_s))                   (7)
    score   = h_t^T h_s              dot                   (8)
              h_t^T W_a h_s          general
              v_a^T tanh(W_a [h_t ; h_s])   concat
              W_a h_t                location, one row a position
    local   : s within [p_t - D, p_t + D] alone            3.2
    p_t     = min(t, S - 1)            local-m, t = 0 ...
              S σ(v_p^T tanh(W_p h_t))   local-p           (9)
    a_t(s)  = a_t(s) exp(-(s - p_t)^2 / 2 (D/2)^2)         (10), local-p, not normalized again
    c_t     = Σ_s a_t(s) h_s
    h~_t    = tanh(W_c [c_t ; h_t])                        (5)
    p(y_t)  = softmax(W_s h~_t)                            (6)

Attention comes *after* the recurrent step and uses the current state h_t (Bahdanau et al.: before
it). What is fed is h~, not c. Without input feeding all target positions are computed at once.

Shapes: source (B, S) and target (B, T) ids; h_s (B, S, H), top layer of a forward LSTM;
logits (B, T, V).

**Departs from the paper**: the decoder's first input is an explicit start symbol. The padding's
vector is zero. "concat" is the function as printed; the paper's numbers for it are of a crippled
one with the source half of W_a fixed to the identity (footnote 15). Attention covers the source's
end-of-sentence symbol (the authors' code leaves it out). With `reverse` the encoder reads the words
from last to first, but positions (pictures, location, windows) are those of the sentence as it is
written. **Only in the authors' code**, and so here: local-p's window lies about the floor of p_t
and its Gaussian about p_t; the softmax is over the window, before the Gaussian. As printed,
local-m's window runs past the end with t; their code and this hold it at the last word.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import torch
from torch import Tensor, nn

from regard.attention import (
    Additive,
    Attention,
    Dot,
    General,
    Lengths,
    LocalMonotonic,
    LocalPredictive,
    Location,
    Memory,
    Score,
    Select,
    Softmax,
    attend,
)
from regard.catalog.parts import Chosen, chosen
from regard.errors import RequestError, nearest
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.lstm import LSTM
from regard.layers.reverse import reverse
from regard.protocols import Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["Luong"]

SCORES: Mapping[str, Callable[[int, int], Score]] = MappingProxyType(
    {
        "dot": lambda hidden, positions: Dot(),
        "general": lambda hidden, positions: General(hidden, hidden),
        "concat": lambda hidden, positions: Additive(hidden, hidden, hidden),
        "location": lambda hidden, positions: Location(hidden, positions),
    }
)

SELECTS: Mapping[str, Callable[[int, int], Select]] = MappingProxyType(
    {
        "global": lambda hidden, reach: Softmax(),
        "local-m": lambda hidden, reach: LocalMonotonic(reach, clamp=True),
        "local-p": lambda hidden, reach: LocalPredictive(hidden, hidden, reach),
    }
)


class Luong(nn.Module):
    """Stacked LSTMs with attention after each decoder step.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: size of a word vector.
        hidden: H, cells of a layer.
        layers: of the encoder, and of the decoder.
        score: "dot", "general", "concat" or "location".
        attention: "global", or within a window: "local-m" (monotonic), "local-p" (predictive); or
            parts in the place of these, as `{score: additive, select: sparsemax}`; see
            `catalog.parts`.
        reach: D of the window.
        feed: input feeding: h~ of the step before is part of layer 1's input.
        reverse: read the source's words from last to first.
        max_length: T_max, rows of the location table; words behind it cannot be attended to.
        dropout: on the input of every layer, the fed h~ included (Zaremba et al. 2014).
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
        score: str = "general",
        attention: str | Chosen = "global",
        reach: int = 10,
        feed: bool = True,
        reverse: bool = True,
        max_length: int = 50,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        told = {} if isinstance(attention, str) else attention
        attention = attention if isinstance(attention, str) else "global"
        for given, what, known in ((score, "score", SCORES), (attention, "attention", SELECTS)):
            if given not in known:
                raise RequestError(
                    f"no {what} of Luong is called {given!r}; {nearest(given, known)}"
                )
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.embed, self.feed, self.reverse, self.dropout = embed, feed, reverse, dropout
        self.embed_source = Embed(source_vocab_size, embed, dropout=dropout)
        self.embed_target = Embed(target_vocab_size, embed, dropout=dropout)
        self.encoder = LSTM(embed, hidden, layers, dropout=dropout)
        self.decoder = LSTM(embed + hidden if feed else embed, hidden, layers, dropout=dropout)
        select = SELECTS[attention](hidden, reach)
        own = Attention(SCORES[score](hidden, max_length), select=select, role="cross")
        sizes = {"query": hidden, "key": hidden, "hidden": hidden, "positions": max_length}
        self.attention = chosen(own, told, steps=True, **sizes)
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)  # W_c
        self.output = nn.Linear(hidden, target_vocab_size, bias=False)  # W_s
        for weight in self.parameters():
            nn.init.uniform_(weight, -0.1, 0.1)
        self.embed_source.silence()
        self.embed_target.silence()

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Top states (B, S, H) in the sentence's order; final is (h, c), (B, L, H) each."""
        source, lengths = ids_of(source, lengths)
        if self.reverse:
            source = reverse(source, lengths - 1)
        states, final = self.encoder(self.embed_source(source), lengths)
        return Encoded(reverse(states, lengths - 1) if self.reverse else states, lengths, final)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: position by position with input feeding, all at once without."""
        encoded = self.encode(source, lengths)
        memory = self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))
        if not self.feed:
            states, _ = self.decoder(self.embed_target(target_in), None, encoded.final)
            return Output(project(self.output, self._attend(states, memory, 0)), {})
        h, c = (list(state.unbind(1)) for state in encoded.final)
        combined = torch.zeros_like(h[-1])  # h~_0
        inputs = self.embed_target.through(target_in, self._word).unbind(1)  # T x (B, 4H)
        out = []
        for t, projected in enumerate(inputs):
            h, c = self.decoder.step(projected + self._fed(combined), h, c)
            combined = self._attend(h[-1][:, None], memory, t)[:, 0]  # (B, H)
            out.append(combined)
        return Output(project(self.output, torch.stack(out, 1)), {})

    def start(self, encoded: Encoded) -> Decoding:
        """The encoder's last state, and h~_0 = 0."""
        memory = self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))
        h, c = (state[:, None] for state in encoded.final)
        carried = {"h": h, "c": c, "combined": torch.zeros_like(h[:, :, -1])}
        return Decoding({"source": memory}, carried)

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); beams are the queries."""
        h, c = (list(decoding.carried[k].flatten(0, 1).unbind(1)) for k in ("h", "c"))
        projected = self._word(self.embed_target(tokens).flatten(0, 1))  # (B * beam, 4H)
        if self.feed:
            projected = projected + self._fed(decoding.carried["combined"].flatten(0, 1))
        h, c = self.decoder.step(projected, h, c)
        top = h[-1].view(*tokens.shape, -1)  # (B, beam, H)
        combined = self._attend(top, decoding.memories["source"], decoding.step, beams=True)
        carried = {k: torch.stack(v, 1) for k, v in (("h", h), ("c", c))}  # (B * beam, L, H)
        carried = {k: v.view(*tokens.shape, *v.shape[1:]) for k, v in carried.items()}
        return self.output(combined), decoding.advance(**carried, combined=combined)

    def _attend(self, states: Tensor, memory: Memory, at: int, *, beams: bool = False) -> Tensor:
        """h~ of any number of steps from `at` on, or of the hypotheses of that step: (B, Q, H)."""
        select = self.attention.select
        if beams and isinstance(select, LocalMonotonic):
            parts = self.attention.parts | {"select": replace(select, stride=0)}
            context = attend(states, memory, at=at, name=self.attention, **parts).context
        else:
            context = self.attention(states, memory, at=at).context
        return torch.tanh(self.combine(torch.cat([context.to(states.dtype), states], -1)))

    def _word(self, vectors: Tensor) -> Tensor:
        """Layer 1's product with word vectors: (*, E) to (*, 4H)."""
        return self.decoder.project(vectors, slice(self.embed))

    def _fed(self, combined: Tensor) -> Tensor:
        """Layer 1's product with h~_{t-1}: (N, H) to (N, 4H)."""
        fed = dropout(combined, self.dropout, self.training)
        return self.decoder.project(fed, slice(self.embed, None))
