"""Captioning: pictures a second, and the memory that more pictures need.

    OMP_NUM_THREADS=1 python benchmarks/captioning.py FOLDER                # a trained captioner
    OMP_NUM_THREADS=1 python benchmarks/captioning.py FOLDER --pictures 100 1000

FOLDER is a model folder of the task `captioning`. The pictures are made once: PNG files of 64 x 64
pixels, each another one. Every number of pictures is captioned by a process of its own, from files,
with the folder's decoder; `resident_MiB` is the largest the process had. The features of all
pictures together would take `features_MiB`, if they were kept.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from paired import machine

import regard
from regard.data.images.images import png


def drawn(folder: Path, count: int) -> list[str]:
    """Colored shapes on white, the same for the same number."""
    paths = []
    for i in range(count):
        random = np.random.default_rng(i)
        picture = np.full((64, 64, 3), 255, np.uint8)
        for _ in range(4):
            (y, x), size = random.integers(0, 48, 2), random.integers(8, 32)
            picture[y : y + size, x : x + size] = random.integers(0, 256, 3)
        path = folder / f"{i}.png"
        path.write_bytes(png(picture))
        paths.append(str(path))
    return paths


def measured(folder: str, paths: list[str]) -> dict[str, float | int]:
    """Caption them all, after one that warms up."""
    loaded = regard.load(folder)
    list(loaded.predict(paths[:1]))
    spent, start = time.process_time(), time.perf_counter()
    captions = list(loaded.predict(paths))
    spent, took = time.process_time() - spent, time.perf_counter() - start
    assert len(captions) == len(paths)
    with torch.no_grad():
        states = loaded.model.encode(torch.zeros(1, 3, 64, 64)).states
    return {
        "pictures": len(paths), "per_second": round(len(paths) / took, 1),
        "per_cpu_second": round(len(paths) / spent, 1),
        "resident_MiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "features_MiB": round(states.numel() * 4 * len(paths) / 2**20, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--pictures", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        torch.set_num_threads(1)
        paths = [str(p) for p in sorted(Path(given.inside).iterdir())]
        print(json.dumps(measured(given.folder, paths[: given.pictures[0]])))
        return
    with tempfile.TemporaryDirectory() as room:
        drawn(Path(room), max(given.pictures))
        for count in given.pictures:
            command = [sys.executable, __file__, given.folder, "--pictures", str(count)]
            done = subprocess.run(
                [*command, "--inside", room], check=True, capture_output=True, text=True
            )
            print(json.dumps({"id": "captioning", **json.loads(done.stdout), **machine()}))


if __name__ == "__main__":
    main()
