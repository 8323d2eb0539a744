"""Does it matter? What becomes of an output's score when an attention may not look as it did.

A weight says where a model looked. Here each head is taken away, and each attention is made to look
everywhere alike, and the same output is scored again: what changes nothing did not matter for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.protocols import EOS
from regard.store import Loaded
from regard.viewer.looking import _forced, _kinds, _side

__all__ = ["Effect", "why"]


@dataclass(frozen=True)
class Effect:
    """One change and what it did.

    Args:
        attention: the module's path.
        kind: cross, decoder or encoder.
        head: which was taken away, from 1; None where the whole attention was made uniform.
        change: of the output's log-probability, in nats; below zero the output lost.
    """

    attention: str
    kind: str
    head: int | None
    change: float

    @property
    def what(self) -> str:
        """In words."""
        return "uniform weights" if self.head is None else f"without head {self.head}"


def why(loaded: Loaded, text: str, target: str | None = None) -> tuple[str, float, list[Effect]]:
    """The output, its log-probability, and the effect of each change, the largest first.

    Args:
        target: the output to score; the model's best where None.
    """
    model: Any = loaded.model
    source, _ = _side(loaded.tokenizers["source"], text, "input")
    ids = torch.tensor([source], device=next(model.parameters()).device)
    kinds, goal = _kinds(model, ids), loaded.tokenizers["target"]
    if target is None:
        with torch.inference_mode():
            wanted = list(loaded.decoder(model, ids, None, None)[0][0].tokens)
    else:
        wanted = [*goal.encode(target).ids, EOS]

    def score() -> float:
        _, value, _ = _forced(loaded, ids, wanted, {})
        return value * float(loaded.decoder.normalizer(len(wanted)))

    whole = score()
    found: list[Effect] = []
    modules = dict(model.named_modules())
    for name, kind in kinds.items():
        layer = modules[name]
        heads = range(layer.heads) if isinstance(layer, MultiHead) and layer.heads > 1 else ()
        for h in heads:
            with without_head(layer, h):
                found.append(Effect(name, kind, h + 1, score() - whole))
        with uniform(layer):
            found.append(Effect(name, kind, None, score() - whole))
    found.sort(key=lambda effect: effect.change)
    return goal.decode(wanted), whole, found


@contextmanager
def without_head(layer: nn.Module, head: int) -> Iterator[None]:
    """While the block runs, what one head reads does not leave the layer."""
    assert isinstance(layer, MultiHead)
    weight = layer.out.weight
    width = weight.shape[1] // layer.heads
    part = weight.data[:, head * width : (head + 1) * width]
    kept = part.clone()
    part.zero_()
    try:
        yield
    finally:
        part.copy_(kept)


@contextmanager
def uniform(layer: nn.Module) -> Iterator[None]:
    """While the block runs, every place that may be looked at gets the same weight."""
    inner: Any = layer.attention if isinstance(layer, MultiHead) else layer
    kept = inner.select
    inner.select = _Even(kept)
    try:
        yield
    finally:
        inner.select = kept


class _Even:
    """A select that is given no scores."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.sums = inner.sums
        self.window = inner.window

    def __call__(
        self,
        scores: Tensor,
        *,
        query: Tensor | None = None,
        mask: Tensor | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        chosen: tuple[Tensor, Tensor | None] = self._inner(
            torch.zeros_like(scores), query=query, mask=mask, at=at
        )
        return chosen
