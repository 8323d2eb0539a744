"""Claims about time (C06, C15, C19): ways take turns on one thread, medians of five rounds."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from regard.attention import Additive, Attention, Dot, MultiHead, ScaledDot, Score
from regard.claims.claim import Measured
from regard.claims.experiments.fitting import fit, over_seeds
from regard.claims.experiments.scaling import Lookup
from regard.claims.experiments.strings import SIZE, strings
from regard.models.rnnsearch import RNNencdec, RNNsearch
from regard.views.charts import Chart

__all__ = ["additive_and_dot", "cost_of_attention", "crossing"]

ROUNDS = 5


def in_turns(ways: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The median processor time of each way, in seconds, after one call that does not count."""
    each: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, way in ways.items():
            start = time.process_time()
            way()
            if turn:
                each[name].append(time.process_time() - start)
    return {name: statistics.median(times) for name, times in each.items()}


def cost_of_attention(seeds: Sequence[int]) -> Measured:
    """A training step with attention and without: 32 sentences, 20 to 80 words, 256 cells."""
    sizes = {"embed": 128, "hidden": 256, "maxout": 128}
    without = RNNencdec(SIZE, SIZE, **sizes)  # type: ignore[arg-type]
    attending = RNNsearch(SIZE, SIZE, align=256, **sizes)  # type: ignore[arg-type]
    draw, found = torch.Generator().manual_seed(1), dict[str, list[float]]()
    points = []
    for length in (20, 40, 80):
        source, with_end, target_in, _ = strings(torch.full((32,), length), draw)

        def step(model: nn.Module, *data: Tensor) -> None:
            model(*data).logits.sum().backward()

        data = (source, target_in, with_end)
        times = in_turns(
            {"without": partial(step, without, *data), "with": partial(step, attending, *data)}
        )
        ratio = times["with"] / times["without"]
        found[f"ratio at {length}"] = [ratio]
        points.append((length, ratio))
    found["ratio"] = [ratio for _, ratio in points]
    chart = Chart("training step: with attention over without", "words", "times", {"": points})
    return Measured(found, [chart])


def crossing(seeds: Sequence[int]) -> Measured:
    """Time of self-attention, projections included, over that of a GRU, by n and d."""
    lines: dict[str, list[tuple[float, float]]] = {}
    found: dict[str, list[float]] = {}
    for d in (64, 128, 256):
        attention, gru = MultiHead(d, d // 32), nn.GRU(d, d, batch_first=True)
        for name, times in (("half of d", 0.5), ("d", 1), ("twice d", 2), ("8 d", 8)):
            x = torch.randn(1, int(times * d), d)
            with torch.no_grad():
                taken = in_turns({"attention": partial(attention, x, x), "gru": partial(gru, x)})
            ratio = taken["attention"] / taken["gru"]
            found.setdefault(f"ratio at {name}", []).append(ratio)
            lines.setdefault(f"d = {d}", []).append((times, ratio))
    chart = Chart("time of attention over time of a GRU", "n / d", "times", lines, log="xy")
    return Measured(found, [chart])


def additive_and_dot(seeds: Sequence[int]) -> Measured:
    """One look-up by three scores, d 16 to 256: its loss, and the time of the scores."""
    lines: dict[str, list[tuple[float, float]]] = {}

    def one(seed: int) -> dict[str, float]:
        found = {}
        for d in (16, 64, 256):
            ways: dict[str, Score] = {
                "additive": Additive(d, d, hidden=d),
                "dot": Dot(),
                "scaled dot": ScaledDot(),
            }
            for name, score in ways.items():
                torch.manual_seed(seed)
                model = Lookup(score, dim=d)
                losses = fit(model, model.loss, updates=120, lr=2e-3, seed=seed)
                found[f"loss of {name} at {d}"] = sum(losses[-40:]) / 40
                lines.setdefault(name, []).append((d, found[f"loss of {name} at {d}"]))
            query, key = torch.randn(64, d), torch.randn(256, d)
            with torch.no_grad():
                times = in_turns(
                    {n: partial(Attention(score=s), query, key) for n, s in ways.items()}
                )
            found[f"times as dear at {d}"] = times["additive"] / times["scaled dot"]
        return found

    values = over_seeds(one, seeds)
    chart = Chart("look-up after 120 updates", "d", "loss", lines, log="x")
    return Measured(values, [chart])
