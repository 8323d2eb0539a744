r"""Temporal attention: a caption whose words look at the frames of a clip.

Yao, Torabi, Cho, Ballas, Pal, Larochelle and Courville, "Describing Videos by Exploiting Temporal
Structure", ICCV 2015, arXiv 1502.08029; also in Cho, Courville and Bengio, "Describing Multimedia
Content using Attention-based Encoder-Decoder Networks", 2015.

    v_1 … v_n        a vector of each frame: [what is there ; what moves]          3.1, 4.1
    e_i^(t) = w^T tanh(W_a h_{t-1} + U_a v_i + b_a)                                (6)
    α_i^(t) = exp(e_i^(t)) / Σ_j exp(e_j^(t))
    φ_t(V)  = Σ_i α_i^(t) v_i                                                      (5)
    h_t     = LSTM([E y_{t-1} ; φ_t(V)], h_{t-1})                                  (2)-(4)
    p(y_t)  = softmax(U_p tanh(W_p [h_t ; φ_t(V) ; E y_{t-1}] + b_p) + d)

What is there is the mean over the places of a frame of the maps of a 2-D network. What moves is a
3-D convolution of these maps, averaged in a coarse grid, over a frame and its two neighbors: the
local temporal structure. Neither knows when a frame is. Without attention ("mean", the paper's
baseline) every frame counts the same.

Shapes: clips (B, T, C, H, W) or frames (B, T, D), target ids (B, U); logits (B, U, V).

**Departs from the paper**: both networks are ours, of any size, and trained with the rest; there
GoogLeNet reads frames and a 3-D network, trained on action recognition, descriptors of motion (HoG,
HoF, MBH) in blocks of frames. h_0 and c_0 come from the mean of the frames, as the released code
has them. Dropout stands on frames, words and around the tanh. `scale=None` starts the matrices as
Glorot.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Additive, Attention, Lengths, Memory, Score, Uniform
from regard.catalog.parts import Chosen, chosen
from regard.errors import RequestError, nearest
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.lstm import LSTM
from regard.layers.pool import real
from regard.models.vgg import ConvolutionBlocks
from regard.protocols import BOS, Decoding, Encoded, Inputs, Output, clips_of, frames_of, unpacked

__all__ = ["TemporalCaptioner"]

SCORES: Mapping[str, Callable[[int, int, int], Score]] = MappingProxyType(
    {
        "temporal": lambda state, size, align: Additive(state, size, align, bias=True),
        "mean": lambda state, size, align: Uniform(),
    }
)


class TemporalCaptioner(nn.Module):
    """An LSTM that writes a caption, with attention over the frames of a clip.

    Args:
        in_channels: of a frame.
        target_vocab_size: of the captions.
        widths, convolutions: of the 2-D network; see `ConvolutionBlocks`.
        motion: filters of the 3-D convolution; 0: none.
        grid: cells each way, in which maps are averaged before it.
        embed: size of a word vector.
        hidden: H, cells of the LSTM.
        align: units of the score.
        attention: "temporal", or "mean": every frame counts the same; or temporal attention's
            parts, as `{score: general, select: sparsemax}`; see `catalog.parts`.
        dropout: on frames, on word vectors and around the tanh of the output.
        scale: standard deviation of the matrices at the start; None: Glorot's.
    """

    normalized = False

    def __init__(
        self,
        in_channels: int,
        target_vocab_size: int,
        *,
        widths: Sequence[int] = (64, 128, 256, 512),
        convolutions: Sequence[int] = (2, 2, 4, 4),
        motion: int = 256,
        grid: int = 4,
        embed: int = 468,
        hidden: int = 3518,
        align: int = 256,
        attention: str | Chosen = "temporal",
        dropout: float = 0.5,
        scale: float | None = 0.01,
    ) -> None:
        super().__init__()
        told = {} if isinstance(attention, str) else attention
        attention = attention if isinstance(attention, str) else "temporal"
        if attention not in SCORES:
            raise RequestError(
                f"no attention of TemporalCaptioner is called {attention!r}; "
                f"{nearest(attention, SCORES)}"
            )
        self.in_channels, self.target_vocab_size = in_channels, target_vocab_size
        self.embed, self.dropout = embed, dropout
        self.features = ConvolutionBlocks(in_channels, widths, convolutions)
        self.grid = grid
        self.motion: nn.Conv3d | None = None
        if motion:
            window = (3, grid, grid)  # three frames, all of each
            self.motion = nn.Conv3d(widths[-1], motion, window, padding=(1, 0, 0))
        self.size = size = widths[-1] + motion
        self.initial_cell, self.initial = nn.Linear(size, hidden), nn.Linear(size, hidden)
        own = Attention(SCORES[attention](hidden, size, align), role="cross")
        self.attention = chosen(own, told, query=hidden, key=size, hidden=align)
        self.embed_target = Embed(target_vocab_size, embed, dropout=dropout)
        self.decoder = LSTM(embed + size, hidden, bias=True)
        self.readout = nn.Linear(hidden + size + embed, embed)
        self.output = nn.Linear(embed, target_vocab_size)
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | Embed) and not name.startswith("features"):
                if scale is None:
                    nn.init.xavier_uniform_(module.weight)
                else:
                    nn.init.normal_(module.weight, std=scale)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        self.embed_target.silence()

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """A vector of each frame (B, T, D) of clips, or the vectors that are given."""
        dtype, (values, _) = self.output.weight.dtype, unpacked(source, lengths)
        if values.dim() == 3:
            frames, lengths = frames_of(source, lengths, self.size)
            frames = frames.to(dtype)
        else:
            clips, lengths = clips_of(source, lengths, self.in_channels)
            frames = self._read(clips.to(dtype), lengths)
        return Encoded(dropout(frames, self.dropout, self.training), lengths)

    def _read(self, clips: Tensor, lengths: Tensor) -> Tensor:
        """What is there and what moves, the means over the places of each frame."""
        batch, time = clips.shape[:2]
        inside = real(lengths, clips)
        each: Tensor = self.features(clips.flatten(0, 1)).unflatten(0, (batch, time))
        each = each * inside[:, :, None, None, None]  # what lies behind the end moves nothing
        there = each.mean((3, 4))
        if self.motion is None:
            return there
        coarse = F.adaptive_avg_pool2d(each.flatten(0, 1), self.grid).unflatten(0, (batch, time))
        moves = torch.relu(self.motion(coarse.transpose(1, 2)))[..., 0, 0].mT
        return torch.cat([there, moves * inside[..., None]], -1)

    def start(self, encoded: Encoded) -> Decoding:
        """U_a v once per clip, h_0 and c_0."""
        h, c = self._initial(encoded)
        return Decoding({"source": self._remember(encoded)}, {"h": h[:, None], "c": c[:, None]})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); beams are the queries."""
        h, c = decoding.carried["h"], decoding.carried["c"]
        word = self._words(tokens)
        context = self.attention(h, decoding.memories["source"]).context.to(h.dtype)
        inputs = self.decoder.project(torch.cat([word, context], -1)).flatten(0, 1)
        (flat_h,), (flat_c,) = self.decoder.step(inputs, [h.flatten(0, 1)], [c.flatten(0, 1)])
        h, c = flat_h.view_as(h), flat_c.view_as(c)
        return self._logits(word, h, context), decoding.advance(h=h, c=c)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: attention and the LSTM word by word, the output at once."""
        encoded = self.encode(source, lengths)
        memory = self._remember(encoded)
        h, c = self._initial(encoded)
        words = self._words(target_in)
        inputs = self.decoder.project(words, slice(self.embed)).unbind(1)
        states, contexts = [], []
        for given in inputs:
            context = self.attention(h[:, None], memory).context[:, 0].to(h.dtype)
            fed = self.decoder.project(context, slice(self.embed, None))
            (h,), (c,) = self.decoder.step(given + fed, [h], [c])
            states.append(h)
            contexts.append(context)
        return Output(self._logits(words, torch.stack(states, 1), torch.stack(contexts, 1)), {})

    def _remember(self, encoded: Encoded) -> Memory:
        return self.attention.remember(encoded.states, mask=Lengths(encoded.lengths))

    def _initial(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        inside = real(encoded.lengths, encoded.states)[..., None]
        mean = (encoded.states * inside).sum(1) / encoded.lengths[:, None]
        return torch.tanh(self.initial(mean)), torch.tanh(self.initial_cell(mean))

    def _words(self, tokens: Tensor) -> Tensor:
        """Word vectors; before the first word stands a zero."""
        found: Tensor = self.embed_target(tokens)
        return found.masked_fill((tokens == BOS)[..., None], 0.0)

    def _logits(self, words: Tensor, states: Tensor, contexts: Tensor) -> Any:
        t = dropout(torch.cat([states, contexts, words], -1), self.dropout, self.training)
        t = torch.tanh(self.readout(t))
        return project(self.output, dropout(t, self.dropout, self.training))
