"""What the mentions of a pair of concepts looked at, over the text of their document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.annotations.documents import Mention, Relation, RelationDocument
from regard.data.text.tokenizer import Encoding
from regard.errors import RequestError
from regard.fields.annotated import places_of
from regard.tasks.answer_panels import bars
from regard.tasks.loaded_model import LoadedModel, name_of
from regard.views import Axis, Map, MapPanel, Panel, Run, TablePanel, View, ViewOptions, axis_of
from regard.watching.watcher import watch

__all__ = ["RelationLook", "look", "view"]

MOST = 12
"""Pairs that are listed."""


@dataclass(frozen=True)
class RelationLook:
    """One document, read and watched.

    Args:
        document: with its mentions and what was found.
        pairs: every pair with its probability, the likeliest first.
        pair: the one that is looked at; None where there is none.
        maps: by the path of the attention, its weights (heads, pieces, pieces).
    """

    model: str
    input: str
    output: str
    document: RelationDocument
    pieces: Encoding
    pairs: list[Relation]
    pair: Relation | None
    maps: dict[str, NDArray[np.float32]]

    def of_pair(self, name: str) -> NDArray[np.float32]:
        """What head and tail look at, the mean over all pieces of their mentions: (heads, 2, T)."""
        assert self.pair is not None
        rows = []
        for concept in (self.pair.head, self.pair.tail):
            own = self.document.concepts[concept]
            places = sorted({place for m in own for place in places_of(m, self.pieces)})
            rows.append(self.maps[name][:, places].mean(1))
        return np.stack(rows, 1)

    def called(self, concept: str) -> str:
        """The words of a concept's first mention, and its name."""
        words = self.document.concepts[concept][0].of(self.document.text)
        return words if concept.endswith(f":{words.lower()}") else f"{words} ({concept})"

    def result(self) -> dict[str, Any]:
        """Plain values: the pairs with their probabilities, and what the pair looked at."""
        pair = None if self.pair is None else [self.pair.head, self.pair.tail]
        shown = {} if pair is None else {n: self.of_pair(n).mean(0).tolist() for n in self.maps}
        return {
            "input": self.input,
            "output": self.output,
            "pairs": [
                {"head": r.head, "type": r.type, "tail": r.tail, "probability": r.probability}
                for r in self.pairs
            ],
            "pair": pair,
            "pieces": self.pieces.tokens,
            "attentions": shown,
        }


def look(loaded: LoadedModel, text: str, target: str | None = None) -> RelationLook:
    """Read one document, watched.

    Args:
        target: `head tail` of the pair that is looked at; the likeliest where it is not given.

    Raises:
        RequestError: an input that is no document, or a pair that it does not have.
    """
    if not text.strip():
        raise RequestError("the input is empty: there is nothing to look at")
    found: Any = loaded.task.predict(loaded.model, [text], None, loaded.fields)[0]
    if found.refused:
        raise RequestError(found.refused)
    pairs = sorted(found.pairs, key=lambda one: -(one.probability or 0.0))
    pair = pairs[0] if pairs else None
    if target is not None:
        asked = target.split()
        pair = next((one for one in pairs if [one.head, one.tail] == asked), None)
        if pair is None:
            known = ", ".join(f"'{one.head} {one.tail}'" for one in pairs[:3]) or "no pair"
            raise RequestError(f"target: {target!r} is no pair of the document; there is {known}")
    field = loaded.fields["document"]
    inputs = field.encode([found.document], lambda *_: None, loaded.fields).collate(np.arange(1))
    with watch(loaded.model) as seen, torch.inference_mode():
        loaded.model(inputs.to(next(loaded.model.parameters()).device))
    maps = {name: record.of(0).float().cpu().numpy() for name, record in seen.items()}
    pieces = field.cut(found.document.text)
    return RelationLook(
        name_of(loaded), text, found.output, found.document, pieces, pairs, pair, maps
    )


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """The document, shaded by what the mentions of each side of a pair looked at."""
    options.only("target", task=loaded.task.name)
    looks = [look(loaded, text, options.target) for text in inputs]
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    for one in looks:
        document = len(axes)
        axes.append(axis_of(one.pieces.tokens))
        kept: list[int] = []
        panels: list[Panel] = []
        if one.pair is not None:
            sides = [one.called(one.pair.head), one.called(one.pair.tail)]
            axes.append(Axis(sides, groups=[[0], [1]], texts=sides))
            for layer, name in enumerate(one.maps, 1):
                kept.append(len(maps))
                maps.append(
                    Map.of(
                        name, document + 1, document, one.of_pair(name), kind="self", layer=layer
                    )
                )
                panels += [
                    MapPanel("text", f"layer {layer}: what {side} looked at", map=kept[-1], row=row)
                    for row, side in enumerate(sides, 1)
                ]
        panels += [
            _mentions(one),
            bars(
                [(f"{r.head} {r.type} {r.tail}", r.probability or 0.0) for r in one.pairs[:MOST]],
                "relations",
            ),
        ]
        runs.append(
            Run(
                kept,
                input=one.document.text,
                output=one.output,
                model=one.model,
                folder=options.folder,
                panels=panels,
                result=one.result(),
                score=None if one.pair is None else one.pair.probability,
                title=f"{one.model} · {one.output or 'no relation'}",
                target=options.target or "",
            )
        )
    return View(axes, maps, runs, f"{options.folder or looks[0].model} · {looks[0].output}")


def _mentions(one: RelationLook) -> TablePanel:
    """A row for each concept: its type and how often and how it is mentioned."""

    def row(name: str, own: Sequence[Mention]) -> tuple[str, ...]:
        words = list(dict.fromkeys(m.of(one.document.text) for m in own))
        return name, own[0].type, str(len(own)), ", ".join(words)

    return TablePanel(
        title="concepts",
        columns=("concept", "type", "mentions", "as"),
        cells=tuple(row(name, own) for name, own in one.document.concepts.items()),
    )
