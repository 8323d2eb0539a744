r"""MemN2N as a language model. Sukhbaatar et al. 2015, section 5, arXiv 1503.08895.

    m_i     = A w_i + T_A(i),  c_i = C w_i + T_C(i)       the last N words
    u^1     = 0.1 · 1
    o^k     = Σ_i softmax_i(u^k · m_i) c_i                the same A and C at every hop
    u^{k+1} = f(H u^k + o^k)                              f: ReLU on the second half of the units
    p(w)    = softmax(W u^{K+1})

There is no recurrence over time: what the model knows of the past are its last N words.

Shapes: tokens (B, T); logits (B, T, V) of the word behind each.

**Departs from the paper**: the first words of a text look at fewer than N (the paper draws windows
that are full). With `target` other than `source` some words are read that are never written.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Dot, Identity, Softmax, scope
from regard.errors import RequestError
from regard.protocols import Decoding, Output

__all__ = ["MemN2NLM"]


class MemN2NLM(nn.Module):
    """Predicts a word by looking at the last ones, several times over.

    Args:
        source, target: words that are read, and written.
        dim: d.
        hops: K.
        memory: N, how many words are looked at.
        linear: units that f leaves as they are; half of them where not given.
        start: of every unit of u^1.
        scale: standard deviation of the first weights.
    """

    normalized = False

    def __init__(
        self,
        source: int,
        target: int,
        *,
        dim: int = 150,
        hops: int = 6,
        memory: int = 100,
        linear: int | None = None,
        start: float = 0.1,
        scale: float = 0.05,
    ) -> None:
        super().__init__()
        kept = dim // 2 if linear is None else linear
        if hops < 1 or memory < 1 or not 0 <= kept <= dim:
            raise RequestError(
                f"MemN2NLM needs a hop, a memory and 0 to {dim} linear units, came hops={hops}, "
                f"memory={memory}, linear={linear}"
            )
        self.source, self.target, self.dim = source, target, dim
        self.count, self.linear, self.first = hops, kept, start
        self.keys = nn.Embedding(source, dim)  # A
        self.values = nn.Embedding(source, dim)  # C
        self.key_times = nn.Parameter(torch.empty(memory, dim))  # T_A, of the latest word first
        self.value_times = nn.Parameter(torch.empty(memory, dim))  # T_C
        self.attention = Attention(score=Dot())
        self.between = nn.Linear(dim, dim, bias=False)  # H
        self.out = nn.Linear(dim, target, bias=False)  # W
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=scale)

    def linear_start(self, on: bool) -> None:
        """Take the softmax out of the hops, or put it back."""
        self.attention.select = Identity() if on else Softmax()

    def forward(self, tokens: Int[Tensor, "batch token"]) -> Output:
        """Score the word behind every token: logits (B, T, V)."""
        size = min(len(self.key_times), tokens.shape[1])
        windows = F.pad(tokens, (size - 1, 0)).unfold(1, size, 1)  # (B, T, N)
        steps = torch.arange(tokens.shape[1], device=tokens.device)[:, None]
        there = torch.arange(size, device=tokens.device) >= size - 1 - steps  # (T, N)
        return Output(self._after(windows, there[:, None]), {})

    def start(self, batch: int) -> Decoding:
        """The decoding before the first token of so many texts."""
        device = self.key_times.device
        return Decoding({}, {"window": torch.zeros(batch, 1, 0, dtype=torch.long, device=device)})

    def step(
        self, tokens: Int[Tensor, "batch beam"], decoding: Decoding
    ) -> tuple[Float[Tensor, "batch beam target"], Decoding]:
        """Read a token of each hypothesis; score the next."""
        window = torch.cat([decoding.carried["window"], tokens[..., None]], -1)
        window = window[..., -len(self.key_times) :]
        return self._after(window, None), decoding.advance(window=window)

    def _after(self, words: Tensor, mask: Tensor | None) -> Tensor:
        """Logits (*batch, V) behind windows of words (*batch, n), the latest last."""
        n = words.shape[-1]
        key = self.keys(words) + self.key_times[:n].flip(0)
        value = self.values(words) + self.value_times[:n].flip(0)
        memory = self.attention.remember(key, value)
        state = key.new_full((*words.shape[:-1], 1, self.dim), self.first)
        for hop in range(self.count):
            with scope("hop", hop):
                read = self.attention(state, memory, mask=mask).context
            state = self.between(state) + read
            state = torch.cat([state[..., : self.linear], F.relu(state[..., self.linear :])], -1)
        logits: Tensor = self.out(state.squeeze(-2))
        return logits

    def extra_repr(self) -> str:
        """Say what has no parameters."""
        return f"hops={self.count}, linear={self.linear} of {self.dim}, start={self.first}"
