"""What some tasks can do and others cannot: a protocol for each, and who lacks it is refused."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import nn

from regard.errors import RequestError
from regard.tasks.base import Task
from regard.tasks.prediction import Prediction

__all__ = [
    "Combines",
    "ReadsGraphs",
    "ReadsOtherFields",
    "StreamsText",
    "WritesBack",
    "combining",
    "reading_graphs",
    "streaming",
    "writing_back",
]


@runtime_checkable
class StreamsText(Protocol):
    """A task that writes text step by step."""

    def stream(
        self,
        model: nn.Module,
        text: str,
        decoder: Any,
        fields: Mapping[str, Any],
        *,
        deadline: float | None = None,
        **asked: Any,
    ) -> Iterator[Prediction]:
        """The best prediction so far after each step, at last as `predict` gives it."""
        ...


@runtime_checkable
class Combines(Protocol):
    """A task whose models can be one that gives the mean of their probabilities."""

    def together(self, models: Sequence[nn.Module], tasks: Sequence[Task]) -> nn.Module:
        """One model of several.

        Args:
            tasks: of each model, this one first.
        """
        ...


@runtime_checkable
class ReadsOtherFields(Protocol):
    """A task whose combined models may read texts by fields of their own."""

    def of_texts(self, model: nn.Module, fields: Mapping[str, Any]) -> nn.Module | None:
        """A model for `together` that reads texts by these fields; None: there is none."""
        ...


@runtime_checkable
class WritesBack(Protocol):
    """A task whose outputs can be written into a data file in place of its own."""

    def put_back(
        self,
        source: str,
        target: str,
        predictions: Sequence[Prediction],
        examples: Any,
        config: Mapping[str, Any],
    ) -> tuple[int, int]:
        """Write a data file again with predictions in place of its own outputs.

        Args:
            examples: what was read of the source by `config`, its `data:` section.

        Returns:
            How many rows have a prediction, and how many keep what they had.

        Raises:
            RequestError: the file's format has no writer.
        """
        ...


@runtime_checkable
class ReadsGraphs(Protocol):
    """A task whose inputs are nodes of a graph."""

    def on(self, graph: str) -> Task:
        """This task for the nodes of another graph."""
        ...


def streaming(task: Task) -> StreamsText:
    """The task, which writes text.

    Raises:
        RequestError: it writes none.
    """
    if isinstance(task, StreamsText):
        return task
    raise RequestError(f"stream: the task {task.name} cannot use it: it writes no text")


def combining(task: Task) -> Combines:
    """The task, whose models go together.

    Raises:
        RequestError: they do not.
    """
    if isinstance(task, Combines):
        return task
    raise RequestError(f"models of the task {task.name} do not go together")


def writing_back(task: Task) -> WritesBack:
    """The task, whose outputs go back into files.

    Raises:
        RequestError: they do not.
    """
    if isinstance(task, WritesBack):
        return task
    raise RequestError(f"--into: the task {task.name} puts no outputs back into files")


def reading_graphs(task: Task) -> ReadsGraphs:
    """The task, which has a graph.

    Raises:
        RequestError: it has none.
    """
    if isinstance(task, ReadsGraphs):
        return task
    raise RequestError(f"--graph: the task {task.name} has no graph")
