"""Cross-validation: forms of a recipe, trained on each fold of a small set and compared by pairs.

    REGARD_DATA=… python benchmarks/folds.py classification/han-movie-reviews \\
        --form "" --form model.read=mean --form 'task.sentences=""' -o runs/folds

The set's train, dev and test rows are put together, sorted by `id`, and cut into parts of following
rows (film reviews: the folds of Pang and Lee, by file number). Fold k tests on part k, takes part
k + 1 for dev and trains on the rest, so that every row is a test row once. A form is changes of the
recipe (KEY=VALUE, with spaces between). `regard train` trains it; the same command continues.

Printed, as by `regard compare`: the mean over folds with its standard deviation, and of all rows
the 95 % bootstrap interval, the difference to the first form and its p.
"""

import argparse
import gzip
import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import regard
from regard import recipe
from regard.data.sources import find, splits
from regard.evaluation.comparing import markdown
from regard.evaluation.scoring import scored
from regard.metrics import Score, Sums, bootstrap, paired
from regard.system.files import replace_files


def parts_of(number: int, folds: int) -> list[range]:
    """Consecutive rows, cut into parts whose sizes differ by at most one.

    Example:
        >>> parts_of(7, 3)
        [range(0, 2), range(2, 4), range(4, 7)]
    """
    edges = [number * k // folds for k in range(folds + 1)]
    return [range(low, high) for low, high in itertools.pairwise(edges)]


def write_folds(rows: Sequence[Mapping[str, Any]], folds: int, folder: Path) -> None:
    """A folder for each fold, with its train, dev and test rows: always the same bytes."""
    parts = parts_of(len(rows), folds)
    for k in range(folds):
        own = {"test": parts[k], "dev": parts[(k + 1) % folds]}
        held = {i for part in own.values() for i in part}
        chosen = {**own, "train": [i for i in range(len(rows)) if i not in held]}
        files = {
            f"{name}.jsonl.gz": gzip.compress(
                "".join(json.dumps(rows[i], ensure_ascii=False) + "\n" for i in places).encode(),
                mtime=0,
            )
            for name, places in chosen.items()
        }
        (folder / str(k)).mkdir(parents=True, exist_ok=True)
        replace_files(folder / str(k), files)


def train(name: str, changes: Sequence[str], data: Path, output: Path) -> None:
    """`regard train`, which continues or finds nothing left to do."""
    command = [sys.executable, "-m", "regard", "train", name, *changes, f"data.path={data}"]
    done = subprocess.run([*command, "-o", str(output), "--quiet"], check=False)
    if done.returncode:
        sys.exit(f"training stopped with status {done.returncode}: {' '.join(command)}")


def first_score(folder: Path) -> tuple[Score, Sums]:
    """The first score of a trained fold, and its sums row by row."""
    score = next(iter(scored(regard.load(str(folder))).scores.values()))
    if score.sums is None:
        sys.exit(
            f"{score.name} is not a function of sums over rows: it cannot be pooled over folds"
        )
    return score, score.sums


def main() -> None:
    """Train what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("--form", action="append", default=[], help="changes; '' for none")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument(
        "--first", type=int, default=0, help="train these first folds alone; 0: all"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/folds"))
    options = parser.parse_args()
    forms: list[str] = options.form or [""]
    rows: list[dict[str, Any]] = []
    for file in splits(find(recipe.load(options.recipe).data["path"])).values():
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            rows += map(json.loads, lines)
    rows.sort(key=lambda row: str(row["id"]))
    output = options.output.absolute()
    write_folds(rows, options.folds, output / "data")
    found: dict[str, list[tuple[Score, Sums]]] = {form or "as it is": [] for form in forms}
    for k in range(options.first or options.folds):
        for form, (name, folds) in zip(forms, found.items(), strict=True):
            folder = output / name.replace(" ", ",") / str(k)
            train(options.recipe, form.split(), output / "data" / str(k), folder)
            folds.append(first_score(folder))
            print(f"fold {k}  {name}  {folds[-1][0].value:.2f}", flush=True)
    print("\n" + report(found))


def report(found: Mapping[str, Sequence[tuple[Score, Sums]]], samples: int = 1000) -> str:
    """The table of `regard compare`."""
    systems: list[dict[str, Any]] = []
    first: Sums | None = None
    for name, folds in found.items():
        each = [score.value for score, _ in folds]
        every = Sums(np.concatenate([sums.counts for _, sums in folds]), folds[0][1].of)
        told: dict[str, Any] = {"value": statistics.fmean(each)}
        if len(each) > 1:
            told["sd"] = statistics.stdev(each)
        told["interval"] = bootstrap(every, samples=samples)[:2]
        if first is None:
            first = every
        else:
            apart = paired(first, every, samples=samples)
            told |= {"difference": apart.value, "p": apart.p}
        systems.append({"system": name, "metrics": {folds[0][0].name: told}})
    assert first is not None
    return markdown({"systems": systems, "samples": samples, "examples": len(first.counts)})


if __name__ == "__main__":
    main()
