"""Luong's choices on strings (C13, C14): input feeding, and four scores."""

from collections.abc import Sequence

import torch
from torch import nn

from regard.claims.claim import Measured
from regard.claims.experiments.fitting import over_seeds
from regard.claims.experiments.strings import SIZE, learn, right
from regard.models.luong import Luong
from regard.views.charts import Chart

__all__ = ["feeding", "scores"]


def model_of(**settings: object) -> nn.Module:
    """A small model that starts from wide weights: it learns in hundreds of updates."""
    sizes = {"embed": 32, "hidden": 32, "layers": 1, "dropout": 0.0, "reverse": False}
    model = Luong(SIZE, SIZE, **{**sizes, **settings})  # type: ignore[arg-type]
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3.0)
    return model


def feeding(seeds: Sequence[int]) -> Measured:
    """Copying six symbols with the last attention fed into the next step, and without."""

    def one(seed: int) -> dict[str, float]:
        found = {}
        for name, feed in (("fed", True), ("not fed", False)):
            torch.manual_seed(seed)
            model = model_of(feed=feed, score="general")
            learn(model, longest=6, updates=150, seed=seed)
            found[name] = right(model, 6)
        return found

    values = over_seeds(one, seeds)
    return Measured(values, [Chart("copies of six symbols", y="share right", bars=values)])


def scores(seeds: Sequence[int]) -> Measured:
    """Three scores of the content and one of the location, at lengths seen and unseen."""
    names = ("dot", "general", "concat", "location")
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in names}

    def one(seed: int) -> dict[str, float]:
        found = {}
        for name in names:
            torch.manual_seed(seed)
            model = model_of(score=name, max_length=16)
            learn(model, longest=6, updates=250, seed=seed)
            for length in (2, 4, 6, 9):
                share = right(model, length)
                lines[name].append((length, share))
                found[f"{name} at {length}"] = share
        for length in (6, 9):
            content = [found[f"{name} at {length}"] for name in names[:3]]
            found[f"worst content at {length}"] = min(content)
        return found

    values = over_seeds(one, seeds)
    title = "copying, trained on the shaded lengths"
    chart = Chart(title, "symbols", "share right", lines=lines, shaded=(1, 6))
    return Measured(values, [chart])
