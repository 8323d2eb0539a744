"""Whole decodings whose steps C takes several at a time, beside one call of C a step.

    python benchmarks/steps_at_once.py [--rounds 5] [--models luong gnmt] [--precision int8]

CPU time of one thread, in turns, with reading and the books of the search: 8,000 words, sources of
10 to 30 words (20 where there is one), and as many words written as read, so that sentences leave
a batch one after the other. One line a model, decoder and batch size: milliseconds, and how many
times as fast, with the extremes of the rounds.
"""

import argparse
import statistics
import time
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


@torch.inference_mode()
def measure(model: Any, decoder: Decoder, inputs: Inputs, rounds: int) -> dict[str, Any]:
    """Both ways in turns; their hypotheses are the same."""
    ways = {"at_once": None, "by_step": NEVER}
    found, spent = {}, {way: [] for way in ways}
    for turn in range(rounds + 1):
        for way, deadline in sorted(ways.items(), reverse=turn % 2 == 1):
            start = time.process_time()
            best = decoder(model, inputs, deadline=deadline)
            if turn:  # the first is not counted
                spent[way].append(1000 * (time.process_time() - start))
            found[way] = [(h.tokens, h.score) for own in best for h in own]
    if found["at_once"] != found["by_step"]:
        raise AssertionError("the two ways found other hypotheses")
    ratios = [b / a for a, b in zip(spent["at_once"], spent["by_step"], strict=True)]
    return {
        "by_step_ms": round(statistics.median(spent["by_step"]), 2),
        "ms": round(statistics.median(spent["at_once"]), 2),
        "times": [round(f(ratios), 2) for f in (min, statistics.median, max)],
    }


def main() -> None:
    """Print one line a model, decoder and batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--precision", default="float32")
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
                    **measure(engine, decoder, inputs, args.rounds),
                    level=native.level(),
                    **machine(),
                )


if __name__ == "__main__":
    main()
