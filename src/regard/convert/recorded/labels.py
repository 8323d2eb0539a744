"""The graph of a folder's classifier of texts or of pairs of texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from regard.convert.recorded.examples import SIZES, UNSEEN, text
from regard.convert.recorded.readers import ReaderGraph, reader_graph
from regard.errors import RequestError
from regard.fields import TextField
from regard.protocols import Inputs
from regard.tasks.objectives import OBJECTIVES

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["LabelsGraph", "labels_graph", "labels_objective"]


class LabelsGraph(NamedTuple):
    """The graph, with what is read and learned.

    Args:
        inputs: the names of the texts, which are those of the graph's inputs.
        unseen: texts of sizes that were not recorded.
        objective: a key of `OBJECTIVES`.
        end: whether EOS stands behind each text.
        labels: their names.
    """

    reader: ReaderGraph
    inputs: list[str]
    unseen: list[Inputs]
    objective: str
    end: bool
    labels: list[str]


def labels_objective(task: Any, what: str, without: Sequence[str]) -> str:
    """What a task learns: "one" label or "several".

    Args:
        what: begins each refusal.
        without: settings that it may not have.

    Raises:
        RequestError: it has one, or learns something else.
    """
    for name in without:
        if getattr(task, name):
            raise RequestError(f"{what}: models with task.{name} have no form there yet")
    objective = next(k for k, kind in OBJECTIVES.items() if type(task.objective) is kind)
    if objective not in ("one", "several"):
        raise RequestError(f"{what}: models that learn {objective!r} have no form there yet")
    return objective


def labels_graph(
    loaded: "Loaded", what: str, *, model: nn.Module | None = None, fold: bool = True
) -> LabelsGraph:
    """Record a classifier.

    Args:
        what: begins each refusal: "onnx" or "program".
        model: the part of it that is recorded; not given: all of it.
        fold: see `reader_graph`.

    Raises:
        RequestError: it reads more than the words of its texts, or does what a graph cannot say.
    """
    task: Any = loaded.task
    objective = labels_objective(task, what, ("sentences", "characters", "features", "window"))
    names = list(task.texts)
    fields = [loaded.fields[name] for name in names]
    if not all(isinstance(one, TextField) for one in fields):
        raise RequestError(f"{what}: expected a classifier of texts")
    every = [
        [text(field, size + shift * place, end=field.end) for place, field in enumerate(fields)]  # type: ignore[arg-type, attr-defined]
        for size, shift in zip((*SIZES, UNSEEN), (-1, 2, -8, 5), strict=True)
    ]
    *examples, unseen = every
    return LabelsGraph(
        reader_graph(model or loaded.model, examples, names, fold=fold),
        names,
        unseen,
        objective,
        bool(fields[0].end),  # type: ignore[attr-defined]
        list(getattr(loaded.fields[task.target], "names", [])),
    )
