"""Graphs: the class of each node, from its own features and what its neighbors have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Edges
from regard.data import graph as graphs
from regard.data import sources
from regard.data.problems import Problems
from regard.data.tokenize import Tokenizer
from regard.errors import RequestError, nearest
from regard.layers.sparse import Rows
from regard.metrics import Score, accuracy
from regard.tasks.base import Data, Examples, Prediction, Task

__all__ = ["Graphs", "NodeBatch", "Nodes"]

_NO_TRAIL = torch.zeros(0, 2, dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class _Ready:
    """A graph as a model reads it."""

    graph: graphs.Graph
    features: Rows
    edges: Edges
    labels: Tensor

    @property
    def sizes(self) -> dict[str, int]:
        """What a model must know: features of a node, and classes."""
        return {"source": self.graph.features.shape[1], "target": self.graph.classes}

    def to(self, device: torch.device | str) -> "_Ready":
        """The graph on a device; moved once, and kept there with what is made of its edges."""
        device = torch.device(device)
        return self if device == self.labels.device else _moved(self, device)


@lru_cache(maxsize=4)
def _moved(ready: _Ready, device: torch.device) -> _Ready:
    return replace(
        ready, features=ready.features.to(device), edges=ready.edges.to(device),
        labels=ready.labels.to(device),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class NodeBatch:
    """A whole graph, and the nodes that are asked about.

    Shapes:
        nodes (n,), labels (n,) int64
    """

    ready: _Ready
    nodes: Tensor

    @property
    def features(self) -> Rows:
        """Of all nodes."""
        return self.ready.features

    @property
    def edges(self) -> Edges:
        """Of the whole graph."""
        return self.ready.edges

    @property
    def labels(self) -> Tensor:
        """Of the nodes that are asked about."""
        return self.ready.labels[self.nodes]

    @property
    def count(self) -> int:
        """How many nodes are asked about."""
        return len(self.nodes)

    def to(self, device: torch.device | str) -> "NodeBatch":
        """Move all of it; the graph is moved once."""
        return NodeBatch(self.ready.to(device), self.nodes.to(device))


class Nodes(Examples):
    """Some nodes of a graph, as a trainer sees examples."""

    def __init__(self, ready: _Ready, index: NDArray[np.int64]) -> None:
        self.ready, self.index = ready, index
        self.sizes = np.ones((len(index), 2), np.int64)
        self.texts = [str(node) for node in index]
        labels = ready.graph.labels[index]
        self.references = [[ready.graph.name(label)] for label in labels.tolist()]
        self._batches: dict[tuple[int, ...], NodeBatch] = {}

    def count(self, indices: Sequence[int]) -> int:
        """Each node counts once."""
        return len(indices)

    def collate(self, indices: Sequence[int]) -> Any:
        """The graph with these nodes asked about, in the graph's order."""
        key = tuple(sorted(indices))
        if key not in self._batches:
            nodes = torch.from_numpy(self.index[list(key)])
            self._batches = {key: NodeBatch(self.ready, nodes)}
        return self._batches[key]

    def subset(self, indices: Sequence[int]) -> "Nodes":
        """Some of the nodes."""
        return Nodes(self.ready, self.index[np.asarray(indices, np.int64)])


class Graphs(Task):
    """Node classification in one graph, all of whose nodes are seen in training (transductive).

    Args:
        graph: the `.npz` file; `data.path` may say it instead. A trained folder needs it again to
            predict, for a node is nothing without its neighbors.
        normalize: feature rows are scaled to add up to 1 (as the citation graphs' papers do).
        loops: every node looks at itself too.
    """

    name: ClassVar[str] = "graphs"
    metric: ClassVar[str] = "accuracy"
    tokenized: ClassVar[bool] = False

    def __init__(self, graph: str, normalize: bool = True, loops: bool = True) -> None:
        self.graph, self.normalize, self.loops = graph, normalize, loops

    def data(
        self,
        config: Mapping[str, Any],
        tokenizers: dict[str, Tokenizer] | None = None,
        splits: Sequence[str] = ("train", "dev", "test"),
    ) -> Data:
        """Read the graph and its splits.

        Raises:
            RequestError: an unknown key, no such file, or a file that is no graph.
        """
        for key in config:
            if key not in ("path",):
                raise RequestError(f"data: graphs have no {key!r}: {nearest(key, ('path',))}")
        ready = self._ready(str(config.get("path") or self.graph))
        found = {
            split: Nodes(ready, ready.graph.splits[split]) if split in ready.graph.splits else None
            for split in ("train", "dev", "test")
        }
        return Data(**found, tokenizers={}, problems=Problems(), sizes=ready.sizes)

    def model_arguments(self, tokenizers: Mapping[str, Tokenizer]) -> dict[str, int]:
        """Features and classes, from the graph."""
        return self._ready(self.graph).sizes

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        """Cross-entropy, summed over the nodes asked about."""
        logits = model(batch.features, batch.edges).logits[batch.nodes]
        return F.cross_entropy(logits.float(), batch.labels, reduction="sum"), batch.count

    @torch.no_grad()
    def predict(
        self,
        model: nn.Module,
        texts: Sequence[str] | Examples,
        decoder: Any,
        tokenizers: Mapping[str, Tokenizer],
        *,
        tokens: int = 4096,
        prefix: Sequence[str | None] | None = None,
    ) -> list[Prediction]:
        """The class of each node; texts are node numbers. Other classes are the alternatives."""
        if isinstance(texts, Nodes):
            ready, named, nodes = texts.ready, texts.texts, list(texts.index.tolist())
            return self._ranked(model, ready, named, nodes, alternatives=False)
        ready = self._ready(self.graph)
        named = list(texts.texts if isinstance(texts, Examples) else texts)
        asked = [_node(text, len(ready.graph)) for text in named]
        nodes = [node for node in asked if isinstance(node, int)]
        known = [text for text, node in zip(named, asked, strict=True) if isinstance(node, int)]
        answers = iter(self._ranked(model, ready, known, nodes) if nodes else [])
        return [
            next(answers) if isinstance(node, int) else Prediction(text, "", refused=node)
            for text, node in zip(named, asked, strict=True)
        ]

    def _ranked(
        self,
        model: nn.Module,
        ready: _Ready,
        texts: Sequence[str],
        nodes: list[int],
        alternatives: bool = True,
    ) -> list[Prediction]:
        device = next(model.parameters()).device
        here = ready.to(device)
        logits = model(here.features, here.edges).logits[torch.tensor(nodes, device=device)]
        scores = torch.log_softmax(logits.double(), -1).cpu()
        ranked = torch.sort(scores, stable=True, dim=-1, descending=True)
        shown = zip(texts, ranked.values.tolist(), ranked.indices.tolist(), strict=True)
        found = []
        for text, values, labels in shown:
            count = len(labels) if alternatives else 1
            best, *others = (
                Prediction(text, ready.graph.name(label), value, trail=_NO_TRAIL, ids=[label])
                for value, label in zip(values[:count], labels[:count], strict=True)
            )
            found.append(replace(best, alternatives=others) if others else best)
        return found

    def score(self, predictions: Sequence[Prediction], examples: Examples) -> dict[str, Score]:
        """Accuracy."""
        outputs = [prediction.output for prediction in predictions]
        return {"accuracy": accuracy(outputs, [r[0] for r in examples.references])}

    def _ready(self, path: str) -> _Ready:
        file = sources.find(path)
        return _read(str(file), file.stat().st_mtime_ns, self.normalize, self.loops)


@lru_cache(maxsize=4)
def _read(file: str, changed: int, normalize: bool, loops: bool) -> _Ready:
    from pathlib import Path

    graph = graphs.read(Path(file))
    rows = graph.features.normalized() if normalize else graph.features
    row, column, value = (torch.from_numpy(x) for x in (rows.row, rows.column, rows.value))
    features = Rows(row, column, value, rows.shape)
    edges = Edges.of(torch.from_numpy(graph.edges), len(graph), loops=loops)
    return _Ready(graph, features, edges, torch.from_numpy(graph.labels))


def _node(text: str, nodes: int) -> int | str:
    """The number of a node, or why it is none."""
    try:
        node = int(text)
    except ValueError:
        return f"expected the number of a node, came {text!r}"
    if not 0 <= node < nodes:
        return f"the graph has the nodes 0 to {nodes - 1}, not {node}"
    return node
