"""Steps of recorded decoders in C, beside the models' own: every generator that C takes.

    python benchmarks/recorded_decoders.py [--rounds 9] [--models luong gnmt]

CPU time of one thread, in turns: a step of a beam of 5 over sources of 20 words, 8,000 words in the
vocabulary, the mean of 12; re-ordering of hypotheses is the same for both and not counted. One row
a model and batch size: microseconds, and min, median and max of the ratios of the rounds.
"""

import argparse
import json
import statistics
import time
from typing import Any

import torch
from paired import machine

from regard import catalog, native
from regard.decode.program.folding import folded
from regard.decode.program.lowering import lower
from regard.decode.program.probes import probes
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.unify import recorded
from regard.protocols import BOS, EOS, Inputs

WORDS, SOURCE, BEAM, STEPS = 8000, 20, 5, 12
SIZES: dict[str, dict[str, Any]] = {
    "seq2seq": {"embed": 256, "hidden": 256, "layers": 2},
    "rnn-encoder-decoder": {"embed": 256, "hidden": 256, "maxout": 128},
    "rnnsearch": {"embed": 256, "hidden": 256, "align": 256, "maxout": 128},
    "conditional-gru": {"embed": 256, "hidden": 256, "align": 256},
    "luong": {"embed": 256, "hidden": 256, "layers": 2},
    "gnmt": {"embed": 256, "hidden": 256, "layers": 4, "align": 256},
    "deep-att": {"embed": 256, "hidden": 256, "layers": 3, "decoder_layers": 3, "align": 256},
    "pointer-generator": {"embed": 128, "hidden": 256, "align": 512},
    "convs2s": {"embed": 256, "encoder": [[4, 256, 3]]},
    "abs": {"embed": 200, "source_embed": 200, "hidden": 400},
    "show-attend-tell": {
        "embed": 256,
        "hidden": 512,
        "align": 512,
        "widths": [4, 6],
        "convolutions": [1, 1],
    },
    "temporal": {
        "embed": 256,
        "hidden": 512,
        "align": 256,
        "widths": [4, 6],
        "convolutions": [1, 1],
        "motion": 4,
    },
}
COPYING, PICTURES = {"pointer-generator"}, {"show-attend-tell", "temporal"}


def source(name: str, batch: int) -> Inputs:
    """Sources of the kind that a model reads."""
    g = torch.Generator().manual_seed(7)
    if name == "show-attend-tell":
        return Inputs(torch.randn(batch, 2, 8, 40, generator=g))
    lengths = torch.full((batch,), SOURCE)
    if name == "temporal":
        return Inputs(torch.randn(batch, SOURCE, 2, 8, 8, generator=g), lengths)
    ids = torch.randint(4, WORDS, (batch, SOURCE), generator=g)
    ids[:, -1] = EOS
    if name not in COPYING:
        return Inputs(ids, lengths)
    copies = ids.clone()
    copies[:, 3] = WORDS + 1
    return Inputs(ids, lengths, {"copies": copies})


def spent(form: Any, begun: Any, batch: int) -> float:
    """Seconds of CPU of a step, on average; the first and re-ordering are not counted."""
    g = torch.Generator().manual_seed(3)
    tokens, decoding, width, total = torch.full((batch, 1), BOS), begun, 1, 0.0
    for step in range(STEPS + 1):
        order = torch.randint(width, (batch, BEAM), generator=g)
        words = torch.randint(4, WORDS, (batch, BEAM), generator=g)
        began = time.thread_time()
        _, after = form.step(tokens, decoding)
        total += time.thread_time() - began if step else 0.0
        decoding, tokens, width = after.select(order), words, BEAM
    return total / STEPS


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", nargs="*", default=list(SIZES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps({**machine(), "level": native.level(), "dtype": "float32", "beam": BEAM}))
    for name in options.models:
        torch.manual_seed(0)
        first = 2 if name in PICTURES else WORDS
        model: Any = catalog.load(name)(first, WORDS, **SIZES[name]).eval()
        for batch in (1, 32):
            encoded = model.encode(source(name, batch))
            began = time.thread_time()
            decoder = RecordedDecoder(model, lower(folded(recorded(model, probes(model, encoded)))))
            making = time.thread_time() - began
            begun = model.start(encoded)
            rounds = [
                (spent(model, begun, batch), spent(decoder, begun, batch))
                for _ in range(options.rounds + 1)
            ][1:]
            ratios = [eager / c for eager, c in rounds]
            row = {
                "model": name,
                "batch": batch,
                "instructions": decoder.instructions,
                "by_model": decoder.steps_of_model,
                "making_ms": round(1e3 * making),
                "eager_us": round(1e6 * statistics.median(eager for eager, _ in rounds)),
                "c_us": round(1e6 * statistics.median(c for _, c in rounds)),
                "times": [round(f(ratios), 2) for f in (min, statistics.median, max)],
            }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
