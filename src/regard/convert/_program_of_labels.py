"""What `program.json` says of a model that labels texts."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.convert._document_graph import document_graph
from regard.convert._program_parts import (
    check_agreement,
    check_task,
    tokenizer_file,
    weights_of,
)
from regard.convert.recorded.examples import UNSEEN
from regard.convert.recorded.labels import labels_graph, labels_objective
from regard.convert.recorded.stored import stored_graph
from regard.errors import RequestError
from regard.fields import MarkedTextField
from regard.folder.labels_program import LabelsProgram
from regard.models.bag_of_ngrams import BagOfNgrams
from regard.models.wide_and_deep import WideAndDeep
from regard.protocols import UNK, Inputs
from regard.tasks.labels.base import Labeling

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["labels_program"]

LABELING = ("asked", "batches", "inputs", "outputs", "_logits", "join", "reads_files")
"""What a task that labels may not change: the runtime does as `Labeling` does."""
WORDS = (4, 1, 6, 3)
"""Words of the sentences with which a program is compared with its model."""


class _Deep(nn.Module):
    """The deep part of a model with branches, with the names that its weights have there."""

    def __init__(self, deep: nn.Module) -> None:
        super().__init__()
        self.deep = deep

    def forward(self, *inputs: Inputs) -> Any:
        """What the deep part gives."""
        return self.deep(*inputs)


def labels_program(loaded: "Loaded", weights: Collection[str]) -> dict[str, Any]:
    """The program of a model that gives one label.

    Raises:
        RequestError: it does what a program cannot, with the reason.
    """
    task: Any = loaded.task
    without = ("characters", "features", "window")
    if labels_objective(task, "program", without) != "one":
        raise RequestError("program: models that learn 'several' have no form there yet")
    inputs = list(task.texts)
    check_task(loaded, Labeling, LABELING, inputs, sentences=True)
    deep, bags = _branches(loaded.model)
    end = bool(loaded.fields[inputs[0]].end)  # type: ignore[attr-defined]
    graph: Any = None
    sizes: Mapping[str, tuple[int, int | None]] = dict.fromkeys(inputs, (1, None))
    if deep is not None and task.sentences:
        inner, path = (deep.deep, "deep.") if isinstance(deep, _Deep) else (deep, "")
        graph = document_graph(inner, path)
    elif deep is not None:
        made = labels_graph(loaded, "program", model=deep, fold=False)
        if made.reader.compared:
            raise RequestError("program: the model compares the sizes of its inputs")
        graph, sizes = made.reader.graph, made.reader.sizes
    tokenizer = tokenizer_file(loaded.folder, inputs[0])
    target = f"field.{task.target}.json"
    found = {
        "kind": "labels",
        "belongs": [tokenizer, target],
        "inputs": inputs,
        "tokenizer": tokenizer,
        "end": end,
        "marked": isinstance(loaded.fields[inputs[0]], MarkedTextField),
        "sentences": task.sentences,
        "names": list(loaded.fields[task.target].names),  # type: ignore[attr-defined]
        "temperature": task.temperature,
        "sizes": sizes,
        "graph": None if graph is None else stored_graph(graph, loaded.model, weights),
        "bags": bags,
    }
    _check(loaded.model, found, loaded.folder)
    return found


def _branches(model: nn.Module) -> tuple[nn.Module | None, list[dict[str, Any]]]:
    """The part that becomes a graph, and the bags of n-grams beside it."""
    if type(model) is BagOfNgrams:
        return None, [_bag("", model)]
    if type(model) is not WideAndDeep:
        return model, []
    (_, deep), *beside = model.branches.items()
    bags = []
    for name, branch in beside:
        if type(branch) is not BagOfNgrams:
            raise RequestError(
                f"program: {type(branch).__name__} of model.beside has no form there yet"
            )
        bags.append(_bag(f"{name}.", branch))
    return _Deep(deep).eval(), bags


def _bag(path: str, bag: BagOfNgrams) -> dict[str, Any]:
    own = bag.bags
    weighting = "idf" if own.idf is not None else "none" if own.ratios is None else "nb"
    sizes = {"vocab_size": own.vocab_size, "ngrams": own.ngrams, "buckets": own.buckets}
    return {"path": path, **sizes, "weighting": weighting}


def _check(model: nn.Module, stored: Mapping[str, Any], folder: Path) -> None:
    """Compare the program with the model for one example."""
    program = LabelsProgram(json.loads(json.dumps(stored)), folder, weights_of(model))
    count = len(program.tokenizer)
    if stored["sentences"]:
        rows = [_ids(n, count) for n in WORDS]
        width = max(WORDS)
        padded = torch.tensor([[[*ids, *[0] * (width - len(ids))] for ids in rows]])
        extras = {"words": torch.tensor([WORDS])}
        texts = [Inputs(padded, torch.tensor([len(rows)]), extras)]
        given = [rows]
    else:
        given = [[_ids(UNSEEN + 3 * place, count)] for place, _ in enumerate(stored["inputs"])]
        end = program.end
        texts = [
            Inputs(torch.tensor([[*ids, *end]]), torch.tensor([len(ids) + len(end)]))
            for (ids,) in given
        ]
    with torch.inference_mode():
        expected = model(*texts).logits[0].numpy()
    check_agreement(program.logits(given), expected)


def _ids(size: int, count: int) -> Sequence[int]:
    found: list[int] = (UNK + 1 + np.arange(size) * 7 % max(1, count - UNK - 1)).tolist()
    return found
