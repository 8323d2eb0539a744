r"""MemN2N as a language model. Sukhbaatar et al. 2015, section 5, arXiv 1503.08895.

    m_i     = A w_i + T_A(i),  c_i = C w_i + T_C(i)       the last N words
    u^1     = 0.1 · 1
    o^k     = Σ_i softmax_i(u^k · m_i) c_i                the same A and C at every hop
    u^{k+1} = f(H u^k + o^k)                              f: ReLU on the second half of the units
    p(w)    = softmax(W u^{K+1})

There is no recurrence over time: what the model knows of the past are its last N words.

Shapes: tokens (B, T); logits (B, T, V) of the word behind each.

The vectors of words are kept once a text and those of times once, whatever window they stand in:
u·m_i = u·A w_i + u·T_A(i), and the sum that is read comes apart in the same way. So a window of N
costs no N vectors a word, which is what the equations as they stand would make.

**Departs from the paper**: the first words of a text look at fewer than N (the paper draws windows
that are full). With `target` other than `source` some words are read that are never written.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Dot, Identity, Softmax, Window, scope
from regard.errors import RequestError
from regard.protocols import PAD, Decoding, Output

__all__ = ["MemN2NLM"]


class MemN2NLM(nn.Module):
    """Predicts a word by looking at the last ones, several times over.

    Args:
        vocab_size: size of the vocabulary.
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
        vocab_size: int,
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
                f"MemN2NLM needs a hop, a memory and 0 to {dim} linear units, got hops={hops}, "
                f"memory={memory}, linear={linear}"
            )
        self.vocab_size, self.dim = vocab_size, dim
        self.count, self.memory, self.linear, self.first = hops, memory, kept, start
        self.keys = nn.Embedding(vocab_size, dim)  # A
        self.values = nn.Embedding(vocab_size, dim)  # C
        self.attention = Attention(
            score=Dot(),
            position=_KeyTimes(memory, dim),
            read=_ValueTimes(memory, dim),
            mask=Window(left=memory - 1, right=0),
            role="hop",
        )
        self.between = nn.Linear(dim, dim, bias=False)  # H
        self.out = nn.Linear(dim, vocab_size, bias=False)  # W
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=scale)

    def linear_start(self, on: bool) -> None:
        """Take the softmax out of the hops, or put it back."""
        self.attention.select = Identity() if on else Softmax()

    def forward(self, tokens: Int[Tensor, "batch token"], last: int | None = None) -> Output:
        """Score the word behind every token, or behind the `last` ones alone: logits (B, T, V).

        Padding on the left is never looked at.
        """
        return Output(self._after(tokens, tokens.shape[1] if last is None else last), {})

    def start(self, batch: int) -> Decoding:
        """The decoding before the first token of this many texts."""
        device = self.keys.weight.device
        return Decoding({}, {"window": torch.zeros(batch, 1, 0, dtype=torch.long, device=device)})

    def step(
        self, tokens: Int[Tensor, "batch beam"], decoding: Decoding
    ) -> tuple[Float[Tensor, "batch beam target"], Decoding]:
        """Read a token of each hypothesis; score the next."""
        window = torch.cat([decoding.carried["window"], tokens[..., None]], -1)
        window = window[..., -self.memory :]
        return self._after(window, 1).squeeze(-2), decoding.advance(window=window)

    def _after(self, words: Tensor, last: int) -> Tensor:
        """Logits (*batch, last, V) behind the last of words (*batch, n)."""
        words = words[..., -(last + self.memory - 1) :]  # no other is looked at
        mask = (words != PAD).unsqueeze(-2)
        memory = self.attention.remember(self.keys(words), self.values(words), mask)
        state = self.between.weight.new_full((*words.shape[:-1], last, self.dim), self.first)
        for hop in range(self.count):
            with scope("hop", hop):
                read = self.attention(state, memory).context
            state = self.between(state) + read
            state = torch.cat([state[..., : self.linear], F.relu(state[..., self.linear :])], -1)
        logits: Tensor = self.out(state)
        return logits

    def extra_repr(self) -> str:
        """Say what has no parameters."""
        units = f"linear={self.linear} of {self.dim}, start={self.first}"
        return f"hops={self.count}, memory={self.memory}, {units}"


class _KeyTimes(nn.Module):
    """u·T_A(i), added to the scores: a position part.

    Shapes:
        table (N, D), of the latest word first; scores of at most Q + N - 1 keys, the last query at
        the last
    """

    def __init__(self, memory: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(memory, dim))

    def before(self, query: Tensor, key: Tensor, *, at: int | Tensor = 0) -> tuple[Tensor, Tensor]:
        """Leave queries and keys as they are."""
        return query, key

    def bias(self, scores: Tensor, query: Tensor, *, at: int | Tensor = 0) -> Tensor:
        """Add to each pair the number of the time between."""
        queries, keys = scores.shape[-2:]
        times = F.pad(torch.matmul(query, self.table.flip(0).T), (0, queries))  # (Q, N + Q)
        width = times.shape[-1] - 1
        # Read with rows one shorter, each row begins one place further to the right.
        skewed: Tensor = times.flatten(-2)[..., : queries * width].unflatten(-1, (queries, width))
        return scores + skewed[..., width - keys :]


class _ValueTimes(nn.Module):
    """Σ_i p_i (c_i + T_C(i)): a read; its times are found as `_KeyTimes` lays them, backwards."""

    def __init__(self, memory: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(memory, dim))

    def forward(self, weights: Tensor, value: Tensor, *, at: int | Tensor = 0) -> Tensor:
        """Add the sum of the times to that of the values."""
        queries, keys = weights.shape[-2:]
        width = queries + len(self.table) - 1
        wide = F.pad(weights, (width - keys, 0)).flatten(-2)
        times = F.pad(wide, (0, queries)).unflatten(-1, (queries, width + 1))
        read: Tensor = torch.matmul(weights, value)
        return read + torch.matmul(times[..., : len(self.table)], self.table.flip(0))
