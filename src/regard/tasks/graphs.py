"""Graphs: the class of each node, from its own features and what its neighbors have."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data import graph_files, sources
from regard.data.batch import plan
from regard.data.graph import BETWEEN, Graph, both_ways
from regard.data.graph_files import mark_of
from regard.data.problems import Problems
from regard.data.scaling import KINDS, Scaling
from regard.data.tokenize import Tokenizer
from regard.errors import RequestError, nearest
from regard.metrics import Score, accuracy
from regard.metrics.labels import f1_of_counts, micro_f1
from regard.tasks.base import Data, Examples, Prediction, Task
from regard.tasks.nodes import NodePrediction, Nodes, Wholes, World, looked_at

__all__ = ["Graphs"]

SEVERAL = 10_000
"""Names among which the nearest one is looked for."""

Paths = str | Sequence[str]


class Graphs(Task):
    """Node classification, in one graph that is all seen in training, or in graphs never seen.

    Args:
        graph: the graph's file or folder (`data.graph_files.read`); several as a list are one
            graph whose parts are not joined; `{train: …, dev: …, test: …}` gives each split graphs
            of its own (inductive), all of whose labelled nodes are asked about. Of several,
            training takes whole ones, as many as `train.batch.tokens` nodes allow. `data.path`
            may say it instead. A trained folder needs it again to predict, for a node is nothing
            without its neighbors; it notes where the graph was, and knows it again.
        normalize: how features are scaled, one of `data.scaling.KINDS`: `auto` divides rows of
            counts by their sum (`l1`, as the citation graphs' papers do) and leaves other features
            as they are; `standard`; `none`. true is `l1`, false `none`.
        loops: every node looks at itself too.
        undirected: an edge that is listed in one direction counts in both.
        neighbors: at most so many in each layer while training, the last layer first, drawn anew
            at each step (Hamilton et al. 2017); all where not given. For large graphs, with
            `train.batch.tokens` nodes a step.
        files: what a trained folder notes of each of the graph's files; see `noted`.
    """

    name: ClassVar[str] = "graphs"
    metric: ClassVar[str] = "accuracy"
    tokenized: ClassVar[bool] = False
    data_types: ClassVar[Mapping[str, Any]] = {"path": str | list[str] | dict[str, str | list[str]]}

    def __init__(
        self,
        graph: Paths | Mapping[str, Paths],
        normalize: bool | str = "auto",
        loops: bool = True,
        undirected: bool = False,
        neighbors: Sequence[int] | None = None,
        files: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        if not isinstance(normalize, bool) and normalize not in KINDS:
            hint = nearest(normalize, KINDS)
            raise RequestError(f"task.normalize: there is no {normalize!r}: {hint}")
        self.graph, self.neighbors = graph, neighbors
        self.normalize, self.loops, self.undirected = normalize, loops, undirected
        self.files = dict(files or {})
        self.asked: str | None = None

    def data(
        self,
        config: Mapping[str, Any],
        tokenizers: dict[str, Tokenizer] | None = None,
        splits: Sequence[str] = ("train", "dev", "test"),
    ) -> Data:
        """Read the graphs and their splits.

        Raises:
            RequestError: an unknown key, no such file, or a file that is no graph.
        """
        self.check_data(config)
        for key in config:
            if key not in ("path",):
                raise RequestError(f"data: graphs have no {key!r}: {nearest(key, ('path',))}")
        world = self.world(config.get("path"))
        known = world.graph.splits
        kinds = {
            "train": Wholes if len(world.graph.starts) > 1 else Nodes,
            "dev": Nodes,
            "test": Nodes,
        }
        found = {
            split: kind(world, known[split], self.neighbors) if split in known else None
            for split, kind in kinds.items()
        }
        return Data(**found, tokenizers={}, problems=Problems(), sizes=world.sizes)

    def model_arguments(self, tokenizers: Mapping[str, Tokenizer]) -> dict[str, int]:
        """Features and classes, from the graph."""
        return self.world().sizes

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        """Cross-entropy, summed over the nodes asked about; see `of_logits`."""
        return self.of_logits(batch.logits(model), batch.labels), batch.count

    def of_logits(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy; where nodes have several classes, the mean of each class's own."""
        if labels.dim() == 1:
            return F.cross_entropy(logits.float(), labels, reduction="sum")
        each = F.binary_cross_entropy_with_logits(logits.float(), labels.float(), reduction="sum")
        return each / max(labels.shape[1], 1)

    @torch.no_grad()
    def judge(
        self, model: nn.Module, dev: Nodes, sample: Nodes | None, *, tokens: int,
        device: torch.device,
    ) -> tuple[float, int, dict[str, float]]:  # fmt: skip
        """Loss, nodes and scores from one pass over dev; scores are of the nodes in `sample`."""
        total, counts = 0.0, np.zeros(5, np.int64)
        scored = None if sample is None or len(sample) == len(dev) else sample.index
        for indices in plan(dev.sizes, tokens=tokens, shuffle=False):
            batch = dev.collate(indices).to(device)
            logits, labels = batch.logits(model), batch.labels
            total += float(self.of_logits(logits, labels))
            if scored is not None:
                kept = torch.from_numpy(np.isin(batch.nodes, scored)).to(device)
                logits, labels = logits[kept], labels[kept]
            counts += _counts(logits, labels)
        right, asked, *sets = counts.tolist()
        if sample is None or not asked:
            return total, len(dev), {}
        scores = {"accuracy": 100 * right / asked}
        if dev.world.graph.several:
            scores["micro_f1"] = f1_of_counts(*sets)
        return total, len(dev), scores

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
        """The classes of each node, other classes as alternatives, and where it looked.

        Texts are names of nodes, as the data has them, else their numbers; of several graphs
        `GRAPH:12` is a node of the one that `task.graph` calls so. No text opens a file: nodes of
        another graph are those of a task that is `on` it.
        """
        if isinstance(texts, Nodes):
            return self._of_nodes(model, texts, tokens)
        named = list(texts.texts if isinstance(texts, Examples) else texts)
        asked = [self.find(text) for text in named]
        return [
            Prediction(text, "", refused=found) if isinstance(found, str)
            else self._of_node(model, text, *found)
            for text, found in zip(named, asked, strict=True)
        ]  # fmt: skip

    def find(self, text: str) -> tuple[World, int] | str:
        """The node that a text names, in its graph; or why there is none."""
        world = self.world(self.asked)
        graph = world.graph
        part, colon, name = text.strip().rpartition(":")
        first, end = 0, len(graph)
        if colon and part in graph.titles:
            at = list(graph.titles).index(part)
            first, end = graph.starts[at], [*graph.starts, end][at + 1]
        else:
            name = text.strip()
        if graph.nodes:
            found = graph.places.get(name, -1)
            if not first <= found < end:
                found = next((i for i in range(first, end) if graph.nodes[i] == name), -1)
            if found < 0:
                some = nearest(name, graph.nodes[first:end]) if end - first <= SEVERAL else ""
                return f"the graph has no node {name!r}; {some}".removesuffix("; ")
            return world, found
        try:
            node = int(name)
        except ValueError:
            return f"expected the number of a node, came {name!r}"
        if not 0 <= node < end - first:
            return f"the graph has the nodes 0 to {end - first - 1}, not {node}"
        return world, first + node

    def on(self, graph: str) -> "Graphs":
        """This task for the nodes of another graph with such features, or of its own moved."""
        made = copy(self)
        made.asked = graph
        return made

    def noted(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """The task's section as a model folder keeps it: how features are scaled, where files are.

        Each file comes with what its contents add up to: it is known again wherever it is.
        """
        found = {path: str(sources.find(path).resolve()) for _, path in _paths(self.graph)}
        files = {path: {"at": at, "mark": mark_of(Path(at))} for path, at in found.items()}
        return {**section, "normalize": self.world().scaling.kind, "files": files}

    @classmethod
    def of_folder(cls, spec: Mapping[str, Any]) -> "Graphs":
        """From the section in a model folder; one without `normalize` divides rows by their sum."""
        return cls(**{"normalize": "l1", **spec})

    def _of_nodes(self, model: nn.Module, nodes: Nodes, tokens: int) -> list[Prediction]:
        """The best class or classes alone, for many nodes."""
        device = next(model.parameters()).device
        found: list[Prediction | None] = [None] * len(nodes.index)
        graph = nodes.world.graph
        for start in range(0, len(nodes.index), tokens):
            part = nodes.subset(range(start, min(start + tokens, len(nodes.index))))
            logits = part.collate(range(len(part))).to(device).logits(model).cpu()
            for i, (text, ids, score) in enumerate(
                zip(part.texts, *_chosen(logits, graph.several), strict=True)
            ):
                said = BETWEEN.join(graph.name(label) for label in ids)
                found[start + i] = Prediction(text, said, score, ids=ids)
        return [one for one in found if one is not None]

    def _of_node(self, model: nn.Module, text: str, world: World, node: int) -> Prediction:
        graph = world.graph
        if world.sizes["in_features"] != getattr(model, "in_features", world.sizes["in_features"]):
            return Prediction(text, "", refused=(
                f"the model reads {getattr(model, 'in_features', 0)} features of a node, "
                f"this graph has {world.sizes['in_features']}"
            ))  # fmt: skip
        logits, looked = looked_at(model, world, np.array([node]))
        logits = logits.double().cpu()
        (chosen,), (score,) = _chosen(logits, graph.several)
        each = F.logsigmoid(logits[0]) if graph.several else logits[0].log_softmax(-1)
        ranked = torch.sort(each, stable=True, descending=True)
        others = [
            Prediction(text, graph.name(label), value, ids=[label])
            for value, label in zip(ranked.values.tolist(), ranked.indices.tolist(), strict=True)
            if label not in chosen
        ]
        said = BETWEEN.join(graph.name(label) for label in chosen)
        best = NodePrediction(text, said, score, ids=chosen, looked=looked[0])
        return replace(best, alternatives=others)

    def score(self, predictions: Sequence[Prediction], examples: Examples) -> dict[str, Score]:
        """Accuracy; where nodes have several classes, of all of them at once, and micro-F1."""
        outputs = [prediction.output for prediction in predictions]
        right = [r[0] for r in examples.references]
        scores = {"accuracy": accuracy(outputs, right)}
        if isinstance(examples, Nodes) and examples.world.graph.several:
            scores["micro_f1"] = micro_f1(
                [_split(output) for output in outputs], [_split(one) for one in right]
            )
        return scores

    def world(self, graph: Paths | Mapping[str, Paths] | None = None) -> World:
        """The graph, or graphs that were joined to one, read once while the files stay the same.

        Args:
            graph: another one than the task's own; features are scaled as in that one.

        Raises:
            RequestError: no such file, or one that is no graph.
        """
        files = []
        for split, path in _paths(self.graph if graph is None else graph):
            file = self._place(path) if graph is None else sources.find(path)
            files.append((split, path, str(file), file.stat().st_mtime_ns))
        made = _read(tuple(files), self.loops, self.undirected, self.normalize)
        if graph is None or made.scaling.kind != "standard" or self._is_own(files):
            return made
        return replace(made, scaling=self.world().scaling)  # the numbers of the training's nodes

    def _place(self, path: str) -> Path:
        """Where a file of the task's own graph is."""
        note = self.files.get(path)
        if note is None:
            return sources.find(path)
        tried, there = [], [Path(note.get("at", path))]
        with suppress(RequestError):
            there.insert(0, sources.find(path))
        for file in there:
            if file.exists():
                if mark_of(file) == note.get("mark"):
                    return file
                tried.append(str(file))
        said = f"{tried[0]} is another now" if tried else f"it was at {note.get('at')}"
        raise RequestError(
            f"the model reads the neighbors of nodes from the graph {path} that it was trained on: "
            f"{said}; --graph FILE says where a graph is"
        )

    def _is_own(self, files: Sequence[tuple[str, str, str, int]]) -> bool:
        """Whether these files are the graph that was trained on, wherever they are."""
        own = sorted(note.get("mark", "") for note in self.files.values())
        return bool(own) and own == sorted(mark_of(Path(file)) for _, _, file, _ in files)


def _paths(graph: Paths | Mapping[str, Paths]) -> list[tuple[str, str]]:
    """Pairs of a split ("" for all) and a path."""
    told = graph.items() if isinstance(graph, Mapping) else [("", graph)]
    found = []
    for split, paths in told:
        if split and split not in sources.SPLITS:
            hint = nearest(split, sources.SPLITS)
            raise RequestError(f"task.graph has no split {split!r}: {hint}")
        found += [(split, path) for path in ([paths] if isinstance(paths, str) else paths)]
    if not found:
        raise RequestError("task.graph names no file")
    return found


@lru_cache(maxsize=4)
def _read(
    files: tuple[tuple[str, str, str, int], ...], loops: bool, undirected: bool,
    normalize: bool | str,
) -> World:  # fmt: skip
    graphs = []
    for split, _, file, _ in files:
        graph = graph_files.read(Path(file))
        if undirected:
            graph = replace(graph, edges=both_ways(graph.rows.pairs()))
        graphs.append(_only(graph, split) if split else graph)
    graph = Graph.join(graphs, [path for _, path, _, _ in files])
    return World(graph, Scaling.of(normalize, graph), loops)


def _only(graph: Graph, split: str) -> Graph:
    """A graph all of whose labelled nodes are of one split."""
    known = graph.labels >= 0 if not graph.several else np.ones(len(graph), bool)
    return replace(graph, splits={split: np.flatnonzero(known)})


def _chosen(logits: Tensor, several: bool) -> tuple[list[list[int]], list[float]]:
    """The classes of each node and their log-probability; of several, that of just this set."""
    if several:
        sure = F.logsigmoid(logits.double().abs()).sum(-1)
        return [torch.nonzero(row > 0)[:, 0].tolist() for row in logits], sure.tolist()
    scores = torch.log_softmax(logits.double(), -1)
    best = torch.sort(scores, stable=True, dim=-1, descending=True)
    return best.indices[:, :1].tolist(), best.values[:, 0].tolist()


def _counts(logits: Tensor, labels: Tensor) -> list[int]:
    """Nodes that are right, nodes; of their classes the right, the false, and the missed."""
    if labels.dim() == 1:
        return [int((logits.argmax(-1) == labels).sum()), len(labels), 0, 0, 0]
    said, true = logits > 0, labels.bool()
    right, both = (said == true).all(-1), said & true
    return [
        int(right.sum()), len(labels), int(both.sum()), int((said & ~true).sum()),
        int((true & ~said).sum()),
    ]  # fmt: skip


def _split(text: str) -> set[str]:
    return set(text.split(BETWEEN)) if text else set()
