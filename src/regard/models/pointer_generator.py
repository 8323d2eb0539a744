r"""The pointer-generator, which writes words of a vocabulary or copies words of its source.

See, Liu and Manning, "Get To The Point: Summarization with Pointer-Generator Networks", ACL 2017,
arXiv 1704.04368.

    h_i    = [→h_i ; ←h_i]                                        2.1, an LSTM from each end
    s_t    = LSTM(W [E y_{t-1} ; h*_{t-1}], s_{t-1})              the context is fed back
    e_i^t  = v^T tanh(W_h h_i + W_s s_t + w_c c_i^t + b)          (1), (11)
    a^t    = softmax_i(e^t),   h*_t = Σ_i a_i^t h_i               (2), (3)
    c^t    = Σ_{t' < t} a^{t'}                                    (10), coverage
    P_voc  = softmax(V' (V [s_t ; h*_t] + b) + b')                (4)
    p_gen  = σ(w_h^T h*_t + w_s^T s_t + w_x^T x_t + b)            (8)
    P(w)   = p_gen P_voc(w) + (1 - p_gen) Σ_{i : x_i = w} a_i^t   (9)
    loss_t = - log P(y_t) + λ Σ_i min(a_i^t, c_i^t)               (12), (13)

In the attention and in p_gen, s_t is [cell ; output] of the LSTM and x_t what the LSTM reads, as in
the authors' code: so the paper's counts of parameters come out, 21,499,600 of which the pointer
takes 1,153 more and coverage 512 more (our LSTM has two biases a gate). Words of the source that
the vocabulary lacks have ids behind it (`protocols.Generator`); as inputs they are unknown words.

Shapes: source (B, S) and target (B, T) ids; embeddings E; states (B, S, 2H) and H; logits (B, T, V)
or, with W own words of the batch, (B, T, V + W): log-probabilities.

**Departs from the paper**: dropout (on word vectors, annotations and what the vocabulary is scored
by) can be asked for; the paper has none and stops early. Two vocabularies can be used
(`tied=False`). Our recipes train with Adam (the paper: Adagrad, 0.15, initial accumulator 0.1).
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Additive, Attention, Coverage, Lengths, Memory
from regard.attention.carry import CarryState
from regard.errors import RequestError
from regard.layers.bilstm import BiLSTM
from regard.layers.copy_mixture import mixed_log_prob, mixture
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.lstm import LSTM
from regard.layers.reverse import reverse
from regard.protocols import PAD, UNK, Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["PointerGenerator"]


class PointerGenerator(nn.Module):
    """Additive attention with coverage over a bidirectional LSTM, and a switch to copy.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: size of a word vector.
        hidden: H, of each encoder and of the decoder.
        align: size of the alignment perceptron.
        coverage: λ, what looking twice at one place costs; 0 for a model without coverage.
        tied: one table of word vectors for source and target (needs one vocabulary).
        dropout: on word vectors, annotations and the layer below the vocabulary; 0 in the paper.
        scale: standard deviation of word vectors at the start.
    """

    normalized = True

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 128,
        hidden: int = 256,
        align: int = 512,
        coverage: float = 1.0,
        tied: bool = True,
        dropout: float = 0.0,
        scale: float = 0.1,
    ) -> None:
        super().__init__()
        if tied and source_vocab_size != target_vocab_size:
            raise RequestError(
                "tied: true shares one embedding, so it expected one vocabulary; got "
                f"{source_vocab_size} and {target_vocab_size} words: share the tokenizer, or say "
                "tied: false"
            )
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.dropout, self.coverage, self.covers = dropout, coverage, coverage > 0
        self.embed_source = Embed(source_vocab_size, embed, dropout=dropout)
        self.embed_target = (
            self.embed_source if tied else Embed(target_vocab_size, embed, dropout=dropout)
        )
        self.encoder = BiLSTM(embed, hidden, bias=True)
        self.initial_cell = nn.Linear(2 * hidden, hidden)
        self.initial_output = nn.Linear(2 * hidden, hidden)
        self.read = nn.Linear(embed + 2 * hidden, embed)  # W
        self.decoder = LSTM(embed, hidden, bias=True)
        score = Additive(2 * hidden, 2 * hidden, align, bias=True, features=1 if self.covers else 0)
        carry = Coverage() if self.covers else None
        self.attention = Attention(score=score, carry=carry, role="cross")
        self.switch = nn.Linear(4 * hidden + embed, 1)  # w_h, w_s, w_x
        self.combine = nn.Linear(3 * hidden, hidden)  # V
        self.output = nn.Linear(hidden, target_vocab_size)  # V'
        for table in {self.embed_source, self.embed_target}:
            nn.init.normal_(table.weight, std=scale)
            table.silence()

    def cover(self, on: bool) -> None:
        """Look at coverage and charge for it, or leave both for a later phase of training."""
        self.covers = on and self.coverage > 0

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Annotations (B, S, 2H); final is the last [cell ; cell] and [output ; output]."""
        copies = source.extras.get("copies") if isinstance(source, Inputs) else None
        ids, lengths = ids_of(source, lengths)
        x = self.embed_source(ids)
        ahead, (h, c) = self.encoder.ahead(x, lengths)
        back, (h_back, c_back) = self.encoder.back(reverse(x, lengths), lengths)
        states = torch.cat([ahead, reverse(back, lengths)], -1)
        final = torch.cat([c[:, 0], c_back[:, 0]], -1), torch.cat([h[:, 0], h_back[:, 0]], -1)
        extra = {} if copies is None else {"copies": copies}
        return Encoded(dropout(states, self.dropout, self.training), lengths, final, extra)

    def start(self, encoded: Encoded) -> Decoding:
        """W_h h once per source, the first state, no context and nothing covered."""
        memory, (h, c) = self._remember(encoded), self._initial(encoded)
        memories: dict[str, Any] = {"source": memory}
        if (copies := encoded.extra.get("copies")) is not None:
            # As wide as the batch's own words, and so it stays when sentences leave the batch.
            more = self._size(copies) - self.target_vocab_size
            memories.update(copies=copies, own=copies.new_zeros(len(copies), more))
        state = self._covered(memory)
        context = encoded.states.new_zeros(len(h), 1, encoded.states.shape[-1])
        return Decoding(
            memories, {"cell": c[:, None], "output": h[:, None], "context": context, "state": state}
        )

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V + W); beams are the queries."""
        carried, memories = decoding.carried, decoding.memories
        word = self.embed_target(self._known(tokens))
        x = self.read(torch.cat([word, carried["context"]], -1))
        before = [carried["output"].flatten(0, 1)], [carried["cell"].flatten(0, 1)]
        (h,), (c,) = self.decoder.step(self.decoder.project(x).flatten(0, 1), *before)
        h, c = h.view(*tokens.shape, -1), c.view(*tokens.shape, -1)
        both = torch.cat([c, h], -1)
        seen = self.attention(both, memories["source"], state=carried["state"], need_weights=True)
        copying = self._copying(seen.context, both, x)
        logits = self.output(self._combined(h, seen.context))
        if "copies" in memories:
            size = self.target_vocab_size + memories["own"].shape[1]
            scores = mixed_log_prob(logits, seen.weights, copying, memories["copies"], size)
        else:
            scores = logits.log_softmax(-1)
        # While nothing is covered the state stays zero, and so do its features.
        state = seen.state if self.covers else carried["state"]
        return scores, decoding.advance(cell=c, output=h, context=seen.context, state=state)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced; `extra` has the log-odds of copying, and the coverage loss as penalty."""
        encoded = self.encode(source, lengths)
        memory, (h, c) = self._remember(encoded), self._initial(encoded)
        state = self._covered(memory)
        size = self.embed_target.weight.shape[1]
        words = F.linear(  # for all steps at once
            self.embed_target(self._known(target_in)), self.read.weight[:, :size], self.read.bias
        )
        weight = self.read.weight[:, size:]
        context = encoded.states.new_zeros(len(h), encoded.states.shape[-1])
        found: list[tuple[Tensor, ...]] = []
        twice: list[Tensor] = []
        for word in words.unbind(1):
            x = word + F.linear(context, weight)
            (h,), (c,) = self.decoder.step(self.decoder.project(x), [h], [c])
            both = torch.cat([c, h], -1)
            seen = self.attention(both[:, None], memory, state=state, need_weights=True)
            context = seen.context[:, 0]
            found.append((h, both, x, context, seen.weights[:, 0]))
            if self.covers and state is not None:
                twice.append(torch.minimum(seen.weights, state.value).sum((1, 2)))
                state = seen.state
        each = zip(*found, strict=True)
        h, both, x, context, weights = (torch.stack(one, 1) for one in each)
        copying = self._copying(context, both, x)
        extra = {"copying": copying}
        if twice:
            real = target_in != PAD
            extra["penalty"] = self.coverage * (torch.stack(twice, 1) * real).sum() / real.sum()
        combined = self._combined(h, context)
        if (copies := encoded.extra.get("copies")) is None:
            logits = project(self.output, combined)
            return Output(logits.log_softmax(-1) if isinstance(logits, Tensor) else logits, extra)
        logits = self.output(combined)
        return Output(mixture(logits, weights, copying, copies, self._size(copies)), extra)

    def _size(self, copies: Tensor) -> int:
        """V + W, where W own words are the most of an example."""
        most = int(copies.max()) + 1 if copies.numel() else 0
        return max(most, self.target_vocab_size)

    def _remember(self, encoded: Encoded) -> Memory:
        return self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))

    def _initial(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """The decoder's first output and cell (B, H), made smaller from the encoder's last ones."""
        cell, output = encoded.final
        return torch.relu(self.initial_output(output)), torch.relu(self.initial_cell(cell))

    def _covered(self, memory: Memory) -> CarryState | None:
        """Nothing is covered yet: zeros (B, 1, S); None for a model without coverage."""
        if self.attention.carry is None:
            return None
        state: CarryState = self.attention.carry.start(memory.key[:, :1], memory.key)
        return state

    def _known(self, ids: Tensor) -> Tensor:
        """Own words of a source as the unknown words that they are to the vocabulary."""
        return ids.masked_fill(ids >= self.target_vocab_size, UNK)

    def _copying(self, context: Tensor, both: Tensor, x: Tensor) -> Tensor:
        """The log-odds of copying, of 1 - p_gen: (B, T)."""
        generating: Tensor = self.switch(torch.cat([context, both, x], -1))[..., 0]
        return -generating

    def _combined(self, output: Tensor, context: Tensor) -> Tensor:
        combined = self.combine(torch.cat([output, context], -1))
        return dropout(combined, self.dropout, self.training)
