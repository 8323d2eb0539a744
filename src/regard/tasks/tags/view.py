"""What a tagger said and looked at: named stretches of the text, and every attention over it."""

import math
from collections.abc import Sequence
from dataclasses import replace

from regard.data.annotations.predicate_texts import AskedText
from regard.data.annotations.tag_schemes import repaired, spans_of
from regard.data.text.cells import BETWEEN, cells_of
from regard.errors import RequestError
from regard.fields.sets import sides
from regard.tasks.loaded_model import LoadedModel
from regard.tasks.prediction import Prediction
from regard.tasks.tags.propositions import Propositions
from regard.tasks.usual_view import watched
from regard.views import (
    LabeledSpan,
    MapPanel,
    Panel,
    Run,
    SpansPanel,
    TablePanel,
    View,
    ViewOptions,
)

__all__ = ["spans_panel", "view"]

MOST = 80
"""Letters of a text that a sentence about it repeats."""


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Predict each input, watched: words with their tags, and a matrix for every attention.

    A stretch is as sure as its least sure tag. Where words are marked, arcs go out from the first.
    Of a text without marks all is there once for each predicate that is found, and the kind of an
    attention ends in "of" and the predicate.

    Raises:
        RequestError: an input is empty or refused, has no predicate, is read in windows, or an
            option is unknown.
    """
    if not loaded.task.marks or loaded.task.features:
        seen = _watched(loaded, inputs, options, [])
        return replace(seen, runs=[replace(run, panels=_ordered(run.panels)) for run in seen.runs])
    if not all(text.strip() for text in inputs):
        raise RequestError("the input is empty: there is nothing to look at")
    every = Propositions.of(inputs, loaded.fields["predicates"])
    for one in every.inputs:
        if one.refused:
            raise RequestError(one.refused)
        if one.plain and not one.places:
            raise RequestError(
                f"no predicate was found in {_short(one.text)!r}: mark a word, counted from 0, as "
                f"in '{_short(one.text)} {BETWEEN} 0'"
            )
    found: list[Prediction] = []
    seen = _watched(loaded, every.marked, options, found)
    runs, joined, maps = iter(seen.runs), list[Run](), list(seen.maps)
    merged = every.merged(found, loaded.task.scheme)
    for one, prediction in zip(every.inputs, merged, strict=True):
        own = [next(runs) for _ in one.examples]
        if one.plain:
            for run, name in zip(own, _names(one), strict=True):
                for m in run.maps:
                    maps[m] = replace(maps[m], kind=f"{maps[m].kind} of {name}")
        run = _joined(own, one, prediction) if one.plain else own[0]
        joined.append(replace(run, panels=_ordered(run.panels)))
    return replace(seen, runs=joined, maps=maps)


def _short(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}…"


def _ordered(panels: Sequence[Panel]) -> list[Panel]:
    """What was found, before what was looked at."""
    return sorted(panels, key=lambda panel: isinstance(panel, MapPanel))


def _joined(runs: Sequence[Run], asked: AskedText, found: Prediction) -> Run:
    """The runs of the predicates of one text as one; other panels than maps have its name."""
    panels = [
        panel if isinstance(panel, MapPanel) else replace(panel, title=f"roles of {name}")
        for run, name in zip(runs, _names(asked), strict=True)
        for panel in run.panels
    ]
    return replace(
        runs[0],
        maps=[m for run in runs for m in run.maps],
        input=asked.text,
        output=found.output,
        score=found.score,
        panels=panels,
        result=found.as_json(),
    )


def _names(asked: AskedText) -> list[str]:
    """A name for each predicate: its word, with its place where another one has that word."""
    words = [asked.words[place] for place in asked.places]
    return [
        f"{word} ({place})" if words.count(word) > 1 else word
        for word, place in zip(words, asked.places, strict=True)
    ]


def _watched(
    loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions, found: list[Prediction]
) -> View:
    """The view of examples, a run for each; `found` gets their predictions."""

    def panels(one: Prediction) -> list[Panel]:
        found.append(one)
        return [spans_panel(loaded, one)]

    window = loaded.task.window
    for text in inputs:
        count = len(_cells(loaded, text)[0].split())
        if window and count > window:
            raise RequestError(
                f"the text has {count:,} words, and is read in windows of {window:,}: look at a "
                "part of it"
            )
    return watched(
        loaded, inputs, options, lambda loaded, text: _cells(loaded, text)[0].split(), panels
    )


def spans_panel(loaded: LoadedModel, found: Prediction) -> Panel:
    """The words of a prediction with their tags; of tags without a scheme a table."""
    names, _ = sides(loaded.task.fields())
    cells = _cells(loaded, found.input)
    words, tags = cells[0].split(), found.output.split()
    sure = [math.exp(score) for score in found.token_scores]
    if not loaded.task.scheme:
        rows = zip(words, tags, (f"{p:.2f}" for p in sure), strict=True)
        return TablePanel(columns=("word", "tag", "confidence"), cells=tuple(rows))
    marks = cells[names.index("predicate")].split() if loaded.task.marks else []
    scheme = loaded.task.scheme
    spans = tuple(
        LabeledSpan(start, end, label or "span", min(sure[start:end]))
        for start, end, label in spans_of(repaired(tags, scheme), scheme)
    )
    return SpansPanel(
        words=tuple(words),
        spans=spans,
        anchor=int(marks[0]) if marks else None,
        note="" if spans else "nothing was found",
    )


def _cells(loaded: LoadedModel, text: str) -> list[str]:
    names, _ = sides(loaded.task.fields())
    try:
        return cells_of(text, names)
    except ValueError as error:
        raise RequestError(str(error)) from None
