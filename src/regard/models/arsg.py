r"""ARSG, attention that knows where it was: speech to phonemes or letters.

Chorowski, Bahdanau, Serdyuk, Cho and Bengio, "Attention-Based Models for Speech Recognition",
NIPS 2015, arXiv 1506.07503.

    h_1 … h_L       three bidirectional GRU layers over the frames       3.1
    f_i  = F * α_{i-1}                                                   (8)
    e_ij = w^T tanh(W s_{i-1} + V h_j + U f_ij + b)                      (9), "hybrid"
    α_ij = exp(e_ij) / Σ_k exp(e_ik), or σ(e_ij) / Σ_k σ(e_ik)           "smooth", 2.3
    g_i  = Σ_j α_ij h_j
    y_i  ~ Generate(s_{i-1}, g_i)                                        (2): maxout, softmax
    s_i  = Recurrency(s_{i-1}, g_i, y_i)                                 (3): a GRU

Without f the score is "content" alone; without V h it is "location" alone. Before the first step
all weight is on frame 0. At use, long inputs are served by sharper weights, exp(β e_ij), by the
best frames alone, or by a window around the middle of the weights of the step before (2.3).

Shapes: frames (B, T, D), target ids (B, U); states h (B, T', 2H) with T' = ceil(T / join);
logits (B, U, V).

**Departs from the paper**: `join` reads neighboring frames as one (1: as printed), dropout can be
asked for, and so can a CTC loss beside (Kim, Hori and Watanabe 2017, "Joint CTC-Attention"). y_i is
read through a word vector. `scale=None` starts the matrices as Glorot. Column norms are held and
noise is put on weights by the training settings, not by the model.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import (
    Additive,
    Attended,
    Attention,
    CarryState,
    Dense,
    Lengths,
    LocationAware,
    Memory,
    PreviousWeights,
    Score,
    Select,
    Sharpen,
    Smooth,
    Softmax,
    TopK,
    attend,
)
from regard.errors import RequestError, nearest
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.frame_encoder import FrameEncoder
from regard.layers.maxout import Maxout
from regard.layers.rnn import Gated
from regard.protocols import PAD, Decoding, Encoded, Inputs, Output, frames_of

__all__ = ["ARSG"]

SCORES: Mapping[str, Callable[[int, int, int, int, int], Score]] = MappingProxyType(
    {
        "content": lambda state, key, align, filters, width: Additive(state, key, align, bias=True),
        "hybrid": lambda state, key, align, filters, width: LocationAware(
            state, key, align, filters=filters, width=width
        ),
        # The same key everywhere: its product is the bias b.
        "location": lambda state, key, align, filters, width: LocationAware(
            state, 1, align, filters=filters, width=width, bias=False
        ),
    }
)
SELECTS: Mapping[str, Callable[[], Select]] = MappingProxyType(
    {"softmax": Softmax, "smooth": Smooth}
)


class ARSG(nn.Module):
    """The attention-based recurrent sequence generator, from frames to symbols.

    Args:
        source_dim: D, numbers of a frame.
        target_vocab_size: of the symbols.
        hidden: H, units of each direction of the encoder.
        layers: of the encoder.
        join: neighboring frames that are read as one.
        state: units of the decoder.
        align: units of the score.
        maxout: units of the readout.
        attention: "content", "location" or "hybrid".
        filters, width: of F, in joined frames; the width is odd.
        select: "softmax" or "smooth".
        sharpen: β, where the model is used, not where it learns.
        keep: only this many frames have weight, where the model is used; 0: all.
        reach: only frames so near to the middle of the last weights are looked at, where the model
            is used; 0: all.
        dropout: on the encoder's states, on word vectors and on the readout; 0 in the paper.
        ctc: weight of a CTC loss on the encoder's states, in training; 0: none.
        scale: standard deviation of the matrices at the start (not the recurrent ones); None:
            Glorot's.
    """

    normalized = False

    def __init__(
        self,
        source_dim: int,
        target_vocab_size: int,
        *,
        hidden: int = 256,
        layers: int = 3,
        join: int = 1,
        state: int = 256,
        align: int = 512,
        maxout: int = 64,
        attention: str = "hybrid",
        filters: int = 10,
        width: int = 201,
        select: str = "softmax",
        sharpen: float = 1.0,
        keep: int = 0,
        reach: int = 0,
        dropout: float = 0.0,
        ctc: float = 0.0,
        scale: float | None = 0.01,
    ) -> None:
        super().__init__()
        for given, what, known in ((attention, "attention", SCORES), (select, "select", SELECTS)):
            if given not in known:
                raise RequestError(
                    f"no {what} of ARSG is called {given!r}; {nearest(given, known)}"
                )
        if keep and sharpen != 1.0:
            raise RequestError("sharpen and keep: expected one of the two, got both")
        if select == "smooth" and (keep or sharpen != 1.0):
            raise RequestError("sharpen and keep are of the softmax; expected select 'softmax'")
        self.source_dim, self.target_vocab_size = source_dim, target_vocab_size
        self.dropout, self.ctc, self.scale, self.reach = dropout, ctc, scale, reach
        self.blind = attention == "location"
        self.encoder = FrameEncoder(source_dim, hidden, layers, join=join, dropout=dropout)
        score = SCORES[attention](state, 2 * hidden, align, filters, width)
        self.attention = Attention(
            score,
            select=SELECTS[select](),
            # A window about the last weights needs them too.
            carry=PreviousWeights(first=0) if reach or attention != "content" else None,
            role="cross",
        )
        self.used: Select | None = None
        """The select of a model in use, where it is another one."""
        if keep or sharpen != 1.0:
            self.used = TopK(keep) if keep else Sharpen(sharpen)
        self.embed_target = Embed(target_vocab_size, state, dropout=dropout)
        self.first = nn.Parameter(torch.empty(state))  # s_0
        self.word = nn.Linear(state, 3 * state)
        self.context = nn.Linear(2 * hidden, 3 * state, bias=False)
        self.recurrent = Gated(state, reset="before", update="take")
        self.readout = Maxout(state + 2 * hidden, maxout)
        self.output = nn.Linear(maxout, target_vocab_size)
        self.frames = nn.Linear(2 * hidden, target_vocab_size) if ctc else None
        self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv1d | Embed):
                if self.scale is None:
                    nn.init.xavier_uniform_(module.weight)
                else:
                    nn.init.normal_(module.weight, std=self.scale)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.first, std=0.001)
        self.embed_target.silence()

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """States (B, T', 2H) of the joined frames."""
        states, lengths = self.encoder(*frames_of(source, lengths, self.source_dim))
        return Encoded(states, lengths)

    def start(self, encoded: Encoded) -> Decoding:
        """V h once per sound, and s_0; nothing was looked at yet."""
        state = self.first.expand(len(encoded.states), 1, -1)
        carried = {"state": state, "context": None, "weights": None}
        return Decoding({"source": self._remember(encoded)}, carried)

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One symbol a hypothesis: (B, beam) to (B, beam, V); beams are the queries."""
        state, context, before = (decoding.carried[k] for k in ("state", "context", "weights"))
        if context is not None:  # s_{i-1} from y_{i-1} and g_{i-1}; the start symbol is not read
            inputs = self.word(self.embed_target(tokens)) + self.context(context)
            state = self.recurrent(inputs, state)
        found = self._look(state, decoding.memories["source"], before)
        logits = self._logits(state, found.context.to(state.dtype))
        carried = {"state": state, "context": found.context.to(state.dtype)}
        return logits, decoding.advance(**carried, weights=found.state)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: attention and the recurrence step by step, the rest at once."""
        encoded = self.encode(source, lengths)
        memory, before = self._remember(encoded), None
        state = self.first.expand(len(encoded.states), -1)
        inputs = self.embed_target.through(target_in[:, 1:], self.word)  # (B, U-1, 3H)
        advance = self.recurrent.loop(self.context.weight, inputs.dtype)
        words = inputs.unbind(1)  # one node: indexing would fill zeros of this size at each step
        states: list[Tensor] = []
        contexts: list[Tensor] = []
        for i in range(target_in.shape[1]):
            if i:
                state = advance(words[i - 1], contexts[-1], states[-1])
            found = self._look(state[:, None], memory, before)
            before = found.state
            states.append(state)
            contexts.append(found.context[:, 0].to(inputs.dtype))
        logits = self._logits(torch.stack(states, 1), torch.stack(contexts, 1))
        return Output(logits, self._beside(encoded, target_in))

    def _remember(self, encoded: Encoded) -> Memory:
        keys = encoded.states
        if self.blind:
            keys = keys.new_ones(*keys.shape[:2], 1)
        return self.attention.remember(keys, encoded.states, mask=Lengths(encoded.lengths))

    def _look(self, state: Tensor, memory: Memory, before: Any) -> Attended:
        """g_i of each hypothesis: (B, beam, H) to (B, beam, 2H)."""
        if self.training or (self.used is None and not self.reach):
            found: Attended = self.attention(state, memory, state=before)
            return found
        parts = self.attention.parts | ({"select": self.used} if self.used else {})
        near = _near(before, self.reach) if self.reach and before is not None else None
        return attend(state, memory, mask=near, state=before, name=self.attention, **parts)

    def _logits(self, states: Tensor, contexts: Tensor) -> Any:
        t = self.readout(torch.cat([states, contexts], -1))
        return project(self.output, dropout(t, self.dropout, self.training))

    def _beside(self, encoded: Encoded, target_in: Tensor) -> dict[str, Tensor]:
        """The CTC loss of the batch for each target token."""
        if self.frames is None or not self.training:
            return {}
        wide = torch.promote_types(encoded.states.dtype, torch.float32)
        logs = self.frames(encoded.states).log_softmax(-1, dtype=wide).transpose(0, 1)
        counts = (target_in != PAD).sum(1) - 1
        total = F.ctc_loss(
            logs, target_in[:, 1:], encoded.lengths, counts, PAD, "sum", zero_infinity=True
        )
        return {"penalty": self.ctc * total / (counts.sum() + len(counts))}


def _near(before: CarryState, reach: int) -> Dense:
    """Frames at most `reach` from the median of the last weights: (B, beam, T')."""
    reached = before.value.detach().cumsum(-1) >= 0.5
    middle = reached.long().argmax(-1, keepdim=True)
    places = torch.arange(reached.shape[-1], device=reached.device)
    return Dense((places - middle).abs() <= reach)
