"""Whole decodings whose steps C takes several at a time, beside one call of C a step.

    python benchmarks/steps_at_once.py [--rounds 5] [--models luong gnmt] [--precision int8]
    python benchmarks/steps_at_once.py --beside model   # the model's own steps, by PyTorch

CPU time of one thread, in turns, with reading and the books of the search: 8,000 words, sources of
10 to 30 words (20 where there is one), and as many words written as read, so that sentences leave
a batch one after the other. One line a model, decoder and batch size: milliseconds, and how many
times as fast, with the extremes of the rounds.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from paired import machine, row
from recorded_decoders import LANGUAGE_MODELS, PICTURES, ROWS, build, source

from regard import native
from regard.decode import Beam, Decoder, Greedy
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.recordings import decoder_in_c
from regard.protocols import EOS, PAD, Inputs

MODELS = [name for name in ROWS if name not in LANGUAGE_MODELS | PICTURES]
BATCHES = (1, 32)
NEVER = 1e9
"""Seconds: with a deadline a search asks the clock after each step, so each is a call."""


def given(name: str, batch: int) -> Inputs:
    """Sources of one length for one sentence, else of many."""
    whole = source(name, batch)
    if batch == 1 or whole.values.dim() != 2:
        return whole
    size = 30
    ids = source(name, batch).values.repeat(1, 2)[:, :size]
    lengths = 10 + torch.arange(batch) * 7 % (size - 9)
    ids = ids.masked_fill(torch.arange(size) >= lengths[:, None], PAD)
    ids[torch.arange(batch), lengths - 1] = EOS
    return Inputs(ids, lengths, {k: v.repeat(1, 2)[:, :size] for k, v in whole.extras.items()})


@contextmanager
def by_pytorch() -> Iterator[None]:
    """Within this nothing is recorded."""
    os.environ["REGARD_PROGRAM"] = "0"
    try:
        yield
    finally:
        del os.environ["REGARD_PROGRAM"]


@torch.inference_mode()
def measure(
    model: Any, engine: Any, decoder: Decoder, inputs: Inputs, rounds: int, beside: str
) -> dict[str, Any]:
    """Both ways in turns; those in C find the same hypotheses."""
    own = replace(decoder, precision="float32")
    ways: dict[str, Callable[[], Any]] = {
        "at_once": lambda: decoder(engine, inputs),
        "step": lambda: decoder(engine, inputs, deadline=NEVER),
        "model": lambda: own(model, inputs),
    }
    found, spent = {}, {way: [] for way in ("at_once", beside)}
    for turn in range(rounds + 1):
        for way in sorted(spent, reverse=turn % 2 == 1):
            with by_pytorch() if way == "model" else nullcontext():
                start = time.process_time()
                best = ways[way]()
            if turn:  # the first is not counted
                spent[way].append(1000 * (time.process_time() - start))
            found[way] = [(h.tokens, h.score) for one in best for h in one]
    if beside == "step" and found["at_once"] != found["step"]:
        raise AssertionError("the two ways found other hypotheses")
    ratios = [b / a for a, b in zip(spent["at_once"], spent[beside], strict=True)]
    return {
        f"by_{beside}_ms": round(statistics.median(spent[beside]), 2),
        "ms": round(statistics.median(spent["at_once"]), 2),
        "times": [round(f(ratios), 2) for f in (min, statistics.median, max)],
    }


def main() -> None:
    """Print one line a model, decoder and batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--beside", default="step", choices=("step", "model"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    limits = {"max_ratio": 1.0, "max_extra": 0, "min_length": 1, "precision": args.precision}
    for name in args.models:
        model = build(name)
        for decoder in (Greedy(**limits), Beam(beam_size=5, **limits)):
            for batch in BATCHES:
                inputs = given(name, batch)
                engine = decoder_in_c(model, inputs, None, args.precision)
                if not isinstance(engine, RecordedDecoder):
                    raise SystemExit(f"{name} has no program here")
                row(
                    model=name,
                    decoder=type(decoder).__name__.lower(),
                    batch=batch,
                    precision=args.precision,
                    **measure(model, engine, decoder, inputs, args.rounds, args.beside),
                    level=native.level(),
                    **machine(),
                )


if __name__ == "__main__":
    main()
