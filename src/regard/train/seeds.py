"""The same recipe under several seeds, in one command: mean, standard deviation and each."""

import json
import logging
import multiprocessing
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from regard.errors import RequestError
from regard.recipe import Recipe, load
from regard.system.files import replace_file
from regard.train.engine import world
from regard.train.run import default_folder, fit

__all__ = ["at_once", "fit_seeds", "seeds_of", "summary"]

_talk = logging.getLogger("regard.train")


def seeds_of(text: str) -> list[int]:
    """The seeds that `1-3,7` means.

    Raises:
        RequestError: it is not a list of numbers and ranges.

    Example:
        >>> seeds_of("1-3,7")
        [1, 2, 3, 7]
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not match:
            raise RequestError(f"--seeds: expected numbers and ranges (1-3,7), got {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        found += range(first, last + 1)
    if not found:
        raise RequestError(f"--seeds: {text!r} is an empty range; write the smaller number first")
    return list(dict.fromkeys(found))


def at_once(recipe: Recipe) -> int:
    """How many trainings run in parallel on the cores of this machine.

    One, unless the recipe sets its number of threads; results may depend on that number, so it is
    never reduced.
    """
    threads = recipe.train.get("threads")
    asked = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    cores = len(asked(0)) if asked else os.cpu_count() or 1
    return max(1, cores // threads) if threads else 1


def fit_seeds(
    name: str,
    overrides: Sequence[str],
    seeds: Sequence[int],
    folder: Path | None = None,
    *,
    tiny: bool = False,
    fresh: bool = False,
    force: bool = False,
    jobs: int = 1,
) -> dict[str, Any]:
    """Train a recipe once for each seed into `folder/seed-N`; write `folder/seeds.json`.

    Each equals the training with `train.seed=N`, regardless of how many run in parallel.

    Args:
        jobs: the number of parallel processes; 0: see `at_once`.
    """
    if world() > 1:
        raise RequestError("--seeds trains whole runs beside each other: not under torchrun")
    recipe = load(name, overrides, tiny=tiny)
    root = folder or default_folder(recipe)
    jobs = min(jobs or at_once(recipe), len(seeds))
    work = [
        (name, (*overrides, f"train.seed={seed}"), root / f"seed-{seed}", tiny, fresh, force)
        for seed in seeds
    ]
    each: dict[int, Mapping[str, float]] = {}
    if jobs == 1:
        for seed, one in zip(seeds, work, strict=True):
            each[seed] = _fit(*one)
    else:
        # A fresh interpreter each: a copy of this one would have locks of threads it lacks.
        processes = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=processes) as pool:
            running = {pool.submit(_fit, *one): s for s, one in zip(seeds, work, strict=True)}
            try:
                for done in as_completed(running):
                    seed = running[done]
                    each[seed] = done.result()
                    said = "  ".join(f"{key} {value:.2f}" for key, value in each[seed].items())
                    _talk.info("seed %d (%d of %d): %s", seed, len(each), len(seeds), said)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    result = {"folder": str(root), **summary({seed: each[seed] for seed in seeds})}
    said = json.dumps(result, indent=2)
    replace_file(root / "seeds.json", lambda path: path.write_text(said, encoding="utf-8"))
    for metric, mean in result["metrics"].items():
        _talk.info(
            "%s: %.2f, sd %.2f over %d seeds", metric, mean, result["sd"][metric], len(seeds)
        )
    return result


def _fit(
    name: str, overrides: Sequence[str], folder: Path, tiny: bool, fresh: bool, force: bool
) -> dict[str, float]:
    recipe = load(name, overrides, tiny=tiny)
    found: dict[str, float] = fit(recipe, folder, fresh=fresh, force=force)["metrics"]
    return found


def summary(each: Mapping[int, Mapping[str, float]]) -> dict[str, Any]:
    """Mean and sample standard deviation (0 for a single seed) of every metric."""
    names = list(next(iter(each.values())))
    columns = {name: [float(metrics[name]) for metrics in each.values()] for name in names}
    return {
        "metrics": {name: statistics.fmean(values) for name, values in columns.items()},
        "sd": {
            name: statistics.stdev(values) if len(values) > 1 else 0.0
            for name, values in columns.items()
        },
        "seeds": {str(seed): dict(metrics) for seed, metrics in each.items()},
    }
