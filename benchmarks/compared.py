"""What the runs of `comparison.py` say: means, differences and corrected p-values, as JSON.

    python benchmarks/compared.py RUNS.jsonl docs/comparison.json

For each task and each range of lengths (`trained`, `longer`):

    cells     of each score and selection the share of symbols that are right, in percent, its
              standard deviation over seeds, and the difference to dot with softmax
    scores    each pair of scores over all selections and seeds: difference, 95 % interval, p
    selects   each pair of selections over all scores and seeds

and for each length the share of every score and of every selection. p is two-sided, by approximate
randomization (`regard.metrics.paired`), and corrected by Holm within each list.
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from comparison import SCORES, SEEDS, SELECTS, TASKS, TESTED, TRAINED, kept

from regard.metrics import Sums, holm, paired

RANGES = {"trained": TRAINED, "longer": (TRAINED[1] + 1, TESTED[1])}
BASE = ("dot", "softmax")
SAMPLES = 5000
Runs = Mapping[tuple[str, str, str, int], Mapping[str, Any]]
"""By task, score, selection and seed."""


def counts(run: Mapping[str, Any], lengths: tuple[int, int]) -> np.ndarray:
    """Of each string in a range of lengths: symbols that are right, and symbols."""
    rows = [
        (int(digit, 36), length)
        for length in range(lengths[0], lengths[1] + 1)
        for digit in run["right"][str(length)]
    ]
    return np.array(rows, float)


def percent(run: Mapping[str, Any], lengths: tuple[int, int]) -> float:
    """The share of symbols that are right."""
    right, symbols = counts(run, lengths).sum(0)
    return float(100 * right / symbols)


def by_key(runs: Sequence[Mapping[str, Any]], seeds: Sequence[int] = SEEDS) -> Runs:
    """The runs of these seeds."""
    return {
        (run["task"], run["score"], run["select"], run["seed"]): run
        for run in runs
        if run["seed"] in seeds
    }


def cell(runs: Runs, task: str, names: tuple[str, str], lengths: tuple[int, int]) -> dict[str, Any]:
    """One score with one selection: its mean and deviation over seeds."""
    each = [percent(runs[task, *names, seed], lengths) for seed in seeds_of(runs)]
    return {
        "score": names[0], "select": names[1], "right": statistics.fmean(each),
        "sd": statistics.stdev(each),
    }  # fmt: skip


def seeds_of(runs: Runs) -> list[int]:
    """The seeds that there are."""
    return sorted({key[3] for key in runs})


def cells(runs: Runs, task: str, lengths: tuple[int, int], samples: int) -> list[dict[str, Any]]:
    """All cells, each tested against the base over strings, with seeds pooled."""

    def pooled(names: tuple[str, str]) -> Sums:
        each = [counts(runs[task, *names, seed], lengths) for seed in seeds_of(runs)]
        return Sums.percent(np.mean(each, 0))

    found, base = [], pooled(BASE)
    for names in itertools.product(SCORES, SELECTS):
        told = cell(runs, task, names, lengths)
        if names != BASE:
            difference = paired(base, pooled(names), samples=samples)
            told |= {"difference": difference.value, "p": difference.p}
        found.append(told)
    return corrected(found)


def pairs(
    names: Sequence[str], values: Callable[[str], list[float]], samples: int
) -> list[dict[str, Any]]:
    """Each pair of names over paired runs: second minus first."""
    found = []
    for first, second in itertools.combinations(names, 2):
        both = (mean_of(values(name)) for name in (first, second))
        difference = paired(*both, samples=samples)
        found.append({
            "first": first, "second": second, "difference": difference.value,
            "interval": list(difference.interval[:2]), "p": difference.p,
        })  # fmt: skip
    return corrected(found)


def mean_of(values: Sequence[float]) -> Sums:
    """A mean over runs as a function of their sum."""
    return Sums(np.array(values)[:, None], lambda sums: sums[..., 0] / len(values))


def corrected(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, with Holm's p beside each p."""
    tested = [told for told in found if "p" in told]
    for told, p in zip(tested, holm([told["p"] for told in tested]), strict=True):
        told["p_holm"] = p
    return found


def of_range(runs: Runs, task: str, lengths: tuple[int, int], samples: int) -> dict[str, Any]:
    """All that is said of one task and one range of lengths."""
    share = {key: percent(run, lengths) for key, run in runs.items() if key[0] == task}
    seeds = seeds_of(runs)

    def of_score(name: str) -> list[float]:
        return [share[task, name, select, seed] for select in SELECTS for seed in seeds]

    def of_select(name: str) -> list[float]:
        return [share[task, score, name, seed] for score in SCORES for seed in seeds]

    return {
        "cells": cells(runs, task, lengths, samples),
        "scores": pairs(list(SCORES), of_score, samples),
        "selects": pairs(list(SELECTS), of_select, samples),
        "mean": {name: statistics.fmean(of_score(name)) for name in SCORES}
        | {name: statistics.fmean(of_select(name)) for name in SELECTS},
    }


def by_length(runs: Runs, task: str) -> dict[str, list[float]]:
    """Of each score and selection its share at each length that is tested."""
    found = {}
    for place, names in ((1, SCORES), (2, SELECTS)):
        for name in names:
            own = [run for key, run in runs.items() if key[0] == task and key[place] == name]
            found[name] = [
                statistics.fmean(percent(run, (length, length)) for run in own)
                for length in range(TESTED[0], TESTED[1] + 1)
            ]
    return found


def beside(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The runs that are not among the 42: their means over seeds."""
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for run in runs:
        if run["score"] not in SCORES or run["select"] not in SELECTS:
            found.setdefault((run["task"], run["score"], run["select"]), []).append(run)
    return [
        {"task": task, "score": score, "select": select, "seeds": len(own)}
        | {name: statistics.fmean(percent(run, r) for run in own) for name, r in RANGES.items()}
        for (task, score, select), own in found.items()
    ]


def names_of(run: Mapping[str, Any]) -> tuple[str, str]:
    """Its score and its selection."""
    return run["score"], run["select"]


def summary(runs: Sequence[Mapping[str, Any]], samples: int = SAMPLES) -> dict[str, Any]:
    """All of it, with numbers of five digits."""
    own = [run for run in runs if run["score"] in SCORES and run["select"] in SELECTS]
    keyed = by_key(own)
    expected = len(TASKS) * len(SCORES) * len(SELECTS) * len(seeds_of(keyed))
    if len(keyed) != expected:
        raise SystemExit(f"{len(keyed)} runs, expected {expected}: run comparison.py again")
    found = {
        "seeds": seeds_of(keyed), "runs": len(keyed), "updates": own[0]["updates"],
        "cpu": sum(run["cpu"] for run in runs), "samples": samples,
        "median_cpu": {
            name: statistics.median(run["cpu"] for run in own if name in names_of(run))
            for name in (*SCORES, *SELECTS)
        },
        "tasks": {
            task: {name: of_range(keyed, task, r, samples) for name, r in RANGES.items()}
            | {"by_length": by_length(keyed, task)}
            for task in TASKS
        },
        "beside": beside(runs),
    }  # fmt: skip
    return rounded(found)


def rounded(value: Any) -> Any:
    """Floats to five significant digits."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    text = json.dumps(summary(kept(given.runs)), indent=1, ensure_ascii=False) + "\n"
    given.output.write_text(text, encoding="utf-8")
