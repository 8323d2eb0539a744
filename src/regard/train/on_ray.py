"""Trainings beside each other on a Ray cluster, each into a folder of its own."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import RegardError
from regard.system.processes import cluster, environment, failure, raise_said

__all__ = ["Cell", "fit_cells"]

_talk = logging.getLogger("regard.train")


class Cell(NamedTuple):
    """One training: a recipe with changes, its folder, and the CPU threads that it takes."""

    recipe: str
    changes: tuple[str, ...]
    folder: Path
    tiny: bool
    threads: int


def fit_cells(cells: Sequence[Cell]) -> None:
    """Train each into its folder; those that are finished stay as they are.

    A training whose process or machine dies is begun again once, from its last checkpoint. All
    machines must find recipes, data, folders and this one under the same paths.

    Raises:
        RequestError: ray is not installed, or a recipe is wrong.
        RegardError: a training failed; the others that had begun are stopped.
    """
    with cluster() as ray:
        cores = int(ray.cluster_resources().get("CPU", 0))
        if (most := max(cell.threads for cell in cells)) > cores:
            raise RegardError(f"the Ray cluster has {cores} CPUs; a training takes {most}")
        running = {}
        for cell in cells:
            task = ray.remote(
                num_cpus=cell.threads,
                max_retries=1,
                scheduling_strategy="SPREAD",
                runtime_env={"env_vars": environment(cell.threads)},
            )(_fit)
            running[task.remote(cell, os.getcwd())] = cell
        left = list(running)
        while left:
            ready, left = ray.wait(left, num_returns=1)
            try:
                raise_said(ray.get(ready[0]))
            except BaseException as error:
                for other in left:
                    ray.cancel(other, force=True)
                if isinstance(error, ray.exceptions.RayError):
                    said = str(error).strip().splitlines()[0]
                    raise RegardError(f"{running[ready[0]].folder}: {said}") from error
                raise
            done = len(cells) - len(left)
            _talk.info("%s: trained, %d of %d", running[ready[0]].folder, done, len(cells))


def _fit(cell: Cell, here: str) -> dict[str, Any]:
    from regard import recipe
    from regard.train import fit

    try:
        os.chdir(here)  # what paths are relative to
        found = recipe.load(cell.recipe, cell.changes, tiny=cell.tiny)
        fit(found, cell.folder, progress=False)
    except Exception as error:
        return failure(error)
    return {}
