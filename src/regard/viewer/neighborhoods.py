"""Where a node of a graph looked: a table of its neighbors, circles with edge widths, a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.text import Text

from regard.data.graph import Graph
from regard.errors import RequestError
from regard.store import Loaded
from regard.tasks.nodes import Looked, NodePrediction, looked_at
from regard.viewer._page import style
from regard.viewer._view import Map, Run, View
from regard.viewer.palette import INK, MARK, ink_on, shade, top_of
from regard.viewer.sides import Side
from regard.viewer.terminal import listed, ranked, shading

__all__ = ["NodeLook", "draw", "look", "view"]

MOST = 40
"""Neighbors that a table or a circle has room for."""
PAGE = 300
"""Nodes that a page has room for."""


@dataclass(frozen=True)
class NodeLook:
    """One node, its class, and where it looked in each layer.

    Args:
        node: its number.
        around: of the node and its neighbors, where each looked in each layer.
        graph: which it is of.
    """

    model: str
    node: int
    found: NodePrediction
    around: dict[int, list[Looked]]
    graph: Graph

    def called(self, node: int) -> str:
        """The name of a node."""
        return self.graph.called(node)

    @property
    def layers(self) -> Sequence[Looked]:
        """Where the node looked."""
        return self.found.looked

    @property
    def classes(self) -> list[tuple[str, float]]:
        """The class and the next ones, each with its probability."""
        return [(name or "none", probability) for name, probability in ranked(self.found)]

    def rows(self, layer: Looked) -> list[tuple[int, list[float]]]:
        """Neighbors by falling weight: the mean over heads, then each head."""
        mean = layer.weights.mean(0)
        order = torch.sort(mean, descending=True, stable=True).indices.tolist()
        heads = layer.weights if len(layer.weights) > 1 else layer.weights[:0]
        return [(int(layer.nodes[i]), [float(mean[i]), *heads[:, i].tolist()]) for i in order]

    def text(self, *, colour: bool = True) -> Text:
        """A table for each layer, and the classes, for a terminal."""
        made = Text(f"node {self.called(self.node)} of {self.model}\n")
        for number, layer in enumerate(self.layers, 1):
            rows = self.rows(layer)
            heads = len(layer.weights)
            names = ["mean", *(f"h{h}" for h in range(1, heads + 1))] if heads > 1 else ["weight"]
            made.append(f"\nlayer {number} of {len(self.layers)} ({layer.attention})\n")
            made.append("neighbor".rjust(10) + "".join(name.rjust(7) for name in names) + "\n")
            top = top_of([max(values) for _, values in rows])
            for node, values in rows[:MOST]:
                name = "itself" if node == self.node else self.called(node)
                made.append(name.rjust(10) if len(name) <= 10 else name[:9] + "…")
                for value in values:
                    made.append(" ")
                    made.append(f"{value:6.3f}", shading(value, top) if colour else None)
                made.append("\n")
            if len(rows) > MOST:
                made.append(f"{'…':>10} and {len(rows) - MOST} more\n")
        return made.append("\n" + listed(self.classes))

    def as_json(self) -> dict[str, Any]:
        """Plain values: classes, and of each layer the neighbors with the weight of each head."""
        layers = [
            {
                "attention": layer.attention,
                "neighbors": [
                    {"node": self._plain(node), "weight": round(values[0], 5),
                     "heads": [round(value, 5) for value in values[1:] or values]}
                    for node, values in self.rows(layer)
                ],
            }
            for layer in self.layers
        ]  # fmt: skip
        return {
            "input": self.found.input, "output": self.found.output,
            "node": self._plain(self.node),
            "classes": [{"class": c, "probability": p} for c, p in self.classes],
            "layers": layers,
        }  # fmt: skip

    def _plain(self, node: int) -> int | str:
        """A node as JSON has it: its name, or its number where it has none."""
        return self.graph.nodes[node] if self.graph.nodes else node


def look(loaded: Loaded, text: str) -> NodeLook:
    """Classify one node, watched.

    Raises:
        RequestError: there is no such node, or the model has no attention.
    """
    task: Any = loaded.task
    (found,) = loaded.predict([text])
    name = loaded.config["model"]["name"]
    if not isinstance(found, NodePrediction):
        raise RequestError(found.refused)
    if not found.looked:
        raise RequestError(f"{name} has no attention: what its neighbors weigh is fixed by degrees")
    world, node = task.find(text)
    near = np.unique(np.concatenate([layer.nodes for layer in found.looked]))
    near = np.concatenate([[node], near[near != node]])[:PAGE]
    _, looks = looked_at(loaded.model, world, near)
    return NodeLook(name, node, found, dict(zip(near.tolist(), looks, strict=True)), world.graph)


def view(looks: Sequence[NodeLook], *, folder: str = "") -> View:
    """A page of several nodes, each with its neighbors and theirs as a graph."""
    sides: list[Side] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for one in looks:
        beyond = np.concatenate([layer.nodes for own in one.around.values() for layer in own])
        others = [n for n in np.unique(beyond).tolist() if n not in one.around]
        nodes = [*one.around, *others[: max(PAGE - len(one.around), 0)]]
        place = {node: i for i, node in enumerate(nodes)}
        joined: set[tuple[int, int]] = set()
        kept = []
        for number, layer in enumerate(one.layers):
            weights = np.zeros((len(layer.weights), len(nodes), len(nodes)), np.float32)
            for node, own in one.around.items():
                there = [(i, place[n]) for i, n in enumerate(own[number].nodes.tolist())
                         if n in place]  # fmt: skip
                at, columns = [i for i, _ in there], [c for _, c in there]
                weights[:, place[node], columns] = own[number].weights[:, at].numpy()
                joined |= {(place[node], c) for c in columns if c != place[node]}
            kept.append(len(maps))
            maps.append(Map.of(
                layer.attention, len(sides), len(sides), weights, kind="edges", layer=number + 1
            ))  # fmt: skip
        sides.append(Side([one.called(node) for node in nodes], "nodes", edges=sorted(joined)))
        name, probability = one.classes[0]
        runs.append(Run(
            kept, input=f"node {one.called(one.node)}", output=name, model=one.model, folder=folder,
            score=probability,
        ))  # fmt: skip
    return View(sides, maps, runs, f"{folder or looks[0].model} · {runs[0].input}")


def draw(one: NodeLook, path: str | Path, *, width: float | str | None = None) -> None:
    """A figure: a row for each layer; the mean and each head, lines as wide as their weights."""
    from regard.viewer import figure as figures

    figures.check_format(path)
    matplotlib = figures._matplotlib()
    across = 1 + max(len(layer.weights) if len(layer.weights) > 1 else 0 for layer in one.layers)
    inches = figures._inches(width) or max(3.0, 1.5 * across)
    size = (inches, max(inches / across, 1.5) * len(one.layers) + 0.4)
    with matplotlib.rc_context(style()):
        from matplotlib.figure import Figure

        made = Figure(figsize=size, layout="constrained")
        axes = made.subplots(len(one.layers), across, squeeze=False)
        for number, (layer, row) in enumerate(zip(one.layers, axes, strict=True), 1):
            rows = one.rows(layer)[:MOST]
            for column, axis in enumerate(row):
                axis.set_axis_off()
                if column < len(rows[0][1]):
                    name = f"head {column}" if column else f"layer {number}, mean"
                    _circle(axis, one, [(n, values[column]) for n, values in rows], name)
        name, probability = one.classes[0]
        made.suptitle(f"{one.model} · node {one.called(one.node)} · {name} {probability:.2f}")
        figures._save(made, Path(path))


def _circle(axis: Any, one: NodeLook, rows: Sequence[tuple[int, float]], name: str) -> None:
    """A node in the middle of its neighbors."""
    node = one.node
    top = top_of([weight for _, weight in rows])
    own = dict(rows).get(node, 0.0)
    others = sorted((n, weight) for n, weight in rows if n != node)
    for i, (other, weight) in enumerate(others):
        angle = np.pi / 2 - 2 * np.pi * i / max(len(others), 1)
        x, y = np.cos(angle), np.sin(angle)
        colour = tuple(c / 255 for c in shade(0.25 * top + 0.75 * weight, top))
        axis.plot([0, x], [0, y], color=colour, linewidth=0.4 + 6 * weight / top, zorder=1)
        axis.text(
            1.22 * x,
            1.22 * y,
            one.called(other),
            ha="center",
            va="center",
            color=INK,
            fontsize="x-small",
        )  # fmt: skip
    middle = tuple(c / 255 for c in shade(own, top))
    axis.scatter([0], [0], s=260, color=[middle], edgecolors=MARK, zorder=2)
    axis.text(
        0, 0, one.called(node), ha="center", va="center", color=ink_on(own, top), fontsize="x-small"
    )
    axis.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal", title=name)
