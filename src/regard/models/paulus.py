r"""A summarizer that attends to the text, to what it has written, and copies words.

Paulus, Xiong and Socher, "A Deep Reinforced Model for Abstractive Summarization", ICLR 2018,
arXiv 1705.04304.

    h^e_i    = BiLSTM(e(x_i)),   h^d_t = LSTM(e(y_{t-1}), h^d_{t-1}),   h^d_0 = h^e_n
    e_ti     = h^d_t^T W^e h^e_i                                               (1, 2)
    α^e_t    = softmax_i(e_ti - logsumexp_{j<t} e_ji)     intra-temporal      (3, 4)
    c^e_t    = Σ_i α^e_ti h^e_i                                                (5)
    e^d_tt'  = h^d_t^T W^d h^d_t',  t' < t                intra-decoder       (6)
    α^d_t    = softmax_{t'<t}(e^d_tt'),   c^d_t = Σ α^d_tt' h^d_t',   c^d_1 = 0   (7, 8)
    q_t      = [h^d_t ; c^e_t ; c^d_t]
    p_gen    = softmax(W_out q_t + b_out),   W_out = tanh(W_emb W_proj)       (9, 13)
    u_t      = σ(w_u q_t + b_u)                           copy                (11)
    p(y_t)   = u_t Σ_{i: x_i = y_t} α^e_ti + (1 - u_t) p_gen(y_t)             (10, 12)

No context is fed back to the LSTM, so a whole target is computed at once: one pass of the LSTM, one
cumulative logsumexp, one causal self-attention.

What may be copied is in `Inputs.extras["copies"]` (see `regard.protocols.Generator`): words of the
text that the vocabulary lacks have ids of their own. Without it nothing is copied.

Shapes: source (B, S) and target (B, T) ids; h^e (B, S, 2H); h^d (B, T, 2H); log-probabilities
(B, T, V + W), W being the most own words of an example.

**Departs from the paper**: the decoder's first input is an explicit start symbol, its cell starts
at zero (the paper starts h alone), and the padding's vector is zero until the output learns its
row. Both LSTMs have the two bias vectors of PyTorch. A copied word that the target vocabulary lacks
is read by its vector in the source vocabulary where there is one matrix for both, and as an unknown
word otherwise. Dropout can be asked for. How the switch is supervised is the task's matter
(`losses.copy_supervision`), and so is reinforcement (`losses.self_critical`).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import (
    Attention,
    Directional,
    General,
    IntraTemporal,
    Lengths,
    Memory,
    TemporalSoftmax,
    attend,
)
from regard.errors import RequestError, nearest
from regard.layers.bilstm import BiLSTM
from regard.layers.copy_mixture import mixture
from regard.layers.deferred_logits import DeferredLogits, is_deferring
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.lstm import LSTM
from regard.native.kept import kept
from regard.protocols import PAD, UNK, Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["Paulus"]

TIED = ("all", "output", "none")


class Paulus(nn.Module):
    """A BiLSTM, an LSTM with intra-temporal and intra-decoder attention, and a pointer.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: size of a word vector.
        hidden: H, cells of each direction of the encoder; the decoder has 2H.
        tied: what shares a matrix with W_out: "all" for the vectors of both sides (id i of the
            target is id i of the source, which may have more), "output" for the target's alone, or
            "none".
        intra_decoder: attention to what was written.
        dropout: on word vectors and on q_t; 0 in the paper.
    """

    normalized = True

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 100,
        hidden: int = 200,
        tied: str = "all",
        intra_decoder: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if tied not in TIED:
            raise RequestError(f"no tied of Paulus is called {tied!r}; {nearest(tied, TIED)}")
        if tied == "all" and source_vocab_size < target_vocab_size:
            raise RequestError(
                "tied='all' reads both sides with one matrix, so it expected a source vocabulary "
                f"that begins with the target's; got {source_vocab_size:,} and "
                f"{target_vocab_size:,} words: share the tokenizer, or take tied='output'"
            )
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.tied, self.dropout = tied, dropout
        self.embed_source = Embed(source_vocab_size, embed, dropout=dropout)
        self.embed_target = (
            self.embed_source if tied == "all" else Embed(target_vocab_size, embed, dropout=dropout)
        )
        self.encoder = BiLSTM(embed, hidden, bias=True)
        self.decoder = LSTM(embed, 2 * hidden, bias=True)
        self.attention = Attention(
            General(2 * hidden, 2 * hidden), carry=IntraTemporal(), role="cross"
        )
        self.self_attention = (
            Attention(General(2 * hidden, 2 * hidden), mask=Directional("forward"), role="decoder")
            if intra_decoder
            else None
        )
        size = (6 if intra_decoder else 4) * hidden  # of q_t
        self.project = (  # W_proj, whose rows are the columns of the printed one
            nn.Linear(embed, size, bias=False) if tied != "none" else None
        )
        self.output = None if tied != "none" else nn.Linear(size, target_vocab_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(target_vocab_size))
        self.switch = nn.Linear(size, 1)

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """States (B, S, 2H); final is (h, c) of the decoder's start, (B, 1, 2H) each.

        `extra` has what may be copied: `copies` (B, S), and `own` (B, W), what each own word of an
        example is read as.
        """
        ids, lengths = ids_of(source, lengths)
        states = self.encoder.padded(self.embed_source(ids), lengths)
        last = (lengths - 1).clamp_min(0)[:, None, None].expand(-1, 1, states.shape[-1])
        start = states.gather(1, last)
        copies = source.extras.get("copies") if isinstance(source, Inputs) else None
        final = (start, torch.zeros_like(start))
        return Encoded(states, lengths, final, self._copied(ids, lengths, copies))

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: all positions at once."""
        encoded = self.encode(source, lengths)
        given = encoded.extra
        states, _ = self.decoder(self._words(target_in, given), None, encoded.final)
        parts = {**self.attention.parts, "select": TemporalSoftmax(), "carry": None}
        found = attend(
            states, self._remember(encoded), need_weights=bool(given), name=self.attention, **parts
        )
        written = []
        if self.self_attention is not None:
            written = [self.self_attention(states, states).context]
        out = self._drop(_joined(states, found.context, *written))
        return self._mixed(out, found.weights, self._weight(), given)

    def start(self, encoded: Encoded) -> Decoding:
        """W_out once for all, W^e once per sentence, nothing written."""
        memories = {"source": self._remember(encoded), "weight": _Same(self._weight())}
        h, c = (state[:, None, 0] for state in encoded.final)  # (B, 1, 2H)
        carried: dict[str, Any] = {"h": h, "c": c, "temporal": None, "written": None}
        return Decoding(memories | dict(encoded.extra), carried)

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V + W); beams are the queries."""
        given = {k: decoding.memories[k] for k in ("copies", "own") if k in decoding.memories}
        word = self._words(tokens, given).flatten(0, 1)
        h, c = (decoding.carried[k].flatten(0, 1) for k in ("h", "c"))
        (h,), (c,) = self.decoder.step(self.decoder.project(word), [h], [c])
        h, c = (x.unflatten(0, tokens.shape) for x in (h, c))  # (B, beam, 2H)
        found = self.attention(
            h,
            decoding.memories["source"],
            state=decoding.carried["temporal"],
            need_weights=bool(given),
        )
        before: Memory | None = decoding.carried["written"]
        written = []
        if self.self_attention is not None:
            now = h[:, :, None]  # (B, beam, 1, 2H): each hypothesis has written its own words
            if before is None:
                before = self.self_attention.remember(now)
            else:
                before = self.self_attention.extend(before, now)
            written = [self.self_attention(now, before).context[:, :, 0]]
        out = self._drop(_joined(h, found.context, *written))
        mixed = self._mixed(out, found.weights, decoding.memories["weight"].value, given)
        carried = {"h": h, "c": c, "temporal": found.state, "written": before}
        return mixed.logits, decoding.advance(**carried)

    def _mixed(self, out: Tensor, weights: Tensor | None, weight: Tensor, given: Any) -> Output:
        """Log-probabilities of q_t (B, T, 3 * 2H), for any number of steps or hypotheses."""
        put_off = is_deferring()
        logits: Any = DeferredLogits(out, weight, self.bias) if put_off else None
        if logits is None:
            logits = nn.functional.linear(out, weight, self.bias)
        if not given or weights is None:
            return Output(logits if put_off else logits.log_softmax(-1), {})
        switch = self.switch(out)[..., 0]
        size = self.target_vocab_size + given["own"].shape[1]
        scores = mixture(logits, weights, switch, given["copies"], size)
        return Output(scores, {"copying": switch})

    def _weight(self) -> Tensor:
        """W_out (V, 3 * 2H)."""
        if self.project is None:
            assert self.output is not None
            return self.output.weight
        project, table = self.project, self.embed_target.weight[: self.target_vocab_size]

        def made() -> Tensor:
            return torch.tanh(project(table))

        return kept(self, "W_out", [table, *project.parameters()], made)

    def _words(self, ids: Tensor, given: Any) -> Tensor:
        """Vectors of what was written: own words as what `own` says."""
        if given and given["own"].shape[1]:
            place = (ids - self.target_vocab_size).clamp_min(0)
            own = given["own"].gather(1, place)
            ids = torch.where(ids < self.target_vocab_size, ids, own)
        vectors: Tensor = self.embed_target(ids)
        return vectors

    def _copied(self, ids: Tensor, lengths: Tensor, copies: Tensor | None) -> dict[str, Tensor]:
        if copies is None:
            return {}
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        copies = copies.masked_fill(~real, PAD)
        most = int(copies.max()) + 1 - self.target_vocab_size if copies.numel() else 0
        # One column more than there are words: what is no own word goes there.
        place = (copies - self.target_vocab_size + 1).clamp_min(0)
        own = torch.full((len(ids), max(0, most) + 1), UNK, device=ids.device)
        if self.tied == "all":
            own = own.scatter(1, place, ids)
        return {"copies": copies, "own": own[:, 1:]}

    def _remember(self, encoded: Encoded) -> Memory:
        return self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


@dataclass(frozen=True)
class _Same:
    """A value that all sentences of a decoding share."""

    value: Tensor

    def rows(self, index: Tensor) -> "_Same":
        """The same after any of them has left."""
        return self


def _joined(states: Tensor, *contexts: Tensor) -> Tensor:
    return torch.cat([states, *(c.to(states.dtype) for c in contexts)], -1)
