"""All steps of a gated unit in C beside the same steps by PyTorch's operators, and `torch.nn.GRU`.

    python benchmarks/gated.py [--threads 1]

A step is forward and backward of a whole layer, product with the inputs included. Rows, steps,
inputs and units are those of recipes: flat and hierarchical attention over film reviews, questions,
speech, translation. Ratios are of CPU times, the sides taking turns.
"""

import argparse
from functools import partial

import torch
from paired import machine, paired, row

from regard.layers import _gated
from regard.layers.rnn import GRU

SHAPES = {
    "han, flat": (8, 700, 100, 50, "after"),
    "han": (240, 25, 100, 50, "after"),
    "questions": (32, 20, 100, 100, "after"),
    "speech": (16, 100, 128, 128, "before"),
    "rnnsearch": (80, 30, 256, 256, "before"),
}


def step(layer: torch.nn.Module, x: torch.Tensor) -> None:
    """Forward and backward."""
    layer.zero_grad()
    layer(x)[0].sum().backward()


def by_operators(layer: torch.nn.Module, x: torch.Tensor) -> None:
    """The same without C."""
    steps, _gated.STEPS = _gated.STEPS, 10**9
    step(layer, x)
    _gated.STEPS = steps


parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--repeats", type=int, default=7)
asked = parser.parse_args()
torch.set_num_threads(asked.threads)
torch.manual_seed(0)

row(**machine())
for name, (rows, steps, inputs, hidden, reset) in SHAPES.items():
    x = torch.randn(rows, steps, inputs)
    ours, theirs = GRU(inputs, hidden, reset=reset), torch.nn.GRU(inputs, hidden, batch_first=True)
    exact = GRU(inputs, hidden, reset=reset).double()
    exact.load_state_dict(ours.state_dict())
    with torch.no_grad():
        apart = (ours(x)[0].double() - exact(x.double())[0]).abs().max()
    for baseline, other in (
        ("operators", partial(by_operators, ours, x)),
        ("torch.nn.GRU", partial(step, theirs, x)),
    ):
        row(
            id=f"gated/{name}", baseline=baseline, shape=[rows, steps, inputs, hidden],
            reset=reset, dtype="float32", threads=asked.threads, error=f"{float(apart):.1e}",
            ratio=paired(partial(step, ours, x), other, asked.repeats),
        )  # fmt: skip
