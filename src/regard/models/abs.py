r"""ABS: attention-based summarization, a feed-forward language model that sees the source.

Rush, Chopra and Weston, "A Neural Attention Model for Abstractive Sentence Summarization",
EMNLP 2015, arXiv 1509.00685.

    y~c = [E y_{i-C+1}; ...; E y_i],   h = tanh(U y~c)
    p(y_{i+1} | y_c, x) ∝ exp(V h + W enc(x, y_c))

with one of these encoders, M being the number of source words:

    none          nothing: a language model
    bag of words  enc = (1 / M) Σ_j x~_j,                       x~ = [F x_1, ..., F x_M]
    convolution   z^0 = x~,  z^l_j = tanh(max(z'_{2j-1}, z'_{2j})),  z'_j = Q^l z^{l-1}_{j-Q..j+Q}
                  enc = max_j z^L_j
    attention     y~'c = [G y_{i-C+1}; ...; G y_i],  p ∝ exp(x~^T P y~'c) over the M words
                  x-_j = (1 / Q) Σ_{q=j-Q}^{j+Q} x~_q,          enc = p^T x-

Attention compares the words as they are, and reads smoothed ones. Its state is nothing but the last
C words, so all positions of a target are computed at once.

Shapes: source (B, S) and target (B, T) ids; windows (B, T, C); x~ (B, S, source_embed);
logits (B, T, V).

**Two readings.** `reading="paper"` is the equations as printed: no biases, 1 / Q as the factor of a
sum of 2Q + 1 vectors. `reading="code"` is the authors' program (NAMAS): biases everywhere, a
learned factor and a learned bias of the smoothed vectors (two numbers), and an affine layer behind
each encoder. Its convolutional encoder is another one (rectifiers, one pooling in three layers, no
padding); here both readings have the paper's.

**Departs from the paper**: with Q = 0 nothing is smoothed, where 1 / Q has no meaning. The words
before the first are start symbols; the source has an end symbol behind it. Rows of E, F and G are
scaled to a length of at most `max_norm` after every update, not once in an epoch. There is a
`dropout`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Dot, Lengths
from regard.errors import RequestError, nearest
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.protocols import BOS, Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["ABS"]

READINGS = ("paper", "code")


class ABS(nn.Module):
    """A language model of the last words, and what an encoder says of the source.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        encoder: "attention", "convolution", "bag-of-words" or "none".
        embed: D, size of a word vector of E.
        source_embed: size of a word vector of F and G, and of what the encoder gives.
        hidden: H.
        window: C, how many written words are seen.
        reach: Q, words on each side that are smoothed, or convolved.
        layers: L of the convolutional encoder.
        reading: "paper" or "code" (see above).
        max_norm: the greatest length of a word vector after an update; 0 for no limit.
        dropout: of word vectors, and of [h; enc].

    Raises:
        RequestError: no encoder or reading has that name.

    Example:
        >>> model = ABS(9, 7, embed=8, source_embed=8, hidden=6)
        >>> model(torch.tensor([[5, 6, 2]]), torch.tensor([[1, 4, 5, 6]])).logits.shape
        torch.Size([1, 4, 7])
    """

    normalized = False

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        encoder: str = "attention",
        embed: int = 200,
        source_embed: int = 200,
        hidden: int = 400,
        window: int = 5,
        reach: int = 2,
        layers: int = 3,
        reading: str = "paper",
        max_norm: float = 1.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for given, what, known in ((encoder, "encoder", ENCODERS), (reading, "reading", READINGS)):
            if given not in known:
                raise RequestError(f"no {what} of ABS is called {given!r}; {nearest(given, known)}")
        code = reading == "code"
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.window, self.max_norm, self.dropout = window, max_norm, dropout
        self.embed = Embed(target_vocab_size, embed, dropout=dropout)  # E
        self.hidden = nn.Linear(window * embed, hidden, bias=code)  # U
        self.encoder: _Encoder = ENCODERS[encoder](
            source_vocab_size,
            target_vocab_size,
            source_embed,
            window=window,
            reach=reach,
            layers=layers,
            code=code,
            dropout=dropout,
        )
        self.output = nn.Linear(hidden + self.encoder.size, target_vocab_size, bias=code)  # [V W]

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """What the encoder knows of the source alone: states (B, S, source_embed), or (B, 1, …)."""
        source, lengths = ids_of(source, lengths)
        return self.encoder.encode(source, lengths)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """All positions at once: logits (B, T, V)."""
        memory = self.encoder.remember(self.encode(source, lengths))
        begun = F.pad(target_in, (self.window - 1, 0), value=BOS)
        state = self._state(begun.unfold(1, self.window, 1), memory)
        return Output(project(self.output, state), {})

    def start(self, encoded: Encoded) -> Decoding:
        """A window of start symbols."""
        batch, device = len(encoded.lengths), encoded.lengths.device
        window = torch.full((batch, 1, self.window), BOS, dtype=torch.int64, device=device)
        return Decoding({"source": self.encoder.remember(encoded)}, {"window": window})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); beams are the queries."""
        window = torch.cat([decoding.carried["window"][..., 1:], tokens[..., None]], -1)
        state = self._state(window, decoding.memories["source"])
        return self.output(state), decoding.advance(window=window)

    @torch.no_grad()
    def constrain(self) -> None:
        """Scale word vectors that are longer than `max_norm` to this length."""
        if not self.max_norm:
            return
        for table in (m.weight for m in self.modules() if isinstance(m, Embed)):
            norm = torch.linalg.vector_norm(table, dim=1, keepdim=True)
            table.mul_((self.max_norm / norm.clamp(min=self.max_norm)).to(table.dtype))

    def _state(self, window: Tensor, memory: Any) -> Tensor:
        """[h; enc] of windows (B, Q, C): (B, Q, H + size)."""
        h = torch.tanh(self.hidden(self.embed(window).flatten(-2)))
        read = self.encoder(window, memory).to(h.dtype)
        state = torch.cat([h, read.expand(*h.shape[:-1], -1)], -1)
        return dropout(state, self.dropout, self.training)


class _Encoder(nn.Module, ABC):
    """An encoder: `encode` reads the source once, `remember` prepares it, a call reads for windows.

    Shapes:
        a call: windows (B, Q, C) and the memory to (B, Q, size), or (B, 1, size) for all windows
    """

    size: int

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Read (B, S) ids."""

    def remember(self, encoded: Encoded) -> Any:
        return encoded.states

    def forward(self, window: Tensor, memory: Any) -> Tensor:
        read: Tensor = memory
        return read


class _Nothing(_Encoder):
    """No encoder: (B, 1, 0)."""

    size = 0

    def __init__(self, source_size: int, target_size: int, dim: int, **_: Any) -> None:
        super().__init__()

    def encode(self, source: Tensor, lengths: Tensor) -> Encoded:
        return Encoded(source.new_zeros((len(source), 1, 0), dtype=torch.float32), lengths)


class _BagOfWords(_Encoder):
    """The mean of the word vectors: (B, 1, dim)."""

    def __init__(
        self, source_size: int, target_size: int, dim: int, *, code: bool, dropout: float, **_: Any
    ) -> None:
        super().__init__()
        self.size = dim
        self.embed = Embed(source_size, dim, dropout=dropout)  # F
        self.affine = nn.Linear(dim, dim) if code else nn.Identity()

    def encode(self, source: Tensor, lengths: Tensor) -> Encoded:
        x = self.embed(source).masked_fill(~_real(source, lengths), 0.0)
        mean = x.sum(1, keepdim=True) / lengths.clamp(min=1)[:, None, None].to(x.dtype)
        return Encoded(self.affine(mean), lengths)


class _Convolution(_Encoder):
    """A time-delay net over the word vectors, and the maximum over time: (B, 1, dim)."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        dim: int,
        *,
        reach: int,
        layers: int,
        code: bool,
        dropout: float,
        **_: Any,
    ) -> None:
        super().__init__()
        self.size = dim
        self.embed = Embed(source_size, dim, dropout=dropout)  # F
        self.layers = nn.ModuleList(
            nn.Conv1d(dim, dim, 2 * reach + 1, padding=reach, bias=code) for _ in range(layers)
        )
        self.affine = nn.Linear(dim, dim) if code else nn.Identity()

    def encode(self, source: Tensor, lengths: Tensor) -> Encoded:
        z = self.embed(source).transpose(1, 2)  # (B, dim, S)
        real, left = _real(source, lengths).transpose(1, 2), lengths
        for layer in self.layers:
            z = layer(z.masked_fill(~real, 0.0)).masked_fill(~real, -torch.inf)
            z = torch.tanh(F.max_pool1d(z, 2, ceil_mode=True))
            left = (left + 1) // 2
            real = _real(z[:, 0], left).transpose(1, 2)
        most = z.masked_fill(~real, -torch.inf).amax(2)[:, None]  # (B, 1, dim)
        return Encoded(self.affine(most), lengths)


class _Attending(_Encoder):
    """The paper's encoder: scores of words as they are, a weighted sum of smoothed ones."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        dim: int,
        *,
        window: int,
        reach: int,
        code: bool,
        dropout: float,
        **_: Any,
    ) -> None:
        super().__init__()
        self.size, self.reach = dim, reach
        self.embed = Embed(source_size, dim, dropout=dropout)  # F
        self.context = Embed(target_size, dim, dropout=dropout)  # G
        self.query = nn.Linear(window * dim, dim, bias=code)  # P
        self.attention = Attention(Dot(), role="cross")
        self.smooth = _Smoothing(reach) if code else None
        self.affine = nn.Linear(dim, dim) if code else nn.Identity()

    def encode(self, source: Tensor, lengths: Tensor) -> Encoded:
        x = self.embed(source).masked_fill(~_real(source, lengths), 0.0)
        smooth = smoothed(x, self.reach) if self.smooth is None else self.smooth(x)
        return Encoded(x, lengths, None, {"values": smooth})

    def remember(self, encoded: Encoded) -> Any:
        return self.attention.remember(
            encoded.states, encoded.extra["values"], Lengths(encoded.lengths)
        )

    def forward(self, window: Tensor, memory: Any) -> Tensor:
        query = self.query(self.context(window).flatten(-2))
        context = self.attention(query, memory).context
        read: Tensor = self.affine(context.to(query.dtype))
        return read


class _Smoothing(nn.Module):
    """Sums of neighbors with a learned factor and a learned bias, as in the authors' code."""

    def __init__(self, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.factor = nn.Parameter(torch.tensor(1.0 / (2 * reach + 1)))
        self.bias = nn.Parameter(torch.tensor(0.0))

    def forward(self, x: Tensor) -> Tensor:
        return sums(x, self.reach) * self.factor + self.bias


def smoothed(x: Tensor, reach: int) -> Tensor:
    """Each vector with those around it: the sum of 2Q + 1, divided by Q, as printed.

    Shapes:
        x (B, S, D), zero at padding, to the same
    """
    return sums(x, reach) / reach if reach else x


def sums(x: Tensor, reach: int) -> Tensor:
    """Of each vector and `reach` on both sides; zeros stand outside: (B, S, D) to the same."""
    size = 2 * reach + 1
    # Contiguous: on a GPU, PyTorch 2.11 gives wrong gradients of a transposed tensor here.
    mean = F.avg_pool1d(x.transpose(1, 2).contiguous(), size, stride=1, padding=reach)
    return mean.transpose(1, 2) * size


def _real(source: Tensor, lengths: Tensor) -> Tensor:
    """What is not padding: (B, S, 1)."""
    return (torch.arange(source.shape[1], device=source.device) < lengths[:, None])[..., None]


ENCODERS: Mapping[str, Callable[..., _Encoder]] = MappingProxyType(
    {
        "none": _Nothing,
        "bag-of-words": _BagOfWords,
        "convolution": _Convolution,
        "attention": _Attending,
    }
)
