"""`regard predict` from the command to its answer: by the program of the folder, and by PyTorch.

    python benchmarks/first_answer.py [--model de-en-small] [--text "…"] [--runs 5] [--cold]

Each run is a process of its own; the two roads run in turns. One row a road: wall-clock and CPU
seconds (user and system), and the largest resident memory, the medians and extremes of all runs.
`--cold` drops the files of Python, of the packages and of regard from the page cache before each
first run. `--avx2` keeps NumPy's products and functions at that level.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import regard  # which imports no PyTorch: a child's memory is counted from its parent's on

AVX2 = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX",
    "ATEN_CPU_CAPABILITY": "avx2",
    "REGARD_LEVEL": "AVX2",
}
ROADS = ("program", "pytorch")
"""Lines of a file are read by PyTorch."""


def row(**fields: object) -> None:
    """Print one JSON line."""
    print(json.dumps(fields), flush=True)


def dropped() -> int:
    """Take the files that a start reads out of the page cache; give how many."""
    places = {Path(sys.prefix), Path(sys.base_prefix) / "lib", Path(regard.__file__).parent}
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    return len(files)


def measured(command: list[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Wall-clock seconds, CPU seconds and megabytes of one process."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} gave {process.returncode}")
    spent = used.ru_utime + used.ru_stime
    return time.monotonic() - began, spent, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="de-en-small")
    parser.add_argument("--text", default="Das Fenster wird geschlossen.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--avx2", action="store_true")
    options = parser.parse_args()
    row(
        python=platform.python_version(),
        date=time.strftime("%Y-%m-%d"),
        level="avx2" if options.avx2 else "all",
        cold=options.cold,
    )
    environment = {**os.environ, **(AVX2 if options.avx2 else {})}
    front = [sys.executable, "-m", "regard", "predict", options.model]
    with tempfile.TemporaryDirectory() as place:
        lines = Path(place) / "lines.txt"
        lines.write_text(options.text + "\n", "utf-8")
        given = {"program": [options.text], "pytorch": ["-i", str(lines)]}
        told(options, given, front, environment)


def told(
    options: argparse.Namespace,
    given: dict[str, list[str]],
    front: list[str],
    environment: dict[str, str],
) -> None:
    """Run both roads in turns, and print a row for each."""
    found: dict[str, list[tuple[float, float, float]]] = {road: [] for road in ROADS}
    for number in range(options.runs):
        for road, words in given.items():
            if options.cold and number == 0:
                dropped()
            found[road].append(measured([*front, *words], environment))
    for road, runs in found.items():
        each = dict(zip(("wall", "cpu", "megabytes"), zip(*runs, strict=True), strict=True))
        row(
            road=road,
            model=options.model,
            first_wall=round(runs[0][0], 2),
            **{
                name: [round(f(values), 2) for f in (min, statistics.median, max)]
                for name, values in each.items()
            },
        )


if __name__ == "__main__":
    main()
