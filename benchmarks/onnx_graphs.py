"""Every generator of the catalog: a step here beside one of its exported graph under onnxruntime.

    python benchmarks/onnx_graphs.py [--rounds 5] [--models luong gnmt]

CPU time of one thread, in turns: a step of a beam of 5 over one source of 20 words, 8,000 words in
the vocabulary, re-ordering of the hypotheses counted, the mean of 12 steps. One row a model:
milliseconds here and there, how many times as fast this is (median, least, most), and how far the
scores differ.
"""

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np
import onnxruntime
import torch
from paired import machine
from recorded_decoders import BEAM, LANGUAGE_MODELS, ROWS, STEPS, WORDS, build, forms, source

from regard.convert.recorded.generators import generator_graphs
from regard.protocols import BOS, EOS, Inputs

SIZES = (9, 14, 23)
"""Places of the sources that a graph is recorded with."""


def cut(one: Inputs, size: int) -> Inputs:
    """The first places of a source; a picture stays as it is."""
    if one.lengths is None:
        return one
    values = one.values[:, :size].clone()
    if not values.is_floating_point():
        values[:, -1] = EOS
    extras = {name: x[:, :size] for name, x in one.extras.items()}
    if extras:  # as many own words as no other example has
        own = WORDS + 1 + size % 4
        extras["copies"] = extras["copies"].masked_fill(extras["copies"] > WORDS, own)
    return Inputs(values, torch.tensor([size]), extras)


def longer(name: str) -> Inputs:
    """A source that is long enough for all sizes."""
    one = source(name, 1)
    if one.lengths is None:
        return one
    twice = [torch.cat([x, x], 1) for x in (one.values, *one.extras.values())]
    return Inputs(twice[0], 2 * one.lengths, dict(zip(one.extras, twice[1:], strict=True)))


class Session:
    """A generator's graphs under onnxruntime, one thread."""

    def __init__(self, name: str, model: Any) -> None:
        graphs = generator_graphs(model, [cut(longer(name), n) for n in SIZES])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.encoder, self.step = (
            onnxruntime.InferenceSession(graph.model("regard").SerializeToString(), options)
            for graph in (graphs.encoder, graphs.step)
        )
        self.names = [one.name for one in self.step.get_outputs()]

    def start(self, one: Inputs) -> tuple[Any, Any]:
        """What stays of a source, and the state after the first step."""
        given = {"source": one.values.numpy(), **{k: x.numpy() for k, x in one.extras.items()}}
        names = [output.name for output in self.encoder.get_outputs()]
        found = dict(zip(names, self.encoder.run(None, given), strict=True))
        states = {name: x for name, x in found.items() if name.startswith("state")}
        return {name: x for name, x in found.items() if name.startswith("memory")}, states

    def run(self, tokens: Any, step: int, memories: Any, states: Any) -> tuple[Any, Any]:
        """Scores and the next states."""
        given = {"tokens": tokens, "step": np.array(step), **memories, **states}
        found = dict(zip(self.names, self.step.run(None, given), strict=True))
        logits = found.pop("logits")
        return logits, {name.removeprefix("next_"): x for name, x in found.items()}


def turns(form: Any, begun: Any, session: Session, one: Inputs) -> tuple[float, float, float]:
    """Seconds of a step here and there, and the largest difference of two scores."""
    g = torch.Generator().manual_seed(3)
    memories, states = session.start(one)
    _, decoding = form.step(torch.full((1, 1), BOS), begun)
    own = other = off = 0.0
    width = 1
    for step in range(1, STEPS + 2):
        order = torch.randint(width, (1, BEAM), generator=g)
        tokens = torch.randint(4, WORDS, (1, BEAM), generator=g)
        began = time.process_time()
        logits, decoding = form.step(tokens, decoding.select(order))
        between = time.process_time()
        states = {name: x[:, order[0].numpy()] for name, x in states.items()}
        scores, states = session.run(tokens.numpy(), step, memories, states)
        ended = time.process_time()
        if step > 1:
            own, other = own + between - began, other + ended - between
        real = torch.isfinite(logits)
        off = max(off, float((torch.from_numpy(scores) - logits)[real].abs().max()))
        width = BEAM
    return own / STEPS, other / STEPS, off


@torch.inference_mode()
def row(name: str, rounds: int) -> dict[str, Any]:
    """One model."""
    model = build(name)
    if name == "moe":  # equal gates choose any expert
        torch.nn.init.normal_(model.encoder_experts.gates.gate)
    own, program, _, said = forms(name, model, 1, "own")
    form = own if program is None else program
    session, one = Session(name, model), source(name, 1)
    every = []
    for _ in range(rounds + 1):
        begun = form.start(form.encode(one))
        every.append(turns(form, begun, session, one))
    every = every[1:]
    times = [there / here for here, there, _ in every]
    return {
        "model": name,
        "ran": said,
        "ms": round(1e3 * statistics.median(one[0] for one in every), 3),
        "onnxruntime_ms": round(1e3 * statistics.median(one[1] for one in every), 3),
        "times": [round(x, 2) for x in (statistics.median(times), min(times), max(times))],
        "off": max(one[2] for one in every),
    }


def main() -> None:
    """Print a row a model, as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    every = [name for name in ROWS if name not in LANGUAGE_MODELS]
    parser.add_argument("--models", nargs="*", default=every)
    told = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(machine()), flush=True)
    for name in told.models:
        print(json.dumps(row(name, told.rounds)), flush=True)


if __name__ == "__main__":
    main()
