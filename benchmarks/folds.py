"""Cross-validation: forms of a recipe, trained on each fold of a small set and compared by pairs.

    REGARD_DATA=… python benchmarks/folds.py classification/han-movie-reviews \\
        --form "" --form model.read=mean --form task.sentences= -o runs/folds

The set's train, dev and test rows are put together, sorted by `id`, and cut into parts of following
rows (film reviews: the folds of Pang and Lee, by file number). Fold k tests on part k, takes part
k + 1 for dev and trains on the rest, so that every row is a test row once. A form is changes of the
recipe (KEY=VALUE, with spaces between). `regard train` trains it; the same command continues.

Printed: the mean over folds with its standard deviation, and over all rows the differences to the
first form, with a 95 % bootstrap interval and p by approximate randomization.
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
from regard.compare import scored
from regard.data.sources import find
from regard.metrics import Sums, bootstrap, paired


def parts_of(number: int, folds: int) -> list[range]:
    """Consecutive rows, cut into parts whose sizes differ by at most one.

    Example:
        >>> parts_of(7, 3)
        [range(0, 2), range(2, 4), range(4, 7)]
    """
    edges = [number * k // folds for k in range(folds + 1)]
    return [range(low, high) for low, high in itertools.pairwise(edges)]


def write_folds(rows: Sequence[Mapping[str, Any]], folds: int, folder: Path) -> None:
    """A folder for each fold, with its train, dev and test rows; one that is there stays."""
    parts = parts_of(len(rows), folds)
    for k in range(folds):
        own = {"test": parts[k], "dev": parts[(k + 1) % folds]}
        held = {i for part in own.values() for i in part}
        chosen = {**own, "train": [i for i in range(len(rows)) if i not in held]}
        (folder / str(k)).mkdir(parents=True, exist_ok=True)
        for name, places in chosen.items():
            text = "".join(json.dumps(rows[i], ensure_ascii=False) + "\n" for i in places)
            packed = gzip.compress(text.encode(), mtime=0)
            target = folder / str(k) / f"{name}.jsonl.gz"
            if not target.is_file() or target.read_bytes() != packed:
                target.write_bytes(packed)


def train(name: str, changes: Sequence[str], data: Path, output: Path) -> None:
    """`regard train`, which continues or finds nothing left to do."""
    command = [sys.executable, "-m", "regard", "train", name, *changes, f"data.path={data}"]
    done = subprocess.run([*command, "-o", str(output), "--quiet"], check=False)
    if done.returncode:
        sys.exit(f"training stopped with status {done.returncode}: {' '.join(command)}")


def right(folder: Path) -> Sums:
    """The first score of a trained fold, row by row."""
    loaded = regard.load(str(folder))
    found = scored(loaded).scores
    score = next(iter(found.values()))
    if score.sums is None:
        sys.exit(
            f"{score.name} is not a function of sums over rows: it cannot be pooled over folds"
        )
    return score.sums


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
    source = Path(find(str(recipe.load(options.recipe).data["path"])))
    rows: list[dict[str, Any]] = []
    for split in ("train", "dev", "test"):
        with gzip.open(source / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows += map(json.loads, lines)
    rows.sort(key=lambda row: str(row["id"]))
    output = options.output.absolute()
    write_folds(rows, options.folds, output / "data")
    sums: dict[str, list[Sums]] = {form: [] for form in forms}
    for k in range(options.first or options.folds):
        for form in forms:
            folder = output / (form.replace(" ", ",") or "as-it-is") / str(k)
            train(options.recipe, form.split(), output / "data" / str(k), folder)
            sums[form].append(right(folder))
            one = value(sums[form][-1])
            print(f"fold {k}  {form or 'as it is'}  {one:.2f}", flush=True)
    report(sums)


def report(sums: Mapping[str, Sequence[Sums]]) -> None:
    """The table in Markdown."""
    number = len(next(iter(sums.values())))
    print(f"\n| form | mean over {number} folds | all rows | to the first |\n|---|---|---|---|")
    first: Sums | None = None
    for form, folds in sums.items():
        every = Sums(np.concatenate([fold.counts for fold in folds]), folds[0].of)
        each = [value(fold) for fold in folds]
        mean = f"{statistics.fmean(each):.2f}"
        mean += f" ± {statistics.stdev(each):.2f}" if number > 1 else ""
        low, high, *_ = bootstrap(every)
        row = [form or "as it is", mean, f"{value(every):.2f} [{low:.2f}, {high:.2f}]"]
        if first is None:
            first = every
            row.append("")
        else:
            found = paired(first, every)
            between = f"[{found.interval.low:+.2f}, {found.interval.high:+.2f}]"
            row.append(f"{found.value:+.2f} {between}, p {found.p:.3f}")
        print(f"| {' | '.join(row)} |")
    assert first is not None
    print(f"\n{len(first.counts):,} rows")


def value(sums: Sums) -> float:
    """The score of all rows."""
    return float(sums.of(sums.counts.sum(0)))


if __name__ == "__main__":
    main()
