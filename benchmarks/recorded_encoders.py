"""Encoders that are recorded programs, beside the same by PyTorch.

    python benchmarks/recorded_encoders.py [--rounds 9] [--models transformer marian]

CPU time of one thread, in turns: what a decoder has of its source (`encode` and `start`), for texts
of 10 to 30 words (20 where there is one), by the models of `recorded_decoders.py`. One row a
model, batch size and precision: milliseconds, and min, median and max of the ratios of the rounds.
That a decoder compares the weights with those of the batch before, once a batch, is not counted.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch
from paired import machine, milliseconds
from recorded_decoders import WORDS, build

from regard import native
from regard.decode.program.model_state import ModelState
from regard.decode.program.readers import reader_of, unread_reason
from regard.decode.program.recorded_encoder import started

MODELS = ("transformer", "following-transformer", "marian")
BATCHES = (1, 4, 32)
PRECISIONS = ("float32", "int8")


def texts(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids with padding, and lengths."""
    g = torch.Generator().manual_seed(batch)
    lengths = torch.randint(10, 31, (batch,), generator=g) if batch > 1 else torch.tensor([20])
    size = int(lengths.max())
    ids = torch.randint(4, WORDS, (batch, size), generator=g)
    return ids.masked_fill(torch.arange(size) >= lengths[:, None], 0), lengths


def spent(call: Callable[[], Any], times: int) -> float:
    """Milliseconds of CPU of one reading."""
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times * 1e3


@torch.inference_mode()
def measure(name: str, batch: int, precision: str, rounds: int) -> dict[str, Any]:
    """One row."""
    model, (ids, lengths), times = build(name), texts(batch), max(1, 16 // batch)
    reader = reader_of(ModelState(model), precision)
    if reader is None:
        raise SystemExit(f"{name}: {unread_reason(model)}")
    turns = []
    for _ in range(rounds + 1):
        other = spent(lambda: model.start(model.encode(ids, lengths)), times)
        own = spent(lambda: started(model, reader.encode(model, ids, lengths)), times)
        turns.append((other, own))
    return {
        "model": name,
        "batch": batch,
        "precision": precision,
        **milliseconds(turns),
    }


def main() -> None:
    """Print the rows, then the machine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.models:
        for batch in BATCHES:
            for precision in PRECISIONS:
                row = measure(name, batch, precision, options.rounds)
                print(json.dumps(row), flush=True)
    print(json.dumps({**machine(), "level": native.level()}))


if __name__ == "__main__":
    main()
