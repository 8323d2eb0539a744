"""What processes that answer are told, and what they say: plain values, on any engine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.bulk.finished_files import Made
from regard.bulk.order import Order
from regard.bulk.shards import Shard
from regard.data.files.packing import Unreadable
from regard.system.processes import failure, raise_said

if TYPE_CHECKING:
    from regard.bulk.answering import Answering

__all__ = ["BulkJob", "Engine", "answer", "loaded", "understood"]

Told = Callable[[int], None]
Engine = Callable[["BulkJob", Sequence[Shard], Told], Iterator[tuple[Shard, Made | Unreadable]]]
"""Makes shards, and gives each with what became of it; told of lines as they are done."""


@dataclass(frozen=True)
class BulkJob:
    """An order, and how many processes answer it.

    Args:
        weights: a folder for the file of weights that all processes map.
        digest: of the models.
    """

    order: Order
    workers: int
    weights: Path
    digest: str

    def plain(self) -> dict[str, Any]:
        """What a process is told first."""
        own = {"weights": str(self.weights) if self.workers > 1 else None, "digest": self.digest}
        return {"order": self.order.plain(), **own}


def loaded(told: Mapping[str, Any]) -> "Answering":
    """The model of a job, on the threads that it may have.

    Raises:
        RequestError: no such folder, or settings that it does not have.
    """
    import torch

    from regard.bulk.answering import Answering

    order = Order.of(told["order"])
    torch.set_num_threads(order.threads)
    weights = None if told["weights"] is None else Path(told["weights"])
    return Answering(order, weights, told["digest"])


def answer(
    model: "Answering", plain: dict[str, Any], told: Told = lambda lines: None
) -> dict[str, Any]:
    """Make a shard, and say what became of it; failures are said, not raised."""
    from regard.bulk.shard_writer import make

    try:
        return {"made": asdict(make(Shard.of(plain), model, told))}
    except Unreadable as error:
        return {"unreadable": str(error)}
    except Exception as error:
        return failure(error)


def understood(said: Mapping[str, Any]) -> Made | Unreadable:
    """What became of a shard.

    Raises:
        RegardError: what ends the whole run.
    """
    raise_said(said)
    return Made(**said["made"]) if "made" in said else Unreadable(said["unreadable"])
