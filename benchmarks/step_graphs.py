"""The recorded step of a decoder as a CUDA graph, against `model.step` on the same card.

    python benchmarks/step_graphs.py [--rounds 9] >> benchmarks/results/step-graphs-<date>.jsonl

One step at fixed sizes: its operations are recorded (`regard.decode.program`), captured once and
replayed. One JSON line for each model, batch and beam: microseconds a step, the ratio of eager to
graph as min / median / max over rounds in which the two take turns, the largest difference of the
logits, and how many operations there are. Without a GPU it says so and stops. Not run yet: no GPU
was lent since it was written; the recordings were compared with `model.step` on a CPU.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard import catalog
from regard.decode.program.recorder import NotRecorded
from regard.decode.program.replay import Program
from regard.decode.program.unify import recorded
from regard.protocols import BOS, EOS, Decoding

WORDS, STEPS = 8_000, 20
PROBES = ((2, 3, 17, 3), (5, 2, 23, 4), (3, 4, 29, 6))
"""Batch, beam, source length and step of each recording."""
MODELS: dict[str, dict[str, Any]] = {
    "rnnsearch": {"embed": 256, "hidden": 256, "align": 256, "maxout": 128, "scale": 0.1},
    "conditional-gru": {"embed": 256, "hidden": 256, "scale": 0.1},
    "luong": {"embed": 256, "hidden": 256, "layers": 2},
    "gnmt": {"embed": 256, "hidden": 256, "layers": 4, "align": 256},
    "lstm-a": {"embed": 256, "hidden": 256, "layers": 2, "align": 256},
    "convs2s": {},
    "transformer": {"dim": 256, "heads": 4, "layers": 3, "ffn_dim": 1024},
}


@torch.inference_mode()
def probe(model: Any, batch: int, beam: int, size: int, steps: int) -> tuple[Tensor, Decoding]:
    """The arguments of a step, after this many."""
    source = torch.randint(4, WORDS, (batch, size), device="cuda")
    source[:, -1] = EOS
    decoding = model.start(model.encode(source, torch.full((batch,), size, device="cuda")))
    tokens = torch.full((batch, 1), BOS, device="cuda")
    for _ in range(steps):
        _, decoding = model.step(tokens, decoding)
        index = torch.randint(tokens.shape[1], (batch, beam), device="cuda")
        decoding = decoding.select(index)
        tokens = torch.randint(4, WORDS, (batch, beam), device="cuda")
    return tokens, decoding


def captured(
    program: Program, tokens: Tensor, decoding: Decoding
) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """A graph of the program's operations on these tensors, and where its logits are."""
    bound = program.bind(tokens, decoding)

    def operations() -> Tensor:
        logits: Tensor = program.outputs_of(*bound)["logits"]
        return logits

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            operations()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = operations()
    return graph, logits


def seconds(run: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(STEPS):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / STEPS


@torch.inference_mode()
def measure(name: str, batch: int, beam: int, rounds: int) -> dict[str, Any]:
    """One row."""
    torch.manual_seed(1)
    model = catalog.load(name)(WORDS, WORDS, **MODELS[name]).cuda().eval()
    row: dict[str, Any] = {"model": name, "batch": batch, "beam": beam, "source": 30}
    try:
        program = recorded(model, [probe(model, *one) for one in PROBES])
        tokens, decoding = probe(model, batch, beam, 30, 5)
        graph, logits = captured(program, tokens, decoding)
    except (NotRecorded, RuntimeError) as error:
        return {**row, "refused": str(error).splitlines()[0][:200]}
    expected, _ = model.step(tokens, decoding)
    graph.replay()
    error = float((logits - expected).abs().max())
    eager, replayed = (lambda: model.step(tokens, decoding)), graph.replay
    times = [(seconds(eager), seconds(replayed)) for _ in range(rounds)][1:]
    ratios = sorted(a / b for a, b in times)
    return {
        **row,
        "eager_us": round(1e6 * statistics.median(a for a, _ in times), 1),
        "graph_us": round(1e6 * statistics.median(b for _, b in times), 1),
        "ratio": [round(x, 2) for x in (ratios[0], statistics.median(ratios), ratios[-1])],
        "difference": error,
        "operations": len(program.nodes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    if not torch.cuda.is_available():
        sys.exit("step_graphs: no GPU here")
    on = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "dtype": "float32"}
    for name in MODELS:
        for batch in (1, 32):
            for beam in (1, 5):
                print(json.dumps({**measure(name, batch, beam, rounds), **on}), flush=True)


if __name__ == "__main__":
    main()
