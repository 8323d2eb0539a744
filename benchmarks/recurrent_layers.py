"""Encoders with recurrent layers: read in C, beside the same layers by PyTorch.

    python benchmarks/recurrent_layers.py [--rounds 9] [--models rnnsearch gnmt]

CPU time of one thread, in turns: `encode` of sources of 20 words (frames, for arsg) by the models
of `recorded_decoders.py`, in float32. One row a model and batch size: milliseconds, and min, median
and max of the ratios of the rounds.
"""

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from paired import machine, milliseconds
from recorded_decoders import build, source

from regard import native
from regard.layers import bilstm, lstm, rnn
from regard.models import deep_att

MODELS = (
    "rnn-encoder-decoder",
    "rnnsearch",
    "conditional-gru",
    "seq2seq",
    "luong",
    "gnmt",
    "deep-att",
    "moe",
    "lstm-a",
    "pointer-generator",
    "paulus",
    "arsg",
)
BATCHES = (1, 4, 32)


@contextmanager
def by_pytorch() -> Iterator[None]:
    """Let PyTorch read every layer."""
    modules: tuple[Any, ...] = (rnn, lstm, bilstm, deep_att)
    own = rnn.reads
    for module in modules:
        module.reads = lambda *_, **__: False
    try:
        yield
    finally:
        for module in modules:
            module.reads = own


def spent(model: Any, given: Any, times: int) -> float:
    """Milliseconds of CPU of one reading."""
    began = time.process_time()
    for _ in range(times):
        model.encode(given)
    return (time.process_time() - began) / times * 1e3


@torch.inference_mode()
def measure(name: str, batch: int, rounds: int) -> dict[str, Any]:
    """One row."""
    model, given, times = build(name), source(name, batch), max(1, 16 // batch)
    turns = []
    for _ in range(rounds + 1):
        with by_pytorch():
            other = spent(model, given, times)
        turns.append((other, spent(model, given, times)))
    return {
        "model": name,
        "batch": batch,
        **milliseconds(turns),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.models:
        for batch in BATCHES:
            print(json.dumps(measure(name, batch, options.rounds)), flush=True)
    print(json.dumps({**machine(), "level": native.level(), "dtype": "float32"}))


if __name__ == "__main__":
    main()
