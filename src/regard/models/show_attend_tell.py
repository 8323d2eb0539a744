r"""Show, attend and tell: a caption whose words look at regions of the picture.

Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel and Bengio, "Show, Attend and Tell: Neural Image
Caption Generation with Visual Attention", ICML 2015, arXiv 1502.03044.

    a_1 … a_L      the maps of a convolutional network, one vector for each region       3.1.1
    e_ti = v^T tanh(W_a a_i + W_h h_{t-1} + b),   α_t = softmax_i(e_t)                  (4), (5)
    c_0  = tanh(f_c(mean a)),   h_0 = tanh(f_h(mean a))
    z_t  = β_t Σ_i α_ti a_i,   β_t = σ(w_β^T h_{t-1} + b_β)                "soft", 4.2, 4.2.1
    z_t  = a_{s_t},   s_t ~ Multinoulli(α_t)                               "hard", 4.1
    h_t  = LSTM([E y_{t-1} ; z_t], h_{t-1})                                              (1)-(3)
    p(y_t) ∝ exp(L_o tanh(E y_{t-1} + L_h h_t + L_z z_t))                                (7)

To the loss of a batch are added, in training:

    λ Σ_i (1 - Σ_t α_ti)²                                       "soft", doubly stochastic, (14)
    -λ_r (log p(y) - b) Σ_t log p(s_t) - λ_e Σ_t H[α_t]         "hard", (11), (12)

both means over the captions. log p(y) is the mean over a caption's words, and b a moving average of
it, 0.9 b + 0.1 log p(y). In half of the batches hard attention reads the expected vector instead
of the sample: one coin for a batch, as in the released code.

Shapes: pictures (B, C, H, W) or regions (B, L, D), target ids (B, T); logits (B, T, V).

**Departs from the paper**: the convolutions are a network of ours of any size, trained with the
rest, or none: regions are given then, as of a network that others trained (`task.backbone`).
Words enter the output through a tanh, and the gate β is also in the output, as in the released
code. Captions of a batch may have different lengths; padding counts nowhere. With "hard" attention
there is no gate, and a model in use reads the expected vector. `scale=None` starts the matrices as
Glorot.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Additive, Attended, Attention, Memory, Score, Uniform
from regard.catalog.parts import Chosen, chosen
from regard.errors import RequestError, nearest
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.lstm import LSTM
from regard.models.resnet import ResidualBlocks
from regard.models.vgg import ConvolutionBlocks
from regard.protocols import (
    BOS,
    EOS,
    PAD,
    Decoding,
    Encoded,
    Inputs,
    Output,
    pictures_of,
    unpacked,
)

__all__ = ["ENCODERS", "GivenRegions", "ShowAttendTell"]

SCORES: Mapping[str, Callable[[int, int, int], Score]] = MappingProxyType(
    {
        "soft": lambda state, size, align: Additive(state, size, align, bias=True),
        "hard": lambda state, size, align: Additive(state, size, align, bias=True),
        "none": lambda state, size, align: Uniform(),
    }
)


class GivenRegions(nn.Module):
    """No convolutions: regions of a picture are given.

    Args:
        in_channels: numbers of each region.
        widths, convolutions: not used.
    """

    def __init__(
        self, in_channels: int, widths: Sequence[int] = (), convolutions: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.size = in_channels

    def forward(self, x: Tensor) -> Tensor:
        """Refuses pictures.

        Raises:
            RequestError: always.
        """
        raise RequestError(
            f"model.encoder=none: expected regions (batch, regions, {self.size}), got pictures; "
            "give task.backbone, or another model.encoder"
        )


Encoder = ConvolutionBlocks | ResidualBlocks | GivenRegions
ENCODERS: Mapping[str, Callable[[int, Sequence[int], Sequence[int]], Encoder]] = MappingProxyType(
    {"vgg": ConvolutionBlocks, "resnet": ResidualBlocks, "none": GivenRegions}
)


class ShowAttendTell(nn.Module):
    """An LSTM that writes a caption, with attention over the regions of a picture.

    Args:
        in_channels: of the picture; with the encoder "none", numbers of each region.
        target_vocab_size: of the captions.
        encoder: "vgg", "resnet" (small pictures, basic blocks), or "none": regions are given.
        widths, convolutions: filters of each block of the encoder, and convolutions of each block;
            of a "resnet" of each stage, and its blocks. Regions are the maps of the last one.
        embed: size of a word vector.
        hidden: H, cells of the LSTM.
        align: units of the score; 0: as many as a region has numbers.
        attention: "soft", "hard", or "none": every region counts the same; or soft attention's
            parts, as `{score: general, select: sparsemax}`; see `catalog.parts`.
        gate: β, with soft attention.
        doubly: λ of the doubly stochastic penalty, with soft attention.
        reinforce: λ_r, with hard attention.
        entropy: λ_e, with hard attention.
        expected: the share of batches that read the expected vector, with hard attention.
        dropout: on regions, on word vectors and around the tanh of the output.
        scale: standard deviation of the matrices at the start; None: Glorot's.
    """

    normalized = False

    def __init__(
        self,
        in_channels: int,
        target_vocab_size: int,
        *,
        encoder: str = "vgg",
        widths: Sequence[int] = (64, 128, 256, 512),
        convolutions: Sequence[int] = (2, 2, 4, 4),
        embed: int = 512,
        hidden: int = 1800,
        align: int = 0,
        attention: str | Chosen = "soft",
        gate: bool = True,
        doubly: float = 1.0,
        reinforce: float = 0.1,
        entropy: float = 0.002,
        expected: float = 0.5,
        dropout: float = 0.5,
        scale: float | None = 0.01,
    ) -> None:
        super().__init__()
        if encoder not in ENCODERS:
            raise RequestError(
                f"no encoder of ShowAttendTell is called {encoder!r}; {nearest(encoder, ENCODERS)}"
            )
        told = {} if isinstance(attention, str) else attention
        attention = attention if isinstance(attention, str) else "soft"
        if attention not in SCORES:
            raise RequestError(
                f"no attention of ShowAttendTell is called {attention!r}; "
                f"{nearest(attention, SCORES)}"
            )
        self.in_channels, self.target_vocab_size = in_channels, target_vocab_size
        self.embed, self.dropout, self.kind = embed, dropout, attention
        self.doubly, self.reinforce, self.entropy = doubly, reinforce, entropy
        self.expected = expected
        features = ENCODERS[encoder](in_channels, widths, convolutions)
        self.features, self.size = features, features.size
        size = features.size
        self.initial_cell, self.initial = nn.Linear(size, hidden), nn.Linear(size, hidden)
        align = align or size
        own = Attention(SCORES[attention](hidden, size, align), role="cross")
        self.attention = chosen(own, told, query=hidden, key=size, hidden=align)
        self.gate = nn.Linear(hidden, 1) if gate and attention == "soft" else None
        self.embed_target = Embed(target_vocab_size, embed, dropout=dropout)
        self.decoder = LSTM(embed + size, hidden, bias=True)
        self.state, self.context = nn.Linear(hidden, embed), nn.Linear(size, embed, bias=False)
        self.output = nn.Linear(embed, target_vocab_size)
        self.baseline = nn.Parameter(torch.zeros(()), requires_grad=False)
        """b, a moving average: it is saved with the weights, and no gradient reaches it."""
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
        """Regions (B, L, D) of pictures, or the regions that are given."""
        values, _ = unpacked(source)
        if values.dim() == 3 and values.shape[2] == self.size:
            regions = values.to(self.output.weight.dtype)
        elif values.dim() == 3:
            raise RequestError(
                f"this model reads pictures, or regions of {self.size} numbers, and got regions of "
                f"{values.shape[2]}; those of task.backbone are read with model.encoder=none"
            )
        else:
            picture = pictures_of(source, self.in_channels).to(self.output.weight.dtype)
            regions = self.features(picture).flatten(2).mT
        regions = dropout(regions, self.dropout, self.training)
        count = torch.full(regions.shape[:1], regions.shape[1], device=regions.device)
        return Encoded(regions, count)

    def start(self, encoded: Encoded) -> Decoding:
        """W_a a once per picture, h_0 and c_0."""
        h, c = self._initial(encoded)
        memory = self.attention.remember(encoded.states)
        return Decoding({"source": memory}, {"h": h[:, None], "c": c[:, None]})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to (B, beam, V); beams are the queries."""
        h, c = decoding.carried["h"], decoding.carried["c"]
        word = self._words(tokens)
        context = self._gated(self.attention(h, decoding.memories["source"]).context, h)
        inputs = self.decoder.project(torch.cat([word, context], -1)).flatten(0, 1)
        (flat_h,), (flat_c,) = self.decoder.step(inputs, [h.flatten(0, 1)], [c.flatten(0, 1)])
        h, c = flat_h.view_as(h), flat_c.view_as(c)
        return self._logits(word, h, context), decoding.advance(h=h, c=c)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """Teacher forced: attention and the LSTM word by word, the output at once."""
        encoded = self.encode(source, lengths)
        memory = self.attention.remember(encoded.states)
        h, c = self._initial(encoded)
        words = self._words(target_in)
        inputs = self.decoder.project(words, slice(self.embed)).unbind(1)
        looks = _Looks(self, words)
        states, contexts = [], []
        for given in inputs:
            found = self.attention(h[:, None], memory, need_weights=looks.wanted)
            context = self._gated(looks.at(found, memory), h[:, None])[:, 0]
            fed = self.decoder.project(context, slice(self.embed, None))
            (h,), (c,) = self.decoder.step(given + fed, [h], [c])
            states.append(h)
            contexts.append(context)
        logits = self._logits(words, torch.stack(states, 1), torch.stack(contexts, 1))
        return Output(logits, looks.penalty(logits, target_in) if self.training else {})

    def _initial(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        mean = encoded.states.mean(1)
        return torch.tanh(self.initial(mean)), torch.tanh(self.initial_cell(mean))

    def _words(self, tokens: Tensor) -> Tensor:
        """Word vectors; before the first word stands a zero."""
        found: Tensor = self.embed_target(tokens)
        return found.masked_fill((tokens == BOS)[..., None], 0.0)

    def _gated(self, context: Tensor, state: Tensor) -> Tensor:
        context = context.to(state.dtype)
        return context if self.gate is None else torch.sigmoid(self.gate(state)) * context

    def _logits(self, words: Tensor, states: Tensor, contexts: Tensor) -> Any:
        t = dropout(states, self.dropout, self.training)
        t = torch.tanh(words + self.state(t) + self.context(contexts))
        return project(self.output, dropout(t, self.dropout, self.training))


class _Looks:
    """What the steps of a training pass looked at, and what the loss has from it."""

    def __init__(self, model: ShowAttendTell, like: Tensor) -> None:
        self.model, self.weights = model, []  # type: ignore[var-annotated]
        self.chosen: list[Tensor] = []
        hard = model.training and model.kind == "hard"
        self.sampled = hard and float(torch.rand(())) >= model.expected
        self.wanted = model.training and (hard or (model.kind == "soft" and model.doubly > 0))

    def at(self, found: Attended, memory: Memory) -> Tensor:
        """The context of a step: expected, or that of one sampled region."""
        if not self.wanted:
            return found.context
        assert found.weights is not None
        self.weights.append(found.weights[:, 0])
        if not self.sampled:
            return found.context
        chosen = torch.multinomial(found.weights[:, 0].detach().float(), 1)  # (B, 1)
        self.chosen.append(chosen)
        return memory.value.gather(1, chosen[..., None].expand(-1, -1, memory.value.shape[2]))

    def penalty(self, logits: Any, target_in: Tensor) -> dict[str, Tensor]:
        """What is added to the mean loss of the batch."""
        model = self.model
        if not self.wanted:
            return {}
        alpha = torch.stack(self.weights, 1)  # (B, T, L)
        real = (target_in != PAD).to(alpha.dtype)
        if model.kind == "soft":
            looked = (alpha * real[..., None]).sum(1)
            return {"penalty": model.doubly * (1 - looked).square().sum(1).mean()}
        logs = alpha.clamp_min(1e-30).log()
        entropy = -(alpha * logs).sum(-1)
        found = -model.entropy * (entropy * real).sum(1).mean()
        if not self.sampled:
            return {"penalty": found}
        reward = _mean_log_likelihood(logits, target_in)
        chosen = logs.gather(2, torch.stack(self.chosen, 1))[..., 0]
        better = (reward - model.baseline.detach())[:, None]
        with torch.no_grad():
            model.baseline.mul_(0.9).add_(0.1 * reward.mean().to(model.baseline.dtype))
        reinforced = -(better * chosen * real).sum(1).mean()
        return {"penalty": found + model.reinforce * reinforced}


@torch.no_grad()
def _mean_log_likelihood(logits: Any, target_in: Tensor) -> Tensor:
    """The mean log-probability of the words of each caption and of its end: (B,)."""
    if not isinstance(logits, Tensor):  # deferred until the loss; here they are needed now
        logits = F.linear(logits.states, logits.weight, logits.bias)
    wide = torch.promote_types(logits.dtype, torch.float32)
    logs = logits.log_softmax(-1, dtype=wide)
    real = target_in != PAD
    out = torch.cat([target_in[:, 1:], torch.full_like(target_in[:, :1], PAD)], 1)
    ends = real & (out == PAD)
    out = out.masked_fill(ends, EOS)
    each = logs.gather(-1, out[..., None])[..., 0] * real
    found: Tensor = each.sum(1) / real.sum(1)
    return found
