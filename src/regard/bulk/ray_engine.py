"""The engine `ray`: actors on the machines of a Ray cluster, which share a file system."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from regard.bulk.finished_files import Made
from regard.bulk.job import BulkJob, answer, loaded, understood
from regard.bulk.shards import Shard
from regard.data.files.packing import Unreadable
from regard.errors import RegardError
from regard.system.processes import cluster, environment, failure

__all__ = ["on_ray"]

TRIES = 2
"""How often a shard is begun whose process or machine dies."""


class _Actor:
    """A model in a process of the cluster."""

    def __init__(self, told: dict[str, Any], here: str) -> None:
        self.model: Any = None
        self.wrong: dict[str, Any] = {}
        try:
            os.chdir(here)  # what paths in lines are relative to
            self.model = loaded(told)
        except Exception as error:
            self.wrong = failure(error)

    def make(self, shard: dict[str, Any]) -> dict[str, Any]:
        """Make a shard; what became of it."""
        return self.wrong or answer(self.model, shard)


def on_ray(
    job: BulkJob, shards: Sequence[Shard], told: Callable[[int], None]
) -> Iterator[tuple[Shard, Made | Unreadable]]:
    """Make shards in actors, each of which takes the next one when it is done with one.

    The cluster is the one of `RAY_ADDRESS`, else the one that runs here, else a new one on this
    machine. All machines must find folder, shards and outputs under the same paths.

    Raises:
        RequestError: ray is not installed.
        RegardError: what ends the whole run, as a disk that is full.
    """
    with cluster() as ray:
        yield from _made(ray, job, shards, told)


def _made(
    ray: Any, job: BulkJob, shards: Sequence[Shard], told: Callable[[int], None]
) -> Iterator[tuple[Shard, Made | Unreadable]]:
    cores = int(ray.cluster_resources().get("CPU", 0)) // job.order.threads
    if not cores:
        raise RegardError(
            f"the Ray cluster has {ray.cluster_resources().get('CPU', 0):g} CPUs; expected at "
            f"least {job.order.threads} for one process"
        )
    kind = ray.remote(
        num_cpus=job.order.threads,
        scheduling_strategy="SPREAD",
        runtime_env={"env_vars": environment(job.order.threads)},
    )(_Actor)
    todo = deque((shard, 1) for shard in shards)
    wanted = (job.plain(), os.getcwd())
    idle = [kind.remote(*wanted) for _ in range(min(job.workers, cores, len(shards)))]
    busy: dict[Any, tuple[Any, Shard, int]] = {}
    while todo or busy:
        while todo and idle:
            actor, (shard, tries) = idle.pop(), todo.popleft()
            busy[actor.make.remote(shard.plain())] = (actor, shard, tries)
        ready, _ = ray.wait([*busy], num_returns=1)
        actor, shard, tries = busy.pop(ready[0])
        try:
            found = understood(ray.get(ready[0]))
        except ray.exceptions.RayError as error:
            idle.append(kind.remote(*wanted))
            if tries < TRIES:
                todo.appendleft((shard, tries + 1))
                continue
            said = str(error).strip().splitlines()[0]
            found = Unreadable(f"the process that made it ended {TRIES} times ({said})")
        else:
            idle.append(actor)
        if isinstance(found, Made):
            told(found.lines)
        yield shard, found
