"""`regard bench complexity`: Table 1 of the Transformer's paper, by measurement.

Vaswani et al. (2017, section 4) compare layers that map n vectors of size d to n others, by the
operations of a layer, by how many must wait for one another, and by the longest path between two
positions. Here the first is the exponent of measured CPU time in n and in d; the second is the
longest chain of operations that wait for each other, followed through every call of PyTorch's;
the third is how many layers (or steps) the gradient of the last output passes at least before it
reaches the first input.

    python benchmarks/complexity.py --quick
"""

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from measure import FORWARD, call, exponent, load, machine, seconds
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.attention import Window, attend, kernels

WIDTH, REACH = 3, 16
"""Width of the convolutions; words each side of the restricted self-attention."""

Step = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Layer:
    """A kind of layer.

    Args:
        make: from d and the number of the layer in a stack to a function (1, n, d) -> (1, n, d).
        table: what the paper's table says: time, sequential operations, path.
        lengths, dims: what the time is fitted over, with `dim` and `length` beside them.
        batch: sentences at a time, where one is so little that calls would be timed.
    """

    what: str
    make: Callable[[int, int], Step]
    table: tuple[str, str, str]
    lengths: tuple[int, ...] = (512, 1024, 2048, 4096)
    dims: tuple[int, ...] = (64, 128, 256, 512)
    length: int = 1024
    dim: int = 64
    batch: int = 1


def _attention(dim: int, number: int) -> Step:
    return lambda x: attend(x, x, x).context


def _restricted(dim: int, number: int) -> Step:
    mask = Window(REACH, REACH)
    return lambda x: attend(x, x, x, mask=mask).context


def _convolution(dim: int, number: int) -> Step:
    layer = nn.Conv1d(dim, dim, WIDTH, padding=WIDTH // 2, dtype=torch.get_default_dtype())
    return lambda x: layer(x.transpose(1, 2)).transpose(1, 2)


def _dilated(dim: int, number: int) -> Step:
    """Looks back only: with neighbors on both sides some paths would leave the sentence."""
    apart = WIDTH**number
    layer = nn.Conv1d(dim, dim, WIDTH, dilation=apart, dtype=torch.get_default_dtype())
    room = (apart * (WIDTH - 1), 0)
    return lambda x: layer(nn.functional.pad(x.transpose(1, 2), room)).transpose(1, 2)


class Recurrent:
    """tanh(W x + U h + b), step by step; the states of the last call can be asked for."""

    def __init__(self, dim: int) -> None:
        self.cell = nn.RNNCell(dim, dim)
        self.states: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        state = x.new_zeros(len(x), x.shape[-1])
        self.states = []
        for word in x.unbind(1):
            state = self.cell(word, state)
            self.states.append(state)
        return torch.stack(self.states, 1)


LAYERS: dict[str, Layer] = {
    "self-attention": Layer("every word looks at every word", _attention, ("n2 d", "1", "1")),
    "recurrent": Layer(
        "one state, word after word",
        lambda dim, number: Recurrent(dim),
        ("n d2", "n", "n"),
        lengths=(64, 128, 256, 512),
        dims=(256, 512, 1024),
        length=16,
        dim=256,
        batch=32,
    ),
    "convolutional": Layer(
        f"{WIDTH} neighbors, contiguous kernels",
        _convolution,
        ("k n d2", "1", "n / k"),
        dims=(128, 256, 512),
        length=512,
        dim=128,
    ),
    "convolutional-dilated": Layer(
        f"{WIDTH} words, each layer {WIDTH} times as far apart",
        _dilated,
        ("k n d2", "1", "log_k n"),
        dims=(128, 256, 512),
        length=512,
        dim=128,
    ),
    "restricted": Layer(
        f"self-attention to {REACH} words each side",
        _restricted,
        ("r n d", "1", "n / r"),
        lengths=(1024, 2048, 4096, 8192),
        dims=(256, 512, 1024, 2048),
    ),
}


class Chain(TorchDispatchMode):
    """Follows which operation waits for which: `depth` of a tensor is its longest chain."""

    def __init__(self) -> None:
        super().__init__()
        self.depth: dict[int, int] = {}
        self.kept: list[Tensor] = []
        self.longest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves((args, kwargs or {})) if isinstance(x, Tensor)]
        before = max((self.depth.get(self._place(x), 0) for x in tensors), default=0)
        for x in tree_leaves(found):
            # a view is no operation: it lies where its base lies
            if isinstance(x, Tensor) and self._place(x) not in map(self._place, tensors):
                self.depth[self._place(x)] = before + 1
                self.kept.append(x)  # or its address would be given to another
                self.longest = max(self.longest, before + 1)
        return found

    @staticmethod
    def _place(x: Tensor) -> int:
        return x.untyped_storage().data_ptr()


def sequential(layer: Layer, length: int) -> int:
    """The longest chain of operations that wait for one another, in the reference kernel."""
    step = layer.make(8, 0)
    x = torch.randn(1, length, 8)
    with torch.no_grad(), kernels("reference"), Chain() as chain:
        step(x)
    return chain.longest


def path(layer: Layer, length: int) -> int:
    """Layers between the first input and the last output; steps, for a layer that has steps."""
    dim = 4
    kind = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # a long product of small numbers is not zero
    try:
        x = torch.randn(1, length, dim, requires_grad=True)
        first = layer.make(dim, 0)
        if isinstance(first, Recurrent):
            return _steps(first, x)
        stack: list[Step] = []
        while len(stack) <= length:
            stack.append(layer.make(dim, len(stack)))
            y = x
            with kernels("reference"):
                for step in stack:
                    y = step(y)
            (grad,) = torch.autograd.grad(y[:, -1].sum(), x)
            if bool((grad[:, 0] != 0).any()):
                return len(stack)
    finally:
        torch.set_default_dtype(kind)
    raise AssertionError("the gradient never arrived")


def _steps(layer: Recurrent, x: Tensor) -> int:
    """How many states the gradient passes on its way."""
    y = layer(x)
    passed: list[int] = []
    for number, state in enumerate(layer.states):
        state.register_hook(lambda grad, number=number: passed.append(number))
    (grad,) = torch.autograd.grad(y[:, -1].sum(), x)
    assert bool((grad[:, 0] != 0).any())
    return len(set(passed))


def law(lengths: list[int], counts: list[int]) -> str:
    """Which of 1, log n and n the counts follow best, up to a factor and a constant."""
    if max(counts) == min(counts):
        return "1"
    log = _residual([math.log(n) for n in lengths], counts)
    return "n" if _residual([float(n) for n in lengths], counts) <= log else "log n"


def _residual(x: list[float], y: list[int]) -> float:
    mx, my = sum(x) / len(x), sum(y) / len(y)
    over = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    slope = over / sum((a - mx) ** 2 for a in x)
    return sum((b - my - slope * (a - mx)) ** 2 for a, b in zip(x, y, strict=True))


def _times(layer: Layer, sizes: list[tuple[int, int]]) -> list[float]:
    found = []
    for length, dim in sizes:
        torch.manual_seed(0)
        step = layer.make(dim, 0)
        leaves = {"x": torch.randn(layer.batch, length, dim)}
        run = call(lambda x, step=step: step(x["x"]), leaves, FORWARD)
        found.append(seconds(run, 3))
    return found


def measure(name: str, *, quick: bool = False, threads: int = 1) -> dict[str, Any]:
    """One row of the table."""
    layer = LAYERS[name]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        # the shortest say most about the cost of a call, the longest about the layer
        lengths = list(layer.lengths[: 3 if quick else None])
        dims = list(layer.dims[: 3 if quick else None])
        by_length = _times(layer, [(n, layer.dim) for n in lengths])
        by_dim = _times(layer, [(layer.length, d) for d in dims])
        few = [16, 32, 64, 128] if quick else [16, 32, 64, 128, 256]
        chain = [sequential(layer, n) for n in few]
        paths = [path(layer, n) for n in few]
    finally:
        torch.set_num_threads(before)
    return {
        "id": name,
        "what": layer.what,
        "table": dict(zip(("operations", "sequential", "path"), layer.table, strict=True)),
        "time": {
            "n": _fit(lengths, by_length) | {"d": layer.dim},
            "d": _fit(dims, by_dim) | {"n": layer.length},
        },
        "sequential": _count(few, chain),
        "path": _count(few, paths),
        "threads": threads,
        "load": load(),
    }


def _fit(sizes: list[int], times: list[float]) -> dict[str, Any]:
    ms = [float(f"{1e3 * t:.4g}") for t in times]
    return {"sizes": sizes, "ms": ms, "exponent": exponent(sizes, times)}


def _count(lengths: list[int], counts: list[int]) -> dict[str, Any]:
    return {
        "n": lengths,
        "counts": counts,
        "exponent": round(exponent(lengths, [float(c) for c in counts]), 2),
        "law": law(lengths, counts),
    }


def summary(results: list[dict[str, Any]], threads: int, quick: bool) -> dict[str, Any]:
    """The last line."""
    return {"bench": "complexity", "quick": quick, **machine(threads), "rows": results}


HEAD = ("LAYER", "TABLE 1", "TIME", "SEQUENTIAL", "MEASURED", "PATH", "MEASURED")


def cells(result: dict[str, Any]) -> tuple[str, ...]:
    """One result as a line of the table."""
    table, time = result["table"], result["time"]

    def counted(which: str) -> str:
        found = result[which]
        return f"{found['law']} ({found['counts'][-1]} at n={found['n'][-1]})"

    return (
        result["id"],
        table["operations"],
        f"n^{time['n']['exponent']:.2f} d^{time['d']['exponent']:.2f}",
        table["sequential"],
        counted("sequential"),
        table["path"],
        counted("path"),
    )


def main() -> None:
    """The program without the command line of regard."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="LAYER")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    for name in given.names or LAYERS:
        print(json.dumps(measure(name, quick=given.quick, threads=given.threads)), flush=True)


if __name__ == "__main__":
    main()
