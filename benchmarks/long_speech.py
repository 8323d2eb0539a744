"""Error rates on sounds that are longer than those of the training, and how fast they are decoded.

    python benchmarks/long_speech.py runs/speech/{hybrid,content}-espeak [--most 3] [--limit 60]

The test sounds of a folder's data are joined to sounds of one, two, … utterances. A model is used
as it is, with sharper weights, with the best frames alone, and in a window about the last weights
(Chorowski et al. 2015, 2.3). Printed: the error rate (PER or WER), seconds of sound for each second
of processor time. One process, as many threads as OMP_NUM_THREADS says.
"""

import argparse
import io
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import soundfile  # type: ignore[import-untyped,unused-ignore]

import regard
from regard.attention import PreviousWeights, Sharpen, TopK
from regard.data.audio import audio

PAUSE = 0.1
"""Seconds of silence between two utterances."""


def joined(test: Any, each: int, limit: int, rate: int, folder: Path) -> list[tuple[str, str]]:
    """(A sound file, what is said in it) of `each` utterances one after the other."""
    made = []
    for start in range(0, len(test.texts) - each + 1, each):
        if len(made) == limit:
            break
        parts = []
        for i in range(start, start + each):
            values, own = audio.samples(test.source.sounds[i])
            parts += [audio.resampled(values, own, rate), np.zeros(round(PAUSE * rate))]
        buffer = io.BytesIO()
        soundfile.write(buffer, np.concatenate(parts[:-1]), rate, format="FLAC")
        path = folder / f"{each}-{start}.flac"
        path.write_bytes(buffer.getvalue())
        text = " ".join(test.references[i][0] for i in range(start, start + each))
        made.append((str(path), text))
    return made


def used(model: Any, way: str, at: float) -> None:
    """Set how attention is used; models without it stay as they are."""
    if not hasattr(model, "used"):
        return
    model.used, model.reach = None, 0
    if way == "sharpen":
        model.used = Sharpen(at)
    elif way == "keep":
        model.used = TopK(int(at))
    elif way == "reach":
        model.reach = int(at)
        model.attention.carry = model.attention.carry or PreviousWeights(first=0)


def main() -> None:
    """Print a table for each folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--most", type=int, default=3, help="utterances in the longest sounds")
    parser.add_argument("--limit", type=int, default=60, help="sounds of each length")
    parser.add_argument("--beam", type=int, default=5)
    asked = parser.parse_args()
    for name in asked.folders:
        loaded = regard.load(name)
        task = loaded.task
        test = task.data(dict(loaded.config["data"]), loaded.fields, splits=("test",)).test
        if test is None:
            sys.exit(f"{name}: its data has no test split")
        found = (
            loaded.with_decoder(beam_size=asked.beam) if hasattr(loaded.model, "step") else loaded
        )
        ways: list[tuple[str, float]] = [("as it is", 0)]
        if hasattr(loaded.model, "used"):
            ways += [("sharpen", 2.0), ("keep", 10), ("reach", 25)]
        print(
            f"\n{name}\n\n| used | " + " | ".join(f"x {n}" for n in range(1, asked.most + 1)) + " |"
        )
        print("|---" * (asked.most + 1) + "|")
        with tempfile.TemporaryDirectory() as place:
            sets = [
                joined(test, n, asked.limit, task.rate, Path(place))
                for n in range(1, asked.most + 1)
            ]
            for way, at in ways:
                used(loaded.model, way, at)
                cells = []
                for one in sets:
                    begun = time.process_time()
                    said = found.predict([path for path, _ in one])
                    spent = time.process_time() - begun
                    length = sum(soundfile.info(path).duration for path, _ in one)
                    right = type("Examples", (), {"references": [[text] for _, text in one]})
                    score = next(iter(task.score(said, right).values()))
                    cells.append(f"{score.value:.2f} ({length / spent:.0f} s/s)")
                print(f"| {way}{f' {at:g}' if at else ''} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
