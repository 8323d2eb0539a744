"""Panels of curves."""

from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from regard.viewer.content import Shown
from regard.viewer.palette import GRID, INK, MARK, top_of
from regard.viewer.panels.kind import MapKind
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import (
    BAR,
    TerminalSurface,
    chosen_rows,
    right,
    titled,
)
from regard.views import MapPanel
from regard.views.numbers import decimal

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from regard.viewer.figure.sheet import SMALL, TITLE, shaded

__all__ = ["KINDS", "curves", "terminal_curves"]


def terminal_curves(place: TerminalSurface, panel: MapPanel) -> Text:
    """How spread each row is in bits, its largest weight, and what each column got in all."""
    found = place.shown(panel)
    size = np.abs(found.weights[0])
    share = size / np.maximum(size.sum(1, keepdims=True), 1e-12)
    bits = -(share * np.log2(np.maximum(share, 1e-12))).sum(1)
    largest, covered = size.max(1, initial=0.0), size.sum(0)
    peak = top_of([float(largest.max(initial=0.0))])
    left = max((cell_len(clean(w)) for w in (*found.rows, *found.columns)), default=0)
    lines = [Text(f"{'':{left}}  spread, bits  largest weight")]
    for r in chosen_rows(found, panel):
        bar = "█" * round(float(bits[r]) / max(float(bits.max(initial=0.0)), 1e-9) * BAR)
        line = Text(f"{right(found.rows[r], left)}  {decimal(bits[r]):>5} {bar:{BAR}} ")
        lines.append(line.append_text(place.number(float(largest[r]), peak, 3, 6)))
    lines += [Text(), Text(f"{'':{left}}  coverage")]
    most = max(float(covered.max(initial=0.0)), 1e-9)
    for label, got in zip(found.columns, covered, strict=True):
        bar = "█" * round(float(got) / most * BAR)
        lines.append(Text(f"{right(label, left)}  {decimal(got):>5} {bar}"))
    return titled(place, panel, lines)


def curves(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """How spread each row is, its largest weight, what each column got, and numbers beside rows."""
    from matplotlib.figure import Figure

    size = np.abs(shown.weights[0])
    share = size / np.maximum(size.sum(1, keepdims=True), 1e-12)
    charts = [
        ("spread, bits", -(share * np.log2(np.maximum(share, 1e-12))).sum(1), shown.rows),
        ("largest weight", size.max(1, initial=0.0), shown.rows),
        ("coverage", shown.weights[0].sum(0), shown.columns),
        *((name, np.array(given), shown.rows) for name, given in shown.extra.items()),
    ]
    made = Figure(figsize=(width, 1.25 * len(charts) + TITLE), dpi=300, layout="constrained")
    if title:
        made.suptitle(title, fontsize=SMALL, color=INK, parse_math=False)
    for axes, (name, numbers, labels) in zip(
        np.ravel(made.subplots(len(charts), 1)), charts, strict=True
    ):
        places = np.arange(len(numbers))
        if labels is shown.columns:
            axes.bar(places, numbers, color=shaded(0.75), width=0.8)
        else:
            axes.plot(places, numbers, color=shaded(0.75), linewidth=1.2, marker=".", markersize=3)
        if row is not None and labels is shown.rows:
            axes.axvline(row, color=MARK, linewidth=0.8)
        axes.set_ylabel(name, fontsize=SMALL)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color=GRID, linewidth=0.4)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=6, length=2, width=0.4)
        every = max(-(-len(labels) // 40), 1)
        axes.set_xticks(places[::every], labels[::every], rotation=90, parse_math=False)
    return made


KINDS = (MapKind(name="curves", terminal=terminal_curves, figure=curves),)
