"""The same recipe under several seeds, in one process: mean, standard deviation and each."""

import json
import logging
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import RequestError
from regard.recipe import load
from regard.train.engine import world
from regard.train.run import default_folder, fit
from regard.train.state import replace_file

__all__ = ["fit_seeds", "seeds_of", "summary"]

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
            raise RequestError(f"--seeds: expected numbers and ranges (1-3,7), came {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        found += range(first, last + 1)
    if not found:
        raise RequestError(f"--seeds: {text!r} is an empty range; write the smaller number first")
    return list(dict.fromkeys(found))


def fit_seeds(
    name: str,
    overrides: Sequence[str],
    seeds: Sequence[int],
    folder: Path | None = None,
    *,
    tiny: bool = False,
    fresh: bool = False,
) -> dict[str, Any]:
    """Train a recipe once for each seed into `folder/seed-N`; write `folder/seeds.json`."""
    if world() > 1:
        raise RequestError("--seeds trains one after the other, in one process: not under torchrun")
    root = folder or default_folder(load(name, overrides, tiny=tiny))
    each: dict[int, Mapping[str, float]] = {}
    for seed in seeds:
        recipe = load(name, [*overrides, f"train.seed={seed}"], tiny=tiny)
        each[seed] = fit(recipe, root / f"seed-{seed}", fresh=fresh)["metrics"]
    result = {"folder": str(root), **summary(each)}
    replace_file(root / "seeds.json", lambda path: path.write_text(json.dumps(result, indent=2)))
    for metric, mean in result["metrics"].items():
        _talk.info(
            "%s: %.2f, sd %.2f over %d seeds", metric, mean, result["sd"][metric], len(seeds)
        )
    return result


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
