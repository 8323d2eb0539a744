"""What a tagger said and looked at: named stretches of the text, and every attention over it."""

import math
from collections.abc import Sequence

from regard.data.tag_schemes import repaired, spans_of
from regard.errors import RequestError
from regard.tasks._views.loaded import LoadedModel
from regard.tasks._views.usual import watched
from regard.tasks.given import cells_of, sides
from regard.tasks.prediction import Prediction
from regard.views import LabeledSpan, Panel, SpansPanel, TablePanel, View, ViewOptions

__all__ = ["spans_panel", "view"]


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """Predict each input, watched: words with their tags, and a matrix for every attention.

    A stretch is as sure as its least sure tag. Where words are marked, arcs go out from the first.

    Raises:
        RequestError: an input is empty or refused, is read in windows, or an option is asked for
            that nobody knows.
    """
    window = loaded.task.window
    for text in inputs:
        count = len(_cells(loaded, text)[0].split())
        if window and count > window:
            raise RequestError(
                f"the text has {count:,} words, and is read in windows of {window:,}: look at a "
                "part of it"
            )
    return watched(
        loaded, inputs, options,
        lambda loaded, text: _cells(loaded, text)[0].split(),
        lambda found: [spans_panel(loaded, found)],
    )  # fmt: skip


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
        words=tuple(words), spans=spans, anchor=int(marks[0]) if marks else None
    )  # fmt: skip


def _cells(loaded: LoadedModel, text: str) -> list[str]:
    names, _ = sides(loaded.task.fields())
    try:
        return cells_of(text, names)
    except ValueError as error:
        raise RequestError(str(error)) from None
