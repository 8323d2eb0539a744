"""Graphs: the class of each node, from its own features and what its neighbors have."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batch import chunks
from regard.data.graphs.graph import BETWEEN
from regard.datasets.split_reader import SplitReader
from regard.fields import Field
from regard.fields.graph import GraphData, GraphField, Paths
from regard.metrics import Score, accuracy
from regard.metrics.multilabel import micro_f1
from regard.system.devices import device_of
from regard.tasks.base import Task
from regard.tasks.graphs.node_answers import NodePrediction, looked_at
from regard.tasks.graphs.nodes import NodeDataset
from regard.tasks.graphs.reader import GraphReader
from regard.tasks.graphs.tally import NodeTally
from regard.tasks.inputs import Asked
from regard.tasks.prediction import Prediction

__all__ = ["Graphs"]


class Graphs(Task):
    """Node classification, in one graph that is all seen in training, or in graphs never seen.

    Args:
        graph: the graph's file or folder (`data.graphs.files.read`); several as a list are one
            graph whose parts are not joined; `{train: …, dev: …, test: …}` gives each split graphs
            of its own (inductive), all of whose labelled nodes are asked about. Of several,
            training takes whole ones, as many as `train.batch.tokens` nodes allow. `data.path`
            may say it instead. A trained folder needs it again to predict, for a node is nothing
            without its neighbors; it notes where the graph was, and knows it again.
        normalize: how features are scaled, one of `data.graphs.scaling.KINDS`: `auto` divides rows
            of counts by their sum (`l1`, as the citation graphs' papers do) and leaves other
            features as they are; `standard`; `none`. true is `l1`, false `none`.
        loops: every node looks at itself too.
        undirected: an edge that is listed in one direction counts in both.
        neighbors: at most this many in each layer while training, the last layer first, drawn again
            at each step (Hamilton et al. 2017); all where not given. For large graphs, with
            `train.batch.tokens` nodes a step.
        files: what a trained folder notes of each of the graph's files; see `noted`.
    """

    name: ClassVar[str] = "graphs"
    metric: ClassVar[str] = "accuracy"
    viewed: ClassVar[str] = "graphs.view"
    reader: ClassVar[type[SplitReader[Any, Any]]] = GraphReader

    def __init__(
        self,
        graph: Paths | Mapping[str, Paths],
        normalize: bool | str = "auto",
        loops: bool = True,
        undirected: bool = False,
        neighbors: Sequence[int] | None = None,
        files: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.neighbors = neighbors
        self.graph = GraphField(graph, normalize, loops, undirected, files)

    def fields(self) -> dict[str, Field]:
        """A node, and its class or classes."""
        return {"node": self.graph}

    @property
    def data_types(self) -> Mapping[str, Any]:
        """Of each key of `data:` its type."""
        return {"path": str | list[str] | dict[str, str | list[str]]}

    def model_arguments(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """Features and classes, from the graph."""
        return self.graph.arguments()

    def loss(self, model: nn.Module, batch: Any, step: int | None = None) -> tuple[Tensor, int]:
        """Cross-entropy, summed over the nodes asked about; see `of_logits`."""
        return self.of_logits(batch.logits(model), batch.labels), batch.count

    def of_logits(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy; where nodes have several classes, the mean of each class's own."""
        if labels.dim() == 1:
            return F.cross_entropy(logits.float(), labels, reduction="sum")
        each = F.binary_cross_entropy_with_logits(logits.float(), labels.float(), reduction="sum")
        return each / max(labels.shape[1], 1)

    def tally(self, dev: NodeDataset, sample: NodeDataset) -> NodeTally:
        """Loss and scores come from one pass over dev; scores are of the nodes in `sample`."""
        kept = None if len(sample) == len(dev) else sample.index
        return NodeTally(self.of_logits, kept, several=dev.world.graph.several)

    def asked(self, texts: Sequence[str], fields: Mapping[str, Field]) -> Asked:
        """Nodes by name, as the data has them, else by number.

        Of several graphs `GRAPH:12` is a node of the one that `task.graph` calls so. No text opens
        a file: nodes of another graph are those of a task that is `on` it.
        """
        asked = [self.graph.find(text) for text in texts]
        refused = [
            Prediction(text, "", refused=found if isinstance(found, str) else "")
            for text, found in zip(texts, asked, strict=True)
        ]
        places = [i for i, found in enumerate(asked) if not isinstance(found, str)]
        if not places:
            return Asked(None, places, refused)
        world = self.graph.world(self.graph.other)
        nodes = NodeDataset(
            world, np.array([found[1] for found in asked if not isinstance(found, str)])
        )
        nodes.given = [texts[i] for i in places]
        return Asked(nodes, places, refused)

    def batches(self, dataset: NodeDataset, tokens: int) -> list[list[int]]:
        """So many nodes at once; one by one where it is shown where each looks."""
        size = tokens if dataset.given is None else 1
        return chunks(len(dataset), size)

    def outputs(
        self,
        model: nn.Module,
        dataset: NodeDataset,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        **asked: Any,
    ) -> list[Prediction]:
        """The best class or classes; for single nodes with the others, and where each looked."""
        if dataset.given is not None:
            return [
                self._of_node(model, dataset.given[i], dataset.world, int(dataset.index[i]))
                for i in indices
            ]
        part = dataset.subset(indices)
        graph = dataset.world.graph
        logits = part.collate(range(len(part))).to(device_of(model)).logits(model).cpu()
        return [
            Prediction(text, BETWEEN.join(graph.name(label) for label in ids), score, ids=ids)
            for text, ids, score in zip(part.texts, *_chosen(logits, graph.several), strict=True)
        ]

    def on(self, graph: str) -> "Graphs":
        """This task for the nodes of another graph with such features, or of its own moved."""
        made = copy(self)
        made.graph = self.graph.on(graph)
        return made

    def world(self, graph: Any = None) -> GraphData:
        """The graph, or another one that is scaled as it is."""
        return self.graph.world(graph)

    def find(self, text: str) -> tuple[GraphData, int] | str:
        """The node that a text names, in its graph; or why there is none."""
        return self.graph.find(text)

    def noted(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """The task's section as a model folder keeps it: see `GraphField.noted`."""
        return {**section, **self.graph.noted()}

    @classmethod
    def of_folder(cls, spec: Mapping[str, Any]) -> "Graphs":
        """From the section in a model folder; one without `normalize` divides rows by their sum."""
        return cls(**{"normalize": "l1", **spec})

    def _of_node(self, model: nn.Module, text: str, world: GraphData, node: int) -> Prediction:
        graph = world.graph
        if world.sizes["in_features"] != getattr(model, "in_features", world.sizes["in_features"]):
            return Prediction(
                text,
                "",
                refused=(
                    f"the model reads {getattr(model, 'in_features', 0)} features of a node, "
                    f"this graph has {world.sizes['in_features']}"
                ),
            )
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

    def score(self, predictions: Sequence[Prediction], examples: NodeDataset) -> dict[str, Score]:
        """Accuracy; where nodes have several classes, of all of them at once, and micro-F1."""
        outputs = [prediction.output for prediction in predictions]
        right = [r[0] for r in examples.references]
        scores = {"accuracy": accuracy(outputs, right)}
        if examples.world.graph.several:
            scores["micro_f1"] = micro_f1(
                [_split(output) for output in outputs], [_split(one) for one in right]
            )
        return scores


def _chosen(logits: Tensor, several: bool) -> tuple[list[list[int]], list[float]]:
    """The classes of each node and their log-probability; of several, that of just this set."""
    if several:
        sure = F.logsigmoid(logits.double().abs()).sum(-1)
        return [torch.nonzero(row > 0)[:, 0].tolist() for row in logits], sure.tolist()
    scores = torch.log_softmax(logits.double(), -1)
    best = torch.sort(scores, stable=True, dim=-1, descending=True)
    return best.indices[:, :1].tolist(), best.values[:, 0].tolist()


def _split(text: str) -> set[str]:
    return set(text.split(BETWEEN)) if text else set()
