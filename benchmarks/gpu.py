"""The GPU kernels against what they replace: paired timings by CUDA events, and peak memory.

    python benchmarks/gpu.py [--quick] >> benchmarks/results/gpu-<date>.jsonl

One JSON line a row: milliseconds, ratio of times as min / median / max over rounds in which the two
take turns, peak memory of one call of each, the largest error of ours against float64 where that
fits, and what it was measured on. Without a GPU it says so and stops.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import naive
import torch
from torch import Tensor

from regard.attention import Attention, Causal, Edges, RelativeBias, SplitLinear, Window, attend
from regard.attention._kernels.features import feature_attention
from regard.attention._ops import triton
from regard.attention._ops.additive import additive_scores

Run = Callable[..., Tensor]
ROUNDS = 15


@dataclass
class Pair:
    """Ours and theirs on the same leaves."""

    id: str
    leaves: list[Tensor]
    ours: Run
    theirs: Run
    against: str
    exact: bool = True


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=True)


def pairs(quick: bool) -> list[Callable[[], Pair]]:
    shapes = [(1, 200, 64)] if quick else [(1, 1000, 256), (8, 200, 256), (32, 50, 256)]
    widths = [(1, 200, 64)] if quick else [(8, 50, 256), (4, 200, 256), (1, 800, 256)]
    length, nodes = (1024, 10_000) if quick else (8192, 50_000)
    return [
        *(lambda s=s: additive(*s) for s in shapes),
        lambda: step(32, 50, 256),
        *(lambda s=s: features(*s) for s in widths),
        lambda: graph(2_708, 10_556),  # as many as Cora has
        lambda: graph(nodes, 20 * nodes),
        lambda: window(length),
        lambda: bias(length // 4),
    ]


def additive(batch: int, length: int, dim: int) -> Pair:
    leaves = [draw(batch, length, dim), draw(batch, length, dim), draw(dim)]
    name = f"additive-scores-{batch}x{length}x{dim}"
    return Pair(name, leaves, additive_scores, naive.additive_scores, "naive")


def step(batch: int, keys: int, dim: int) -> Pair:
    """One step of a decoder: one query a row."""
    leaves = [draw(batch, 1, dim), draw(batch, keys, dim), draw(dim)]
    name = f"additive-step-{batch}x{keys}x{dim}"
    return Pair(name, leaves, additive_scores, naive.additive_scores, "naive")


def features(batch: int, length: int, dim: int) -> Pair:
    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return feature_attention(q, k, v, scale=5.0, bound=5.0)

    leaves = [draw(batch, length, dim) for _ in range(3)]
    return Pair(f"features-{batch}x{length}x{dim}", leaves, ours, naive.features, "naive")


def graph(nodes: int, edges: int) -> Pair:
    heads, dim = 8, 8
    found = Edges.of(torch.randint(0, nodes, (2, edges), device="cuda"), nodes)
    score = SplitLinear(dim, dim, heads=heads).cuda().requires_grad_(False)

    def ours(h: Tensor) -> Tensor:
        h = h.transpose(0, 1)
        return attend(h, h, h, score=score, mask=found).context.transpose(0, 1)

    def theirs(h: Tensor) -> Tensor:
        left, right = score.key.to(h.dtype), score.query.to(h.dtype)
        return naive.gat(h, left, right, found.sources, found.targets)

    name = f"gat-{nodes}-{len(found)}"
    return Pair(name, [draw(nodes, heads, dim)], ours, theirs, "naive")


def window(length: int) -> Pair:
    mask = Window(64, 64)
    leaves = [draw(1, 8, length, 64, dtype=torch.bfloat16) for _ in range(3)]
    place = torch.arange(length, device="cuda")
    dense = (place - place[:, None]).abs() <= 64

    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=dense)

    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, mask=mask).context

    return Pair(f"window-{length}", leaves, ours, theirs, "SDPA, dense mask", exact=False)


def bias(length: int) -> Pair:
    layer = Attention(position=RelativeBias(32, 8), mask=Causal()).cuda()
    leaves = [draw(1, 8, length, 64, dtype=torch.bfloat16) for _ in range(3)]
    place = torch.arange(length, device="cuda")
    offset = place - place[:, None]
    table = layer.position.table

    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        added = table[:, offset.clamp(-32, 32) + 32].masked_fill(offset > 0, float("-inf"))
        return naive.biased(q, k, v, added.to(q.dtype))

    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return layer(q, k, v).context

    name = f"relative-bias-{length}"
    return Pair(name, [*leaves, table], lambda *x: ours(*x[:3]), lambda *x: theirs(*x[:3]),
                "naive", exact=False)  # fmt: skip


def calls(pair: Pair, run: Run, backward: bool) -> Callable[[], None]:
    def forward() -> None:
        with torch.no_grad():
            run(*pair.leaves)

    def both() -> None:
        torch.autograd.grad(run(*pair.leaves).sum(), pair.leaves)

    return both if backward else forward


def milliseconds(run: Callable[[], None]) -> float:
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop)


def peak(run: Callable[[], None]) -> float:
    """MiB above what lay there before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def error(pair: Pair) -> float | None:
    """Of the output against float64 computed by the other form, relative to its largest value."""
    if not pair.exact:
        return None
    exact = pair.theirs(*(x.detach().double() for x in pair.leaves))
    found = (pair.ours(*pair.leaves).double() - exact).abs().max() / exact.abs().max()
    return float(found.detach())


def measure(pair: Pair, backward: bool) -> dict[str, object]:
    ours, theirs = (calls(pair, run, backward) for run in (pair.ours, pair.theirs))
    for _ in range(3):
        ours(), theirs()
    spent: dict[Callable[[], None], list[float]] = {ours: [], theirs: []}
    for turn in range(ROUNDS):
        for run in (ours, theirs) if turn % 2 else (theirs, ours):
            spent[run].append(milliseconds(run))
    ratios = [b / a for a, b in zip(spent[ours], spent[theirs], strict=True)]
    memory = peak(ours), peak(theirs)
    return {
        "id": pair.id,
        "pass": "forward+backward" if backward else "forward",
        "against": pair.against,
        "ms": round(statistics.median(spent[ours]), 4),
        "their_ms": round(statistics.median(spent[theirs]), 4),
        "ratio": {
            "min": round(min(ratios), 2),
            "median": round(statistics.median(ratios), 2),
            "max": round(max(ratios), 2),
        },
        "mib": round(memory[0], 2),
        "their_mib": round(memory[1], 2),
        "memory": round(memory[0] / max(memory[1], 1e-9), 5),
    }


def machine() -> dict[str, object]:
    try:
        from importlib.metadata import version

        installed = version("triton")
    except ImportError:
        installed = "none"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": installed,
        "triton_refuses": triton.unavailable_reason(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    quick = parser.parse_args().quick
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py measures on a CUDA device, and there is none here.")
    where = machine()
    for make in pairs(quick):
        torch.cuda.empty_cache()
        pair = make()
        try:
            wrong = error(pair)
            rows = [measure(pair, backward) for backward in (False, True)]
        except torch.OutOfMemoryError:
            print(json.dumps({"id": pair.id, "failed": "out of memory", **where}), flush=True)
            continue
        for row in rows:
            print(json.dumps({**row, "error": wrong, **where}), flush=True)


if __name__ == "__main__":
    main()
