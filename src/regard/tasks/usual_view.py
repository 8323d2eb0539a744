"""The view of a task that says nothing of its own: its answers, and every attention it used."""

import re
from collections.abc import Callable, Sequence

import torch

from regard.attention import Record
from regard.errors import RequestError
from regard.fields import TextField
from regard.fields.sets import sides
from regard.tasks.answer_panels import bars, ranked
from regard.tasks.loaded_model import LoadedModel, name_of
from regard.tasks.prediction import Prediction
from regard.views import Axis, Map, MapPanel, Panel, Run, View, ViewOptions, axis_of
from regard.views.word_pieces import END
from regard.watching.watcher import watch

__all__ = ["view", "watched"]

ITSELF = ("encoder", "self")
"""Roles of a text that looks at itself."""


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Predict each input, watched: a matrix for every call of an attention, and the answers.

    Raises:
        RequestError: see `watched`.
    """
    return watched(loaded, inputs, options, _pieces, _answers)


def watched(
    loaded: LoadedModel,
    inputs: Sequence[str],
    options: ViewOptions,
    pieces_of: Callable[[LoadedModel, str], list[str]],
    answers_of: Callable[[Prediction], list[Panel]],
) -> View:
    """Predict each input, watched, with panels of its answer behind the last layers.

    Args:
        pieces_of: what stands on the axes of a text that looks at itself.
        answers_of: the panels of an answer.

    Of a task that reads one text, its pieces are on the axis of what is looked at (roles `encoder`,
    `self`, `word`), and on the other one where it looks at itself; every other place is numbered.

    Raises:
        RequestError: an input is empty or refused, or an option is unknown.
    """
    options.only(task=loaded.task.name)
    axes: list[Axis] = []
    maps: list[Map] = []
    runs: list[Run] = []
    known: dict[tuple[int, int, bool], int] = {}

    def axis(run: int, count: int, pieces: Sequence[str]) -> int:
        named = len(pieces) == count
        if (run, count, named) not in known:
            axes.append(axis_of(list(pieces)) if named else axis_of(None, count))
            known[run, count, named] = len(axes) - 1
        return known[run, count, named]

    for number, text in enumerate(inputs):
        if not text.strip():
            raise RequestError("the input is empty: there is nothing to look at")
        with torch.inference_mode(), watch(loaded.model) as seen:
            (found,) = loaded.predict([text])
        if found.refused:
            raise RequestError(found.refused)
        pieces = pieces_of(loaded, text)
        kept: list[int] = []
        for record in seen.values():
            if set(record.axes) - {"example", "head", "query", "key"} or "key" not in record.axes:
                continue  # beams, graphs, features: a task that has them shows them itself
            role = record.role
            layer = sum(maps[m].kind == role for m in kept)
            for t, weights in enumerate(_steps(record), 1):
                _, queries, keys = weights.shape
                rows = axis(number, queries, pieces if role in ITSELF else [])
                columns = axis(number, keys, pieces if role in (*ITSELF, "word") else [])
                kept.append(len(maps))
                maps.append(
                    Map.of(
                        record.name,
                        rows,
                        columns,
                        weights.numpy(),
                        kind=role or record.name,
                        layer=layer + t,
                        scope=record.scopes[t - 1],
                    )
                )
        panels: list[Panel] = list(_last(maps, kept))
        panels += answers_of(found)
        runs.append(
            Run(
                kept,
                input=text,
                output=found.output,
                model=name_of(loaded),
                folder=options.folder,
                score=found.score,
                panels=panels,
                result=found.as_json(),
            )
        )
    return View(axes, maps, runs, f"{options.folder or name_of(loaded)} · {inputs[0]}")


def _last(maps: Sequence[Map], kept: Sequence[int]) -> list[MapPanel]:
    """Of attentions whose names differ in numbers alone the last one, with all its calls.

    Where several attentions of one kind are left, panels have their names.
    """
    alike = {re.sub(r"\d+", "", maps[m].name): maps[m].name for m in kept}
    chosen = [m for m in kept if maps[m].name in alike.values()]
    names = {(maps[m].kind, maps[m].name): 0 for m in chosen}
    kinds = [kind for kind, _ in names]
    made = []
    for m in chosen:
        own = maps[m].kind, maps[m].name
        names[own] += 1
        several = kinds.count(own[0]) > 1
        title = f"{own[1]}, call {names[own]}" if several else ""
        made.append(MapPanel("matrix", title, map=m))
    return made


def _answers(found: Prediction) -> list[Panel]:
    return [] if found.score is None else [bars(ranked(found))]


def _pieces(loaded: LoadedModel, text: str) -> list[str]:
    """The pieces of the one text that a task reads; none where it reads anything else."""
    inputs, _ = sides(loaded.task.fields())
    field = loaded.fields.get(inputs[0]) if len(inputs) == 1 else None
    if not isinstance(field, TextField):
        return []
    return [*field.cut(text).tokens, *([END] if field.end else [])]


def _steps(record: Record) -> list[torch.Tensor]:
    """The weights (head, Q, K) of each call."""
    found = []
    for step in record.steps:
        own = step[0] if "example" in record.axes else step
        found.append((own if record.heads else own[None]).float().cpu())
    return found
