"""Where a node of a graph looked: its neighbors by their weights, and theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.data.graphs.graph import Graph
from regard.errors import RequestError
from regard.tasks.answer_panels import bars, ranked
from regard.tasks.graphs.node_answers import NodeAttention, NodePrediction, looked_at
from regard.tasks.loaded_model import LoadedModel, name_of
from regard.views import Axis, Map, MapPanel, Run, View, ViewOptions

__all__ = ["view"]

PAGE = 300
"""Nodes that a page has room for."""


@dataclass(frozen=True)
class _Node:
    """One node, its class, and where it and those around it looked in each layer.

    Args:
        classes: of the nodes around it, as the model predicts them; none of models of many labels.
    """

    node: int
    found: NodePrediction
    around: Mapping[int, Sequence[NodeAttention]]
    graph: Graph
    classes: Mapping[int, str]

    def plain(self, node: int) -> int | str:
        """A node as JSON has it: its name, or its number where it has none."""
        return self.graph.nodes[node] if self.graph.nodes else node


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Several nodes, each with its neighbors and theirs as a graph.

    Raises:
        RequestError: there is no such node, or the model has no attention.
    """
    options.only(task=loaded.task.name)
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    model = name_of(loaded)
    for text in inputs:
        one = _look(loaded, text)
        nodes, weights, joined = _matrices(one)
        kept = list(range(len(maps), len(maps) + len(weights)))
        for number, (layer, own) in enumerate(zip(one.found.looked, weights, strict=True), 1):
            maps.append(
                Map.of(layer.attention, len(axes), len(axes), own, kind="edges", layer=number)
            )
        called = one.graph.called(one.node)
        names = [one.graph.called(n) for n in nodes]
        groups = [one.classes.get(n, "") for n in nodes] if one.classes else []
        axes.append(Axis(names, "nodes", edges=sorted(joined), classes=groups))
        classes = [(name or "none", p) for name, p in ranked(one.found)]
        panels = [
            MapPanel(
                "neighbors",
                f"layer {n} of {len(kept)} ({maps[m].name})",
                map=m,
                row=1,
                note=_beyond(layer, len(nodes)),
            )
            for n, (m, layer) in enumerate(zip(kept, one.found.looked, strict=True), 1)
        ]
        name, probability = classes[0]
        runs.append(
            Run(
                kept,
                input=f"node {called} of {model}",
                output=name,
                model=model,
                folder=options.folder,
                score=probability,
                title=f"{model} · node {called} · {name} {probability:.2f}",
                panels=[*panels, bars(classes, "classes")],
                result=_result(one, classes),
            )
        )
    return View(axes, maps, runs, f"{options.folder or model} · {runs[0].input}")


def _look(loaded: LoadedModel, text: str) -> _Node:
    task: Any = loaded.task
    (found,) = loaded.predict([text])
    if not isinstance(found, NodePrediction):
        raise RequestError(found.refused)
    if not found.looked:
        raise RequestError(
            f"{name_of(loaded)} has no attention: what its neighbors weigh is fixed by degrees"
        )
    world, node = task.find(text)
    weighed: dict[int, float] = {}
    for layer in found.looked:
        for near, weight in zip(layer.nodes.tolist(), layer.weights.mean(0).tolist(), strict=True):
            weighed[near] = max(weight, weighed.get(near, 0.0))
    others = sorted((n for n in weighed if n != node), key=lambda n: (-weighed[n], n))
    around = np.array([node, *others[: PAGE - 1]], np.int64)
    logits, looks = looked_at(loaded.model, world, around)
    graph, classes = world.graph, dict[int, str]()
    if graph.labels.ndim == 1:
        best = logits.argmax(-1).tolist()
        classes = {n: graph.name(k) for n, k in zip(around.tolist(), best, strict=True)}
    return _Node(node, found, dict(zip(around.tolist(), looks, strict=True)), graph, classes)


def _matrices(one: _Node) -> tuple[list[int], list[Any], set[tuple[int, int]]]:
    """The nodes of a page, the weights of each layer (H, n, n), and the pairs that are joined."""
    beyond = np.concatenate([layer.nodes for own in one.around.values() for layer in own])
    others = [n for n in np.unique(beyond).tolist() if n not in one.around]
    nodes = [*one.around, *others[: max(PAGE - len(one.around), 0)]]
    place = {node: i for i, node in enumerate(nodes)}
    joined: set[tuple[int, int]] = set()
    made = []
    for number, layer in enumerate(one.found.looked):
        weights = np.zeros((len(layer.weights), len(nodes), len(nodes)), np.float32)
        for node, own in one.around.items():
            there = [(i, place[n]) for i, n in enumerate(own[number].nodes.tolist()) if n in place]
            at, columns = [i for i, _ in there], [c for _, c in there]
            weights[:, place[node], columns] = own[number].weights[:, at].numpy()
            joined |= {(place[node], c) for c in columns if c != place[node]}
        made.append(weights)
    return nodes, made, joined


def _beyond(layer: NodeAttention, shown: int) -> str:
    more = len(layer.nodes) - shown
    return f"and {more} more neighbors, of smaller weight" if more > 0 else ""


def _result(one: _Node, classes: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Plain values: classes, and of each layer the neighbors with the weight of each head."""
    layers = []
    for layer in one.found.looked:
        mean = layer.weights.mean(0)
        order = torch.sort(mean, descending=True, stable=True).indices.tolist()
        layers.append(
            {
                "attention": layer.attention,
                "neighbors": [
                    {
                        "node": one.plain(int(layer.nodes[i])),
                        "weight": round(float(mean[i]), 5),
                        "heads": [round(float(w), 5) for w in layer.weights[:, i]],
                    }
                    for i in order
                ],
            }
        )
    return {
        "input": one.found.input,
        "output": one.found.output,
        "node": one.plain(one.node),
        "classes": [{"class": c, "probability": p} for c, p in classes],
        "layers": layers,
    }
