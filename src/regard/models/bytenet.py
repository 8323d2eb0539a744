r"""ByteNet: dilated convolutions over letters, the decoder stacked on the encoder, no attention.

Kalchbrenner, Espeholt, Simonyan, van den Oord, Graves and Kavukcuoglu, "Neural Machine Translation
in Linear Time", 2016, arXiv 1610.10099.

    block(x) = x + W_3 σ( W_2 *_r σ( W_1 σ(x) ) ),   σ(x) = max(0, LayerNorm(x))
               2d -> d,  1 x k with dilation r,  d -> 2d
    r        = 1, 2, 4, 8, 16, 1, 2, ...             receptive field 1 + Σ (k - 1) r
    |t^|     = a |s| + b                             what the encoder unfolds to; dynamic unfolding
    z_t      = e(y_{t-1}) + s_t   (t < |t^|),   e(y_{t-1}) alone behind it

The encoder's convolutions look to both sides, the decoder's back only. LayerNorm is over a token's
features: statistics over time would let the future in. A step costs the same however long the
output is; the decoder keeps (k - 1) r vectors of each block.

Shapes: source (B, S) and target (B, T) ids; states (B, |t^|, 2d); logits (B, T, V).

**Departs from the paper**: its blocks are the ReLU ones of the translation model; the language
model's multiplicative blocks are not here. How source and target meet is not said in what we could
read: they are summed (tensor2tensor concatenates them and convolves). Behind the last block stand
LayerNorm, ReLU, a 1 x 1 convolution, ReLU and the softmax layer. Dropout, on what a block adds, can
be asked for. The padding's vector is zero, also in the unfolded columns behind the source.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RequestError
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.protocols import Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["ByteNet"]


class ByteNet(nn.Module):
    """Two stacks of residual blocks of dilated convolutions, one upon the other.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        dim: d, the width inside a block; the residual stream has 2 d.
        kernel: k, places a convolution sees; an odd number.
        dilations: r of each block of one set.
        sets: how often the set is repeated, in the encoder and in the decoder.
        ratio, extra: a and b of |t^| = a |s| + b.
        dropout: on what a block adds; 0 in the paper.
    """

    normalized = False

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        dim: int = 800,
        kernel: int = 3,
        dilations: Sequence[int] = (1, 2, 4, 8, 16),
        sets: int = 6,
        ratio: float = 1.2,
        extra: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise RequestError(f"model.kernel: expected an odd number of places, got {kernel}")
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.ratio, self.extra = ratio, extra
        self.embed_source = Embed(source_vocab_size, 2 * dim)
        self.embed_target = Embed(target_vocab_size, 2 * dim)
        self.encoder, self.decoder = (
            nn.ModuleList(
                ResidualBlock(dim, kernel, r, dropout) for _ in range(sets) for r in dilations
            )
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(2 * dim, eps=1e-6)
        self.last = nn.Linear(2 * dim, 2 * dim)
        self.output = nn.Linear(2 * dim, target_vocab_size)

    def unfolded(self, lengths: Tensor) -> Tensor:
        """|t^| of each source, at least its length: (B,)."""
        longer = torch.ceil(lengths * self.ratio - 1e-9).long() + self.extra
        return torch.maximum(longer, lengths)

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Unfold to |t^| columns: states (B, max |t^|, 2d), zero behind each row's own."""
        source, lengths = ids_of(source, lengths)
        columns = self.unfolded(lengths)
        place = torch.arange(int(columns.max()), device=source.device)
        words = F.pad(source, (0, 1))[:, place.clamp(max=source.shape[1])]
        words = words.masked_fill(place >= lengths[:, None], 0)
        inside = (place < columns[:, None])[..., None]  # (B, columns, 1)
        x = self.embed_source(words)
        for block in self.encoder:
            x = block(x, inside=inside)
        return Encoded(x * inside, lengths)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """All target positions at once: logits (B, T, V)."""
        columns = self.encode(source, lengths).states
        time = target_in.shape[1]
        columns = F.pad(columns, (0, 0, 0, max(0, time - columns.shape[1])))[:, :time]
        x = self.embed_target(target_in) + columns
        for block in self.decoder:
            x = block(x)
        return Output(self._logits(x), {})

    def start(self, encoded: Encoded) -> Decoding:
        """The unfolded source; the blocks have seen nothing."""
        rows, _, width = encoded.states.shape
        past = {
            str(i): encoded.states.new_zeros(rows, 1, block.convolution.reach, width // 2)
            for i, block in enumerate(self._blocks())
        }
        return Decoding({"columns": encoded.states}, past)

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One token a hypothesis: (B, beam) to logits (B, beam, V); caches (B, beam, reach, d)."""
        x, columns = self.embed_target(tokens), decoding.memories["columns"]
        if decoding.step < columns.shape[1]:
            x = x + columns[:, decoding.step, None]
        past = {}
        for i, block in enumerate(self._blocks()):
            x, past[str(i)] = block.step(x, decoding.carried[str(i)])
        return self._logits(x), decoding.advance(**past)

    def _blocks(self) -> list["ResidualBlock"]:
        return [block for block in self.decoder if isinstance(block, ResidualBlock)]

    def _logits(self, x: Tensor) -> Any:
        return project(self.output, torch.relu(self.last(torch.relu(self.norm(x)))))


class ResidualBlock(nn.Module):
    """Down to d, a dilated convolution, up to 2d again; LayerNorm and ReLU before each."""

    def __init__(self, dim: int, kernel: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm_down, self.norm, self.norm_up = (
            nn.LayerNorm(size, eps=1e-6) for size in (2 * dim, dim, dim)
        )
        self.down = nn.Linear(2 * dim, dim)
        self.convolution = Convolution(dim, kernel, dilation)
        self.up = nn.Linear(dim, 2 * dim)

    def forward(self, x: Tensor, *, inside: Tensor | None = None) -> Tensor:
        """All places at once: (B, T, 2d); `inside` (B, T, 1) where both sides are looked at."""
        inner = self._inner(x)
        if inside is None:
            return self._outer(x, self.convolution(inner, both=False))
        return self._outer(x, self.convolution(inner * inside, both=True))

    def step(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """One place a hypothesis: x (B, beam, 2d), past (B, beam, reach, d)."""
        inner = self._inner(x)
        convolved, past = self.convolution.step(inner, past.to(inner.dtype))
        return self._outer(x, convolved), past

    def _inner(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.down(torch.relu(self.norm_down(x)))))

    def _outer(self, x: Tensor, convolved: Tensor) -> Tensor:
        added = self.up(torch.relu(self.norm_up(convolved)))
        return x + dropout(added, self.dropout, self.training)


class Convolution(nn.Module):
    r"""A 1 x k convolution with dilation r, as one product with the places it sees side by side.

    .. math:: y_t = b + \sum_{j=0}^{k-1} W_j\, x_{t - (k - 1 - j) r} \quad\text{(looking back)}

    Looking to both sides, it is moved (k - 1) r / 2 places ahead.
    """

    def __init__(self, dim: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.kernel, self.dilation = kernel, dilation
        self.reach = (kernel - 1) * dilation
        """Places behind the newest that it sees."""
        self.product = nn.Linear(kernel * dim, dim)

    def forward(self, x: Tensor, *, both: bool) -> Tensor:
        """All places, (B, T, d) to the same; outside are zeros."""
        ahead = self.reach // 2 if both else 0
        wide = F.pad(x, (0, 0, self.reach - ahead, ahead))
        time = x.shape[1]
        seen = [wide[:, j * self.dilation :][:, :time] for j in range(self.kernel)]
        out: Tensor = self.product(torch.cat(seen, -1))
        return out

    def step(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """One place (B, beam, d) with what came before it (B, beam, reach, d)."""
        window = torch.cat([past, x[..., None, :]], -2)
        return self.product(window[..., :: self.dilation, :].flatten(-2)), window[..., 1:, :]

    def extra_repr(self) -> str:
        """Say the sizes."""
        return f"kernel={self.kernel}, dilation={self.dilation}"
