"""Every generator of the catalog in its forms, small, with sources of any size."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard import catalog
from regard.models.rnnsearch import RNNencdec
from regard.protocols import BOS, EOS, PAD, UNK, Decoding, Inputs

WORDS = 40
COPYING = {"paulus", "pointer-generator"}
LANGUAGE_MODELS = {"lstmn-lm", "memn2n-lm"}
SOUND = 5
"""Features of a frame."""
PROBES = ((2, 3, 7, 2), (5, 2, 11, 3), (3, 4, 17, 5))
"""Batch, beam, source and step of each recording: none follows from another."""


@dataclass(frozen=True)
class Case:
    """A generator, and what differs from the catalog's small one."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    copies: bool = True

    def __str__(self) -> str:
        more = [f"{k}={v}" for k, v in self.changes.items()]
        more += ["no copies"] if self.name in COPYING and not self.copies else []
        return self.name + (f"({', '.join(more)})" if more else "")

    def build(self, words: int = WORDS, *, tiny: bool = True, **more: Any) -> Any:
        torch.manual_seed(1)
        known = self.name != "rnnencdec"
        given = {
            **(catalog.entry(self.name).tiny if tiny and known else {}),
            **self.changes,
            **more,
        }
        if self.name == "rnnencdec":
            return RNNencdec(words, words, **given).eval()
        first = {"show-attend-tell": 2, "temporal": 2, "arsg": SOUND}.get(self.name, words)
        sizes = (words,) if self.name in LANGUAGE_MODELS else (first, words)
        model = catalog.load(self.name)(*sizes, **given).eval()
        if self.name == "moe":  # they begin with zeros, so that all experts are alike
            for layer in (model.encoder_experts, model.decoder_experts):
                torch.nn.init.normal_(layer.gates.gate)
        return model

    def source(self, batch: int, size: int, seed: int = 5, words: int = WORDS) -> Any:
        """What `start` reads: inputs, or the number of texts of a language model."""
        g = torch.Generator().manual_seed(seed)
        if self.name in LANGUAGE_MODELS:
            return batch
        if self.name == "show-attend-tell":
            return Inputs(torch.randn(batch, 2, 6, 2 * size, generator=g))
        lengths = torch.randint(1, size + 1, (batch,), generator=g)
        lengths[0] = size
        if self.name == "temporal":
            return Inputs(torch.randn(batch, size, 2, 8, 8, generator=g), lengths)
        inside = torch.arange(size) < lengths[:, None]
        if self.name == "arsg":
            sound = torch.randn(batch, size, SOUND, generator=g)
            return Inputs(sound * inside[..., None], lengths)
        ids = torch.randint(UNK, words, (batch, size), generator=g).masked_fill(~inside, PAD)
        ids[torch.arange(batch), lengths - 1] = EOS
        if self.name not in COPYING or not self.copies:
            return Inputs(ids, lengths)
        own = torch.where(
            torch.rand(ids.shape, generator=g) < 0.3, words + torch.arange(size) % 4, ids
        ).masked_fill((ids == PAD) | (ids == EOS), PAD)
        own[0, 0] = words + 4 + size % 3  # batches have different numbers of own words
        return Inputs(ids, lengths, {"copies": own})

    def start(self, model: Any, source: Any) -> Decoding:
        given = source if self.name in LANGUAGE_MODELS else model.encode(source)
        begun: Decoding = model.start(given)
        return begun


@torch.inference_mode()
def probe(
    case: Case, model: Any, batch: int, beam: int, size: int, steps: int, seed: int
) -> tuple[Tensor, Decoding]:
    """The arguments of a step, after so many."""
    g = torch.Generator().manual_seed(seed)
    decoding = case.start(model, case.source(batch, size, seed))
    tokens = torch.full((batch, 1), BOS)
    width = 1
    for _ in range(steps):
        _, decoding = model.step(tokens, decoding)
        decoding = decoding.select(torch.randint(width, (batch, beam), generator=g))
        tokens, width = torch.randint(UNK, WORDS, (batch, beam), generator=g), beam
    return tokens, decoding


def probes(case: Case, model: Any, *, first: bool = False) -> list[tuple[Tensor, Decoding]]:
    """A probe of each size; `first`: of the first step, where there is one hypothesis."""
    later = 4 if case.name == "memn2n-lm" else 0  # its memory is full then
    return [
        probe(case, model, batch, beam, size, 0 if first else steps + later, 11 + i)
        for i, (batch, beam, size, steps) in enumerate(PROBES)
    ]


def decoded(
    case: Case, model: Any, forms: Sequence[Any], *, batch: int = 4, size: int = 9, steps: int = 12
) -> list[list[Tensor]]:
    """Logits of the steps of the model, and of other forms of it, over the same hypotheses.

    The width changes, beams are re-ordered, and sentences leave after steps 4 and 8.
    """
    g = torch.Generator().manual_seed(3)
    source = case.source(batch, size, 77)
    with torch.inference_mode():
        states = [case.start(model, source) for _ in forms]
    every: list[list[Tensor]] = [[] for _ in forms]
    tokens, left = torch.full((batch, 1), BOS), batch
    widths = (5, 5, 3, 6, 5, 5, 1, 5, 5, 2, 5, 5)
    with torch.inference_mode():
        for t in range(steps):
            before = tokens.shape[1]
            keep = torch.randperm(left, generator=g)[1:] if t in (4, 8) else None
            left = left if keep is None else left - 1
            index = torch.randint(before, (left, widths[t]), generator=g)
            for k, form in enumerate(forms):
                logits, after = form.step(tokens, states[k])
                every[k].append(logits)
                after = after if keep is None else after.rows(keep)
                states[k] = after.select(index)
            tokens = torch.randint(UNK, WORDS, (left, widths[t]), generator=g)
    return every


class OwnSteps:
    """A model's own steps: of no class that a packed form or a program knows."""

    def __init__(self, model: Any) -> None:
        self.own = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


CASES = [
    Case("seq2seq"),
    Case("rnn-encoder-decoder"),
    Case("rnnsearch"),
    Case("rnnencdec", {"embed": 8, "hidden": 12, "maxout": 6, "scale": 0.2}),
    Case("conditional-gru"),
    Case("luong"),
    Case("luong", {"attention": "local-m", "reach": 4}),
    Case("luong", {"attention": "local-p", "reach": 4}),
    Case("luong", {"score": "concat"}),
    Case("luong", {"score": "location"}),
    Case("luong", {"score": "dot", "feed": False}),
    Case("gnmt"),
    Case("deep-att"),
    Case("convs2s"),
    Case("convs2s", {"encoder": [[1, 12, 5]], "decoder": [[1, 12, 1], [1, 10, 4]]}),
    Case("bytenet"),
    Case("moe"),
    Case("lstm-a"),
    Case("lstm-a", {"encoder": "reversed", "start": "encoder", "readout": "linear", "feed": True}),
    Case("pointer-generator"),
    Case("pointer-generator", copies=False),
    Case("pointer-generator", {"coverage": 0.0}),
    Case("paulus"),
    Case("paulus", copies=False),
    Case("abs"),
    Case("abs", {"reading": "code"}),
    Case("abs", {"encoder": "bag-of-words"}),
    Case("abs", {"encoder": "convolution"}),
    Case("abs", {"encoder": "none"}),
    Case("show-attend-tell"),
    Case("show-attend-tell", {"attention": "none"}),
    Case("show-attend-tell", {"gate": False}),
    Case("temporal"),
    Case("temporal", {"attention": "mean"}),
    Case("arsg"),
    Case("arsg", {"attention": "content", "reach": 2}),
    Case("arsg", {"attention": "location", "join": 2}),
    Case("arsg", {"select": "smooth"}),
    Case("arsg", {"sharpen": 2.0}),
    Case("arsg", {"keep": 3}),
    Case("transformer"),
    Case("following-transformer"),
    Case("transformer", {"attention": {"window": 5}}),
    Case("transformer", {"position": {"kind": "shaw", "clip": 2}}),
    Case("transformer", {"position": {"kind": "bias", "clip": 2}}),
    Case("transformer", {"position": {"kind": "buckets", "clip": 6, "buckets": 4}}),
    Case("transformer", {"attention": {"talking": True}}),
    Case("transformer", {"position": {"kind": "learned"}}),
    Case("transformer", {"norm": "pre"}),
    Case("marian"),
    Case("lstmn-lm"),
    Case("lstmn-lm", {"layers": 2}),
    Case("memn2n-lm"),
]
