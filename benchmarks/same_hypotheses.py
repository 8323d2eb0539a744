"""Shipped models that decode: the hypotheses of C beside those of the models' own steps.

    REGARD_DATA=… python benchmarks/same_hypotheses.py [--limit 1000] [--models parser-small]

Each model decodes inputs of its test data twice, as it does by default and with its own `step` by
PyTorch (not recorded); where its folder has a program, NumPy decodes them too. One
row a model: how many outputs are the same, the largest difference of their scores, and the CPU
seconds of each. A model whose data is not there is skipped.
"""

import argparse
import gzip
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from paired import machine, row

import regard
from regard.decode.program.explained import explanation
from regard.folder.programs import open_program


def rows_of(path: Path) -> list[str]:
    """The lines of a file, with or without compression."""
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def translations(data: Path, column: str) -> list[str]:
    return [json.loads(line)[column] for line in rows_of(data / "multi30k" / "test.jsonl.gz")]


def words(data: Path) -> list[str]:
    return [line.split("\t")[0] for line in rows_of(data / "pronunciation" / "test.tsv.gz")]


def sentences(data: Path) -> list[str]:
    """The words of trees."""
    trees = rows_of(data / "parsing" / "ewt-test.trees.gz")
    return [" ".join(x.rstrip(")") for x in tree.split() if x[0] != "(") for tree in trees]


def unpacked(archive: Path, place: Path, ending: str) -> list[str]:
    """The files of an archive."""
    with tarfile.open(archive) as files:
        files.extractall(place, filter="data")
    return sorted(map(str, place.rglob(f"*{ending}")))


SOURCES: dict[str, Callable[[Path, Path], list[str]]] = {
    "de-en-small": lambda data, _: translations(data, "de"),
    "en-de-small": lambda data, _: translations(data, "en"),
    "pronunciation-small": lambda data, _: words(data),
    "parser-small": lambda data, _: sentences(data),
    "digits-small": lambda data, place: unpacked(data / "speech/digits-test.tar", place, ".flac"),
    "emoji-small": lambda data, place: unpacked(data / "captions/test.tar", place, ".png"),
}
"""Of each model, its inputs; files are unpacked into the second folder."""


def decoded(loaded: Any, inputs: list[str]) -> tuple[list[Any], float]:
    """Predictions, and CPU seconds; what is made once is made before."""
    loaded.predict(inputs[:8])
    began = time.process_time()
    found = loaded.predict(inputs)
    return found, time.process_time() - began


def compared(name: str, inputs: list[str]) -> dict[str, Any]:
    """The row of a model."""
    loaded = regard.load(name)
    found, spent = decoded(loaded, inputs)
    ran = str(explanation(loaded.model))
    with mock.patch.dict(os.environ, {"REGARD_PROGRAM": "0"}):
        expected, own = decoded(loaded, inputs)
    made = {
        "model": name,
        "ran": ran,
        "inputs": len(inputs),
        **alike(inputs, found, expected),
        "cpu_seconds": round(spent, 1),
        "own_cpu_seconds": round(own, 1),
    }
    program = open_program(loaded.folder)
    if program is not None:
        answers, spent = decoded(program, inputs)
        again = alike(inputs, answers, expected)
        made |= {f"program_{key}": value for key, value in again.items()}
        made["program_cpu_seconds"] = round(spent, 1)
    return made


def alike(inputs: list[str], found: list[Any], expected: list[Any]) -> dict[str, Any]:
    """How many outputs are the same, the first inputs of others, and how far scores are apart."""
    pairs = list(zip(found, expected, strict=True))
    same = [(a, b) for a, b in pairs if a.output == b.output]
    return {
        "same": len(same),
        "differ": [inputs[i] for i, (a, b) in enumerate(pairs) if a.output != b.output][:5],
        "score_off": max((abs((a.score or 0) - (b.score or 0)) for a, b in same), default=0.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--models", nargs="*", default=list(SOURCES), choices=list(SOURCES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = Path(os.environ.get("REGARD_DATA", "."))
    row(**machine())
    for name in options.models:
        with tempfile.TemporaryDirectory() as place:
            try:
                inputs = SOURCES[name](data, Path(place))[: options.limit]
            except OSError as error:
                row(model=name, skipped=f"{error}: set REGARD_DATA to the folder that has it")
                continue
            row(**compared(name, inputs))


if __name__ == "__main__":
    main()
