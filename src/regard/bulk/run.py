"""A whole run: what is there, what is left to do, who does it, and how it ended."""

import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.bulk.finished_files import NOTES, Made, Notes, identity
from regard.bulk.job import BulkJob, Engine
from regard.bulk.order import Order
from regard.bulk.shards import Shard, found
from regard.errors import RegardError, RequestError, nearest
from regard.system.files import said_of
from regard.system.lock import locked

__all__ = ["ENGINES", "BulkSummary", "predict_shards"]

ENGINES = ("local", "ray")
LOCK = ".predicting"
LEFT = re.compile(r"\.(.+)\.\d+")
"""The name of a file that was being written when its process ended."""

log = logging.getLogger(__name__)


@dataclass
class BulkSummary:
    """How a run ended.

    Args:
        made: shards that were made.
        there: shards that had been made before.
        failed: why a shard could not be made, by its name; all others were.
        lines, bad: of those that were made.
    """

    shards: int
    made: int = 0
    there: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    lines: int = 0
    bad: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Lines a second."""
        return self.lines / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "shards": self.shards,
            "made": self.made,
            "there": self.there,
            "failed": self.failed,
            "lines": self.lines,
            "bad": self.bad,
            "seconds": round(self.seconds, 3),
            "lines_per_second": round(self.rate, 1),
        }

    def __str__(self) -> str:
        if self.there == self.shards:
            return f"all {self.shards} shards were made before: nothing to do"
        rate = f"{self.rate:.1f}" if self.rate < 10 else f"{self.rate:,.0f}"
        said = (
            f"{self.made} of {self.shards} shards made: {self.lines:,} lines, {self.bad:,} bad, "
            f"{self.seconds:.1f} s, {rate} lines a second"
        )
        if self.there:
            said += f"; {self.there} were made before"
        return said + (f"; {len(self.failed)} failed" if self.failed else "")


def predict_shards(
    order: Order,
    pattern: str,
    out: str | Path,
    *,
    workers: int = 1,
    engine: str = "local",
    fresh: bool = False,
    told: Callable[[int], None] = lambda lines: None,
) -> BulkSummary:
    """Predict every shard into a file of the same name in another folder.

    Each output is written whole or not at all, with a line for each line of its shard, in order.
    Called again after whatever ended it, it makes what is missing.

    Args:
        order: the model, and what is wanted of it.
        pattern: a folder, a file, or a pattern as `corpus/*.jsonl.gz`.
        out: the folder of outputs.
        workers: processes; 0: none but this one.
        engine: `local` or `ray`.
        fresh: make all shards again, also with other settings or another model.
        told: called with a number of lines when they are done.

    Raises:
        RequestError: there are no such shards, no such model, or the folder has outputs of another
            model or other settings.
        RegardError: the disk is full, or the folder cannot be written for another reason.
    """
    from regard.folder import places

    began = time.monotonic()
    run = _engine(engine, workers)
    out = Path(out).absolute()
    shards = found(pattern, out)
    names = (order.folder, *order.others)
    folders = [places.find(name) for name in names]
    models = [(n, identity(f)) for n, f in zip(names, folders, strict=True)]
    notes = Notes(out, models, order.settings())
    order = _anywhere(order)
    job = BulkJob(order, workers, notes.folder / "weights", " ".join(own for _, own in models))
    summary = BulkSummary(len(shards))
    with _alone(out):
        notes.check(shards, fresh)
        notes.folder.mkdir(exist_ok=True)
        _tidy(out, shards)
        try:
            todo = list(_left(shards, notes, fresh, summary))
            for shard, became in run(job, todo, told) if todo else ():
                if isinstance(became, Made):
                    notes.write(shard, became)
                    summary.made += 1
                    summary.lines += became.lines
                    summary.bad += became.bad
                else:
                    summary.failed[shard.name] = str(became)
                    log.warning("%s: %s", shard.source, became)
        finally:
            _tidy(out, shards)
    summary.seconds = time.monotonic() - began
    return summary


def _anywhere(order: Order) -> Order:
    """The same for a process in another folder."""

    def whole(name: str | None) -> str | None:
        return name if name is None or not Path(name).exists() else str(Path(name).absolute())

    return replace(
        order,
        folder=str(whole(order.folder)),
        others=tuple(str(whole(one)) for one in order.others),
        graph=whole(order.graph),
        lexicon=whole(order.lexicon),
    )


def _engine(name: str, workers: int) -> Engine:
    if name not in ENGINES:
        raise RequestError(f"--engine {name}: {nearest(name, ENGINES)}")
    if name == "ray":
        from regard.bulk.ray_engine import on_ray

        if not workers:
            raise RequestError("--workers 0: it is for the engine local, ray needs 1 or more")
        return on_ray
    from regard.bulk.local_engine import here, local

    return local if workers else here


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Locks the output folder, and checks that it can be written."""
    try:
        with locked(out, name=LOCK, does="writes"):
            yield
    except OSError as error:
        raise RegardError(
            f"{error.filename or out}: could not be written: {said_of(error)}"
        ) from error


def _left(
    shards: Sequence[Shard], notes: Notes, fresh: bool, summary: BulkSummary
) -> Iterator[Shard]:
    """The shards that are not done; what was noted of them is forgotten."""
    for shard in shards:
        note = notes.read(shard.name)
        if note is not None and not fresh and _done(notes, shard, note):
            summary.there += 1
            continue
        if note is not None and not fresh:
            log.info("%s: its shard or its output has changed: it is made again", shard.out)
        notes.forget(shard)
        yield shard


def _done(notes: Notes, shard: Shard, note: Mapping[str, Any]) -> bool:
    try:
        return notes.is_done(shard, note)
    except RegardError:  # it is gone, and will be told of
        return False


def _tidy(out: Path, shards: Sequence[Shard]) -> None:
    """Take away what a process that was killed left behind."""
    shutil.rmtree(out / NOTES / "weights", ignore_errors=True)
    known = {path.name for one in shards for path in (one.out, one.bad)}
    for path in out.iterdir():
        left = LEFT.fullmatch(path.name)
        if left and left[1] in known:
            path.unlink(missing_ok=True)
    for path in (out / NOTES).glob(".*.json.*"):
        path.unlink(missing_ok=True)
