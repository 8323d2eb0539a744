"""Averages of weights: over the last checkpoints, and exponential moving averages."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.train.checkpoints import load_weights, save_weights, weights_of
from regard.train.sharding import local

__all__ = ["Average", "Last", "average"]


def average(files: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several files, summed in float64.

        mean = (w_1 + ... + w_n) / n

    Integer values (counters) are taken from the last file.
    """
    total: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for file in files:
        for name, tensor in load_weights(file).items():
            kinds[name] = tensor.dtype
            if tensor.is_floating_point():
                wide = tensor.double()
                total[name] = total[name].add_(wide) if name in total else wide
            else:
                total[name] = tensor
    return {
        name: (t / len(files)).to(kinds[name]) if t.is_floating_point() else t
        for name, t in total.items()
    }


class Last:
    """The weights of the last `keep` checkpoints, one file each."""

    def __init__(self, folder: Path, keep: int) -> None:
        """Use `folder`, which is created if needed."""
        self.folder = folder
        self.keep = keep

    def files(self, until: int | None = None) -> list[Path]:
        """The files of up to `keep` checkpoints no later than step `until`, oldest first."""
        found = sorted(self.folder.glob("step-*.safetensors"))
        known = [p for p in found if until is None or _step(p) <= until]
        return known[-self.keep :] if self.keep else []

    def save(self, model: nn.Module, step: int) -> None:
        """Save the weights at a step that does not depend on interruptions."""
        if self.keep:
            save_weights(self.folder / f"step-{step:09d}.safetensors", weights_of(model))

    def prune(self, step: int) -> None:
        """Remove older files; call it after the state was saved."""
        kept = set(self.files(step))
        for file in self.folder.glob("step-*.safetensors"):
            if file not in kept:
                file.unlink(missing_ok=True)


def _step(file: Path) -> int:
    return int(file.stem.removeprefix("step-"))


class Average:
    """An exponential moving average of the weights.

    average <- decay * average + (1 - decay) * weights
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        """Start with the current weights."""
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in weights_of(model).items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Update with the weights after a step."""
        now = weights_of(model)
        moving = [name for name, t in self.weights.items() if t.is_floating_point()]
        torch._foreach_lerp_(
            [local(self.weights[name]) for name in moving],
            [local(now[name].detach()) for name in moving],
            1 - self.decay,
        )
        for name in self.weights.keys() - set(moving):
            self.weights[name].copy_(now[name])
