"""How the rows of `regard bench` are measured: time in pairs, memory alone, error in float64.

Time: all ways of a row take turns in one process, the order flipped each round; the figure is the
median over rounds of the ratio of their CPU times (wall time stands beside it). Memory: the growth
of the resident high-water mark during one call, in a process that has done nothing but a tiny
warm-up. Error: the largest difference to the naive form in float64, over its largest value, for
the output and for each gradient.
"""

import contextlib
import ctypes
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

__all__ = [
    "BACKWARD",
    "FORWARD",
    "Problem",
    "error",
    "exponent",
    "machine",
    "memory",
    "roofs",
    "threads",
    "time_ways",
]

FORWARD, BACKWARD = "forward", "forward+backward"
SHORTEST = 0.02
"""Seconds that one timing takes at least: a quick call is repeated inside it."""

Way = Callable[[dict[str, Tensor]], Tensor]


@dataclass
class Problem:
    """Inputs, and the ways to compute the same output from them.

    Args:
        leaves: what gradients are taken of.
        ways: "ours", "naive", "sigmoid" (the one-line form) and public implementations by name.
        exact: how float64 is computed; the naive way where None.
        forward_only: ways that have no backward pass.
        note: what the reader of the row must know about this machine or installation.
    """

    leaves: dict[str, Tensor]
    ways: dict[str, Way]
    exact: Way | None = None
    note: str = ""
    forward_only: set[str] = field(default_factory=set)


def machine(threads: int = 1) -> dict[str, object]:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    return {
        "cpu": model,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": cores(),
        "threads": threads,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load": load(),
        "date": time.strftime("%Y-%m-%d"),
    }


def cores() -> int | None:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def load() -> float | None:
    """The load average of the last minute."""
    try:
        return round(os.getloadavg()[0], 1)
    except OSError:
        return None


def call(
    way: Way, leaves: dict[str, Tensor], which: str, like: Tensor | None = None
) -> Callable[[], object]:
    """One pass as a function without arguments; `like` is an output, where one is at hand."""
    if which == FORWARD:

        def forward() -> object:
            with torch.no_grad():
                return way(leaves)

        return forward
    wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]
    if like is None:
        with torch.no_grad():
            like = way(leaves)
    generator = torch.Generator(like.device).manual_seed(3)
    grad = torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)

    def backward() -> object:
        return torch.autograd.grad(way(leaves), wanted, grad, allow_unused=True)

    return backward


def time_ways(problem: Problem, which: str, budget: float, *, most: int = 15) -> dict[str, object]:
    """Time all ways of a problem in turns, for about `budget` seconds, three rounds at least."""
    calls, inner, first = {}, {}, {}
    with torch.no_grad():
        like = problem.ways["ours"](problem.leaves)
    for name, way in problem.ways.items():
        if which == BACKWARD and name in problem.forward_only:
            continue
        calls[name] = call(way, problem.leaves, which, like)
        if torch.cuda.is_available():
            calls[name] = _synchronized(calls[name])
        for _ in range(2):
            start = time.perf_counter()
            calls[name]()
            first[name] = max(time.perf_counter() - start, 1e-7)
            if first[name] > 1:
                break  # so slow that its first call is like any other
        inner[name] = min(5000, max(1, math.ceil(SHORTEST / first[name])))
    once = sum(first[name] * inner[name] for name in calls)
    rounds = int(min(most, max(3, budget / once)))
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    wall: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name in calls if turn % 2 else reversed(calls):
            f, n = calls[name], inner[name]
            start, began = time.process_time(), time.perf_counter()
            for _ in range(n):
                f()
            cpu[name].append((time.process_time() - start) / n)
            wall[name].append((time.perf_counter() - began) / n)
    return {
        "rounds": rounds,
        "ms": {name: _rounded(1e3 * statistics.median(ts)) for name, ts in cpu.items()},
        "wall_ms": {name: _rounded(1e3 * statistics.median(ts)) for name, ts in wall.items()},
        "ratio": spread(cpu, "naive") if "naive" in cpu else None,
        "ratios": {name: spread(cpu, name) for name in calls if name not in ("ours", "naive")},
        "wall_ratio": spread(wall, "naive") if "naive" in cpu else None,
    }


def spread(spent: dict[str, list[float]], other: str) -> dict[str, float]:
    """How many times the time of ours another way takes, round by round."""
    ratios = [b / a for a, b in zip(spent["ours"], spent[other], strict=True)]
    return {
        "min": _rounded(min(ratios)),
        "median": _rounded(statistics.median(ratios)),
        "max": _rounded(max(ratios)),
    }


def _rounded(x: float) -> float:
    return float(f"{x:.4g}")


def _synchronized(f: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        found = f()
        torch.cuda.synchronize()
        return found

    return run


def error(problem: Problem, which: str) -> dict[str, dict[str, float]]:
    """max |error| / max |reference| of ours and of naive, for the output and each gradient."""
    exact = problem.exact or problem.ways["naive"]
    double = {
        name: leaf.detach().double().requires_grad_(leaf.requires_grad)
        for name, leaf in problem.leaves.items()
    }
    expected = _tensors(exact, double, which)
    found = {}
    for name in ("ours", "naive"):
        if name in problem.ways:
            got = _tensors(problem.ways[name], problem.leaves, which)
            found[name] = {
                part: float(f"{_relative(got[part], value):.2g}")
                for part, value in expected.items()
            }
    return found


def _relative(found: Tensor, expected: Tensor) -> float:
    if not bool(torch.isfinite(found).all()):
        return math.inf
    return float((found.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-30))


def _tensors(way: Way, leaves: dict[str, Tensor], which: str) -> dict[str, Tensor]:
    if which == FORWARD:
        with torch.no_grad():
            return {"output": way(leaves)}
    output = way(leaves)
    generator = torch.Generator().manual_seed(3)
    # the same numbers in either precision
    grad = torch.randn(output.shape, generator=generator).to(output)
    names = [name for name, leaf in leaves.items() if leaf.requires_grad]
    grads = torch.autograd.grad(
        output, [leaves[n] for n in names], grad, allow_unused=True, materialize_grads=True
    )
    return {"output": output.detach(), **dict(zip(names, grads, strict=True))}


def memory(way: Way, leaves: dict[str, Tensor], which: str) -> float | None:
    """MiB by which one call raises the resident high-water mark; call it once in a new process."""
    wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]
    with contextlib.suppress(OSError):
        ctypes.CDLL(None).malloc_trim(0)  # what the warm-up freed is no room for the call
    before = _status("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the mark starts again from here
    except OSError:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if before is None:
        return None
    if which == FORWARD:
        with torch.no_grad():
            held: object = way(leaves)
    else:
        output = way(leaves)
        grad = torch.ones_like(output)
        held = torch.autograd.grad(output, wanted, grad, allow_unused=True)
    after = _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    del held
    return round((after - before) / 1024, 2)


def _status(name: str) -> int | None:
    """KiB of one line of /proc/self/status."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
    return None


def threads(way: Way, leaves: dict[str, Tensor], which: str, rounds: int) -> dict[str, object]:
    """One thread's CPU time over the busiest thread's of two, in turns; wall time beside it."""
    run = call(way, leaves, which)
    inner = {1: 1, 2: 1}
    for count in (1, 2):
        torch.set_num_threads(count)
        run()
        start = time.perf_counter()
        run()
        inner[count] = max(1, math.ceil(5 * SHORTEST / (time.perf_counter() - start)))
    cpu: dict[int, list[float]] = {1: [], 2: []}
    wall: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(rounds):
        for count in (1, 2) if turn % 2 else (2, 1):
            torch.set_num_threads(count)
            began, before, whole = time.perf_counter(), _by_thread(), time.process_time()
            for _ in range(inner[count]):
                run()
            whole, after = time.process_time() - whole, _by_thread()
            spent = [after[t] - before.get(t, 0.0) for t in after]
            # threads that came and went inside the calls are in the process's time alone
            spent.append(whole - sum(spent))
            cpu[count].append(max(spent) / inner[count])
            wall[count].append((time.perf_counter() - began) / inner[count])
    torch.set_num_threads(1)
    gain = [a / b for a, b in zip(cpu[1], cpu[2], strict=True)]
    faster = [a / b for a, b in zip(wall[1], wall[2], strict=True)]
    return {
        "rounds": rounds,
        "ms": {f"{n} threads": _rounded(1e3 * statistics.median(ts)) for n, ts in cpu.items()},
        "ratio": {
            "min": _rounded(min(gain)),
            "median": _rounded(statistics.median(gain)),
            "max": _rounded(max(gain)),
        },
        "wall_ratio": {
            "min": _rounded(min(faster)),
            "median": _rounded(statistics.median(faster)),
            "max": _rounded(max(faster)),
        },
        "load": load(),
    }


def _by_thread() -> dict[str, float]:
    """CPU seconds of every thread of this process, to the nanosecond."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return found


def exponent(sizes: list[int], times: list[float]) -> float:
    """The slope of log time over log size, by least squares."""
    x, y = [math.log(s) for s in sizes], [math.log(t) for t in times]
    mx, my = statistics.fmean(x), statistics.fmean(y)
    over = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return round(over / sum((a - mx) ** 2 for a in x), 3)


def seconds(run: Callable[[], object], rounds: int = 5) -> float:
    """CPU seconds of one call: the median of a few timings."""
    run()
    found = []
    for _ in range(rounds):
        start, count = time.process_time(), 0
        while time.process_time() - start < SHORTEST:
            run()
            count += 1
        found.append((time.process_time() - start) / count)
    return statistics.median(found)


def roofs() -> dict[str, float]:
    """What this core can do, measured now: products, memory, tanh; and its clock."""
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    big, other = torch.randn(1 << 25), torch.empty(1 << 25)
    few = torch.randn(1 << 16)
    return {
        "mm_gflops": round(2 * 512**3 / seconds(lambda: torch.mm(a, b)) / 1e9, 1),
        "copy_gbps": round(2 * 4 * big.numel() / seconds(lambda: other.copy_(big)) / 1e9, 1),
        "tanh_gps": round(few.numel() / seconds(lambda: torch.tanh(few)) / 1e9, 3),
        "sigmoid_gps": round(few.numel() / seconds(lambda: torch.sigmoid(few)) / 1e9, 3),
        "operations_gps": round(2 * _lanes() * _clock() / 1e9, 1),
    }


def _lanes() -> int:
    known = {"AVX512": 16, "AVX2": 8}
    return known.get(torch.backends.cpu.get_cpu_capability(), 4)


_CHAIN = """
#include <stdint.h>
uint64_t chain(uint64_t n) {
    uint64_t x = n;
    for (uint64_t i = 0; i < n; i++) __asm__ volatile("%s" : "+r"(x));
    return x;
}
"""
_STEPS = {"x86_64": "imul %0, %0", "aarch64": "mul %0, %0, %0"}  # three cycles each, in a chain


def _clock() -> float:
    """Cycles a second: timed by a chain of products where there is a compiler, else as told."""
    step = _STEPS.get(platform.machine())
    if step and shutil.which("cc"):
        with tempfile.TemporaryDirectory() as folder, contextlib.suppress(OSError, ValueError):
            source, made = Path(folder, "chain.c"), Path(folder, "chain.so")
            source.write_text(_CHAIN % step)
            words = ["cc", "-O2", "-shared", "-fPIC", "-o", str(made), str(source)]
            if subprocess.run(words, capture_output=True, check=False).returncode == 0:
                chain = ctypes.CDLL(str(made)).chain
                chain.argtypes = [ctypes.c_uint64]
                count = 10_000_000
                return 3 * count / min(seconds(lambda: chain(count), 3) for _ in range(2))
    with contextlib.suppress(OSError):
        found = [
            float(line.split(":")[1])
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("cpu MHz")
        ]
        if found:
            return max(found) * 1e6
    return 3e9
