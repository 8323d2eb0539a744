"""Every part in a layer of its own: the rows of `docs/pytorch.md`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import (
    ALiBi,
    Alignment,
    Attended,
    Attention,
    Block,
    Causal,
    Coverage,
    Dense,
    Directional,
    FeatureSoftmax,
    FeatureSum,
    Gather,
    Hard,
    Lengths,
    MultiHead,
    PreviousWeights,
    TalkingHeads,
    Window,
)
from tests.attention import combine
from tests.attention.combine import LENGTHS, D, N

HEADS = 2
WIDE = {"select": FeatureSoftmax, "read": FeatureSum}


@dataclass(frozen=True)
class Case:
    """A part, in `Attention` or in `MultiHead`."""

    part: str
    layer: str
    slots: dict[str, Callable[[], Any]] = field(compare=False)

    def __str__(self) -> str:
        return f"{self.part}-{self.layer}"

    def build(self) -> nn.Module:
        """The layer in evaluation, always with the same parameters."""
        torch.manual_seed(3)
        parts = {slot: make() for slot, make in self.slots.items()}
        if self.layer == "MultiHead" and isinstance(parts.get("position"), ALiBi):
            parts["position"] = ALiBi(HEADS)
        if self.layer == "MultiHead" and isinstance(parts.get("select"), TalkingHeads):
            parts["select"] = TalkingHeads(HEADS)
        layer: nn.Module = Attention(**parts)
        if self.layer == "MultiHead":
            layer = MultiHead(HEADS * D, HEADS, layer)
        return layer.eval()

    def inputs(
        self, *batch: int, dtype: torch.dtype = torch.float32, seed: int = 5, length: int = N
    ) -> Any:
        """Query, key and value: (*batch, 3, length, size)."""
        generator = torch.Generator().manual_seed(seed)
        size = D if self.layer == "Attention" else HEADS * D
        shape = (3, *batch, len(LENGTHS), length, size)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).unbind()


def _scores() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for make in combine.SCORES.values():
        score = make()
        slots: dict[str, Any] = {"score": make}
        if getattr(score, "per_feature", False):
            slots |= WIDE
        if getattr(score, "feature_dim", 0):
            slots["carry"] = lambda: PreviousWeights(0)
        found.setdefault(type(score).__name__, slots)  # the first of a kind
    return found


def _others() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    tables = {
        "position": combine.POSITIONS,
        "select": combine.SELECTS,
        "read": combine.READS,
        "carry": combine.CARRIES,
    }
    for slot, table in tables.items():
        for make in table.values():
            part = make()
            if part is None or type(part).__name__ in found:
                continue
            slots: dict[str, Any] = {slot: make}
            if isinstance(part, FeatureSoftmax | FeatureSum):
                slots = {"score": combine.SCORES["feature additive"], **WIDE}
            if isinstance(part, Gather):
                slots["select"] = Hard
            if isinstance(part, Alignment):
                slots["select"] = combine.SELECTS["monotonic"]
            if isinstance(part, Coverage | PreviousWeights):
                slots["score"] = combine.SCORES["additive with features"]
            found[type(part).__name__] = slots
    return found


_ALLOWED = torch.rand(N, N, generator=torch.Generator().manual_seed(7)) < 0.6
MASKS: dict[str, Callable[[], Any]] = {
    "Lengths": lambda: Lengths(LENGTHS),
    "Causal": Causal,
    "Window": lambda: Window(1, 1),
    "Directional": lambda: Directional("backward"),
    "Block": lambda: Block(2),
    "Documents": combine.MASKS["documents"],
    "Edges": combine.MASKS["edges"],
    "Dense": lambda: Dense(_ALLOWED),
}


class Masked(nn.Module):
    """A layer with a mask that is given at each call, as masks of a batch are."""

    def __init__(self, layer: nn.Module, mask: Any) -> None:
        super().__init__()
        self.layer, self.mask = layer, mask

    def forward(self, *inputs: Tensor) -> Attended:
        found: Attended = self.layer(*inputs, mask=self.mask)
        return found


@dataclass(frozen=True)
class MaskCase(Case):
    """A mask: over dot products, which have most kernels that know masks."""

    def build(self) -> nn.Module:
        return Masked(super().build(), MASKS[self.part]())


PARTS = _scores() | _others()
CASES = [
    *(
        Case(part, layer, slots)
        for part, slots in PARTS.items()
        for layer in ("Attention", "MultiHead")
        if (part, layer) != ("Pointer", "MultiHead")  # it reads no values that heads could join
    ),
    *(MaskCase(part, layer, {}) for part in MASKS for layer in ("Attention", "MultiHead")),
]
