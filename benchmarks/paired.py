"""Paired, interleaved measurements: the only kind of speed claim in this project.

A and B run in turn, the order flipped each time; the figure is the ratio of their CPU times, as
min / median / max. Process CPU time, so that other work on the machine counts less.
"""

import json
import platform
import statistics
import time
from collections.abc import Callable

import torch

__all__ = ["machine", "paired", "row"]


def paired(
    ours: Callable[[], object], theirs: Callable[[], object], repeats: int = 9
) -> dict[str, float]:
    """How many times faster `ours` is than `theirs`: CPU time of theirs over ours."""
    ours(), theirs()  # warm up
    ratios = []
    for turn in range(repeats):
        spent = {}
        for f in (ours, theirs) if turn % 2 else (theirs, ours):
            start = time.process_time()
            f()
            spent[f] = time.process_time() - start
        ratios.append(spent[theirs] / spent[ours])
    return {
        "min": round(min(ratios), 3),
        "median": round(statistics.median(ratios), 3),
        "max": round(max(ratios), 3),
    }


def milliseconds(turns: list[tuple[float, float]]) -> dict[str, object]:
    """Medians of PyTorch's and our times, and min, median and max of their ratios.

    Args:
        turns: both times of each round; the first round is not counted.
    """
    ratios = [other / own for other, own in turns[1:]]
    return {
        "pytorch_ms": round(statistics.median(other for other, _ in turns[1:]), 2),
        "ms": round(statistics.median(own for _, own in turns[1:]), 2),
        "times": [round(f(ratios), 2) for f in (min, statistics.median, max)],
    }


def machine() -> dict[str, object]:
    """What a figure was measured on."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "date": time.strftime("%Y-%m-%d"),
    }


def row(**fields: object) -> None:
    """Print one JSON line."""
    print(json.dumps(fields), flush=True)
