"""Every generator of the catalog: what runs its decoder on this machine, beside its own `step`.

    python benchmarks/recorded_decoders.py [--rounds 9] [--models luong gnmt] [--form program]

`regard bench decode` is the same. CPU time of one thread, in turns: a step of a beam of 5 over
sources of 20 words, 8,000 words in the vocabulary, the mean of 12. Re-ordering of hypotheses is not
counted.
`--form int8` and `bfloat16` are programs with such weights; `--form watched` compares steps whose
attention is watched. One row a model and batch size:
milliseconds, and min, median and max of the ratios of the rounds.
"""

import argparse
import json
import statistics
import time
from contextlib import nullcontext
from typing import Any

import torch
from paired import machine

from regard import catalog, native
from regard.attention.recording import Seen, watching
from regard.decode.program.explained import explanation
from regard.decode.program.in_c import InC
from regard.decode.program.recordings import recorded_form
from regard.protocols import BOS, EOS, Inputs

__all__ = ["HEAD", "ROWS", "cells", "measure_row", "summary", "verdict"]

WORDS, SOURCE, BEAM, STEPS = 8000, 20, 5, 12
BATCHES = (1, 32)
NARROW = ("bfloat16", "int8")
PICTURE = {"widths": [4, 6], "convolutions": [1, 1]}
ROWS: dict[str, dict[str, Any]] = {
    "seq2seq": {"embed": 256, "hidden": 256, "layers": 2},
    "rnn-encoder-decoder": {"embed": 256, "hidden": 256, "maxout": 128},
    "rnnsearch": {"embed": 256, "hidden": 256, "align": 256, "maxout": 128},
    "conditional-gru": {"embed": 256, "hidden": 256, "align": 256},
    "luong": {"embed": 256, "hidden": 256, "layers": 2},
    "gnmt": {"embed": 256, "hidden": 256, "layers": 4, "align": 256},
    "deep-att": {"embed": 256, "hidden": 256, "layers": 3, "decoder_layers": 3, "align": 256},
    "convs2s": {"embed": 256, "encoder": [[4, 256, 3]]},
    "bytenet": {"dim": 128, "sets": 2},
    "moe": {"dim": 256, "hidden": 256, "experts": 32, "k": 4, "ffn_dim": 256, "align": 256},
    "transformer": {"dim": 256, "heads": 8, "ffn_dim": 1024, "layers": 3},
    "following-transformer": {"dim": 256, "heads": 8, "ffn_dim": 1024, "layers": 3},
    "marian": {"dim": 256, "heads": 8, "ffn_dim": 1024, "layers": 3},
    "lstm-a": {"embed": 256, "hidden": 256, "layers": 2, "follow": True},
    "pointer-generator": {"embed": 128, "hidden": 256, "align": 512},
    "paulus": {"embed": 128, "hidden": 256},
    "abs": {"embed": 200, "source_embed": 200, "hidden": 400},
    "show-attend-tell": {"embed": 256, "hidden": 512, "align": 512, **PICTURE},
    "temporal": {"embed": 256, "hidden": 512, "align": 256, **PICTURE, "motion": 4},
    "arsg": {"hidden": 256, "layers": 2, "state": 256, "align": 256},
    "lstmn-lm": {"embed": 256, "hidden": 256},
    "memn2n-lm": {"dim": 150, "memory": 100},
}
"""Sizes of each."""
COPYING, PICTURES = {"pointer-generator", "paulus"}, {"show-attend-tell", "temporal"}
LANGUAGE_MODELS, FEATURES = {"lstmn-lm", "memn2n-lm"}, 40
HEAD = ("MODEL", "BATCH", "WHAT RAN", "MODEL'S OWN, ms", "THIS, ms", "TIMES", "(MIN-MAX)")


def build(name: str) -> Any:
    """A generator of the size of its row, with random weights."""
    torch.manual_seed(0)
    given = ROWS[name]
    if name in LANGUAGE_MODELS:
        return catalog.load(name)(WORDS, **given).eval()
    first = 2 if name in PICTURES else FEATURES if name == "arsg" else WORDS
    model = catalog.load(name)(first, WORDS, **given).eval()
    if name == "moe":  # gates begin with zeros, which choose the same experts for all words
        torch.nn.init.normal_(model.decoder_experts.gates.gate)
    return model


def source(name: str, batch: int) -> Inputs:
    """Sources of the kind that a model reads."""
    g = torch.Generator().manual_seed(7)
    if name == "show-attend-tell":
        return Inputs(torch.randn(batch, 2, 8, 40, generator=g))
    lengths = torch.full((batch,), SOURCE)
    if name == "temporal":
        return Inputs(torch.randn(batch, SOURCE, 2, 8, 8, generator=g), lengths)
    if name == "arsg":
        return Inputs(torch.randn(batch, SOURCE, FEATURES, generator=g), lengths)
    ids = torch.randint(4, WORDS, (batch, SOURCE), generator=g)
    ids[:, -1] = EOS
    if name not in COPYING:
        return Inputs(ids, lengths)
    copies = ids.clone()
    copies[:, 3] = WORDS + 1
    return Inputs(ids, lengths, {"copies": copies})


def spent(form: Any, begun: Any, batch: int) -> float:
    """Seconds of CPU of a step, on average; the first is not counted."""
    g = torch.Generator().manual_seed(3)
    tokens, decoding, width, total = torch.full((batch, 1), BOS), begun, 1, 0.0
    for step in range(STEPS + 1):
        order = torch.randint(width, (batch, BEAM), generator=g)
        words = torch.randint(4, WORDS, (batch, BEAM), generator=g)
        began = time.process_time()
        _, after = form.step(tokens, decoding)
        between = time.process_time()
        decoding, tokens, width = after.select(order), words, BEAM
        total += between - began if step else 0.0
    return total / STEPS


def forms(name: str, model: Any, batch: int, compared: str) -> tuple[Any, Any, Any, str]:
    """A model's two forms that are compared, the decoding of a batch, and what the second is."""
    if name in LANGUAGE_MODELS:
        return (
            model,
            None,
            None,
            f"its own step, by PyTorch: {type(model).__name__} reads no source",
        )
    encoded = model.encode(source(name, batch))
    begun = model.start(encoded)
    if compared == "watched":
        shows = recorded_form(model, encoded, watched=True)
        return model, shows, begun, "a program whose attention is watched"
    if compared in NARROW:
        narrow = recorded_form(model, encoded, compared)
        return model, narrow, begun, f"a program with weights in {compared}"
    form = recorded_form(model, encoded)
    said = str(explanation(model))
    return model, None if form is model else form, begun, said


@torch.inference_mode()
def measure_row(
    name: str, *, quick: bool = False, threads: int = 1, rounds: int = 9, compared: str = "own"
) -> list[dict[str, Any]]:
    """The rows of one model: a dict for each size of a batch.

    Args:
        quick: three rounds.
    """
    torch.set_num_threads(threads)
    rounds = min(rounds, 3) if quick else rounds
    found, model = [], build(name)
    for batch in BATCHES:
        first, second, begun, said = forms(name, model, batch, compared)
        row: dict[str, Any] = {"model": name, "batch": batch, "ran": said}
        if second is not None:
            watcher = watching(Seen(model)) if compared == "watched" else nullcontext()
            with watcher:
                turns = [
                    [spent(form, form_begun, batch) for form, form_begun in ways]
                    for ways in [_ways(first, second, begun, name, batch)] * (rounds + 1)
                ][1:]
            ratios = [own / other for own, other in turns]
            row |= {
                "own_ms": round(1e3 * statistics.median(own for own, _ in turns), 3),
                "ms": round(1e3 * statistics.median(other for _, other in turns), 3),
                "times": [round(f(ratios), 2) for f in (min, statistics.median, max)],
            }
        found.append(row)
    return found


def _ways(first: Any, second: Any, begun: Any, name: str, batch: int) -> list[tuple[Any, Any]]:
    """Both forms, each with the decoding that it begins with."""
    own = [
        form.start(form.encode(source(name, batch))) if isinstance(form, InC) else begun
        for form in (first, second)
    ]
    return list(zip((first, second), own, strict=True))


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table."""
    said = (row["model"], str(row["batch"]))
    if "times" not in row:
        return (*said, row["ran"], "", "", "", "")
    low, middle, high = row["times"]
    figures = f"{row['own_ms']:.2f}", f"{row['ms']:.2f}", f"{middle:.2f}", f"({low:.2f}-{high:.2f})"
    return (*said, row["ran"], *figures)


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What all rows were measured on, and how many generators do not take their own steps."""
    names = {row["model"] for row in found}
    in_c = {row["model"] for row in found if "times" in row}
    return {
        **machine(),
        "level": native.level(),
        "dtype": "float32",
        "beam": BEAM,
        "in_c": len(in_c),
        "of": len(names),
    }


def verdict(result: dict[str, Any]) -> str:
    """What the summary says, in a line."""
    return (
        f"{result['in_c']} of {result['of']} generators do not take their own steps; "
        f"{result['threads']} thread(s), {result['level']}, torch {result['torch']}; "
        "times are CPU times of a step, MODEL'S OWN over THIS"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", nargs="*", default=list(ROWS))
    parser.add_argument("--form", choices=("own", "watched", *NARROW), default="own")
    options = parser.parse_args()
    found = []
    for name in options.models:
        for row in measure_row(name, rounds=options.rounds, compared=options.form):
            print(json.dumps(row), flush=True)
            found.append(row)
    print(json.dumps(summary(found)))


if __name__ == "__main__":
    main()
