"""Any panel of a view as lines of text for a terminal."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from regard.viewer.labels import with_visible_labels
from regard.viewer.panels.registry import PANEL_KINDS
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import (
    TerminalSurface,
)
from regard.views import MapPanel, Panel, Run, View

__all__ = ["render"]

Floats = NDArray[np.float32]


def render(
    view: View,
    run: Run,
    panels: Sequence[Panel] | None = None,
    *,
    width: int = 100,
    colour: bool = True,
    values: bool = False,
    words: bool = True,
) -> Text:
    """Lay panels out as lines of text that a `rich` console prints.

    Args:
        panels: the run's own where None.
        width: of the terminal in characters.
        colour: background colours; else blocks of characters.
        values: numbers in cells.
        words: pieces put together to words; else pieces.
    """
    panels = with_visible_labels(run.panels if panels is None else list(panels))
    view, run = with_visible_labels(view), with_visible_labels(run)
    place = TerminalSurface(view, run, width, colour, values, words)
    forms = [
        place.shown(panel) if isinstance(panel, MapPanel) and panel.kind == "matrix" else None
        for panel in panels
    ]
    label = max((cell_len(clean(w)) for form in forms if form for w in form.rows), default=0)
    made: list[Text] = []
    before: list[str] | None = None
    for panel, form in zip(panels, forms, strict=True):
        # Matrices over the same columns have their words once, above the first.
        again = form is not None and form.columns == before
        before = None if form is None else form.columns
        text = PANEL_KINDS[panel.kind].terminal(replace(place, label=label, head=not again), panel)
        if panel.note:
            text.append(f"\n\n{panel.note}")
        text.rstrip()
        made.append(text)
    return Text("\n\n").join(made)
