"""Any panel of a view as lines of text for a terminal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from regard.errors import RequestError
from regard.viewer._shown import hops_of, names_of, relative
from regard.viewer._spans import spans_lines
from regard.viewer._terminal_picture import photo_of, picture_lines
from regard.viewer._terminal_values import (
    BAR,
    TerminalSurface,
    bars_lines,
    chosen_rows,
    graph_lines,
    largest,
    neighbors_lines,
    right,
    shaded_lines,
    shades,
    table_lines,
    title_for,
    titled,
    tree_lines,
)
from regard.viewer.palette import top_of
from regard.viewer.terminal import clean, draw
from regard.views import MapPanel, Panel, Run, View
from regard.views.picture import Picture

__all__ = ["render"]

Floats = NDArray[np.float32]

LEAST = 0.03
"""Weights below are not named in a line."""
LEAST_WIDE = 12
"""Characters for a picture and the words above it."""
BANDS = 24
"""Lines that a strip of features has at most."""


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
    place = TerminalSurface(view, run, width, colour, values, words)
    panels = run.panels if panels is None else panels
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
        text = DRAW[panel.kind](replace(place, label=label, head=not again), panel)
        if panel.note:
            text.append(f"\n\n{panel.note}")
        text.rstrip()
        made.append(text)
    return Text("\n\n").join(made)


def _matrix(place: TerminalSurface, panel: MapPanel) -> Text:
    one = place.view.maps[panel.map]
    heads: Sequence[int | None] = panel.heads or (None,)
    if panel.kind == "heads" and not panel.heads:
        heads = range(1, one.shape[0] + 1)
    made = []
    for head in heads:
        own = replace(panel, heads=() if head is None else (head,))
        found = place.shown(own)
        weights, rows = relative(one, found.weights[0]), found.rows
        if panel.row is not None:
            weights, rows = weights[panel.row - 1 : panel.row], rows[panel.row - 1 : panel.row]
        picture = Picture(rows, found.columns, torch.from_numpy(np.array(weights)))
        title = names_of(place.view, own, layer=True) if own.title else title_for(place, own)
        made.append(draw(picture, width=place.width, colour=place.colour, values=place.values,
                         title=title or None, label=place.label, head=place.head))  # fmt: skip
    return Text("\n\n").join(made)


def _hops(place: TerminalSurface, panel: MapPanel) -> Text:
    found = hops_of(place.view, place.run, panel, words=place.words)
    picture = Picture(found.rows, found.columns, torch.from_numpy(found.weights[0]))
    wide = max(place.width, 3 * max((cell_len(fact) for fact in found.rows), default=0))
    return draw(picture, width=wide, colour=place.colour, values=True, title=panel.title or None)


def _lines(place: TerminalSurface, panel: MapPanel) -> Text:
    """For each row the places it looks at most."""
    found = place.shown(panel)
    left = max((cell_len(clean(w)) for w in found.rows), default=0)
    lines: list[Text] = []
    for name, weights in zip(found.names, found.weights, strict=True):
        if len(found.names) > 1:
            lines.append(Text(name, "bold"))
        for r in chosen_rows(found, panel):
            line = Text(" " * (left - cell_len(clean(found.rows[r]))) + clean(found.rows[r]) + " →")
            for c in largest(weights[r], LEAST):
                line.append(f" {clean(found.columns[c])} ").append_text(
                    place.number(float(weights[r, c]), found.top, ".2f")
                )
            lines.append(line)
    return titled(place, panel, lines)


def _text(place: TerminalSurface, panel: MapPanel) -> Text:
    found = place.shown(panel)
    row = None if panel.row is None else panel.row - 1
    weights = found.row(row)
    looks = (
        ""
        if row is None or len(found.rows) == 1 or panel.title
        else f"“{clean(found.rows[row])}” looks at"
    )
    title = " · ".join(t for t in (title_for(place, panel), looks) if t)
    return titled(place, panel, [shades(place, found.columns, weights)], title)


def _curves(place: TerminalSurface, panel: MapPanel) -> Text:
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
        line = Text(f"{right(found.rows[r], left)}  {bits[r]:5.2f} {bar:{BAR}} ")
        lines.append(line.append_text(place.number(float(largest[r]), peak)))
    lines += [Text(), Text(f"{'':{left}}  coverage")]
    most = max(float(covered.max(initial=0.0)), 1e-9)
    for label, got in zip(found.columns, covered, strict=True):
        bar = "█" * round(float(got) / most * BAR)
        lines.append(Text(f"{right(label, left)}  {got:5.2f} {bar}"))
    return titled(place, panel, lines)


def _pointer(place: TerminalSurface, panel: MapPanel) -> Text:
    """For each row how much is made and how much is copied, and from where."""
    found = place.shown(panel)
    made = found.extra.get("generate")
    left = max((cell_len(clean(w)) for w in found.rows), default=0)
    head = "made █ copied ░" if made else "copied ░"
    lines = [Text(f"{'':{left}}  {head:{BAR}}  points at")]
    for r in chosen_rows(found, panel):
        long = round((made[r] if made else 0.0) * BAR)
        line = Text(f"{right(found.rows[r], left)}  {'█' * long}{'░' * (BAR - long)} ")
        for c in largest(found.weights[0][r], 0.01):
            line.append(f" {clean(found.columns[c])} ").append_text(
                place.number(float(found.weights[0][r, c]), found.top, ".2f")
            )
        lines.append(line)
    return titled(place, panel, lines)


def _features(place: TerminalSurface, panel: MapPanel) -> Text:
    """One row's weights: a line for each feature, or for a band of them their largest."""
    one = place.view.maps[panel.map]
    found = place.shown(panel, heads=range(1, one.shape[0] + 1))
    at = found.widest if panel.row is None else panel.row - 1
    strip = np.stack([w[at] for w in found.weights])
    bands = np.array_split(np.arange(len(strip)), min(len(strip), BANDS))
    picture = Picture(
        [f"{b[0] + 1}" if len(b) == 1 else f"{b[0] + 1}–{b[-1] + 1}" for b in bands],
        found.columns, torch.from_numpy(np.stack([strip[b].max(0) for b in bands])),
    )  # fmt: skip
    title = f"“{clean(found.rows[at])}”, {len(strip)} features"
    return draw(picture, width=place.width, colour=place.colour, values=place.values, title=title)


def _image(place: TerminalSurface, panel: MapPanel) -> Text:
    """For each row the picture, or a grid of cells as the regions lie."""
    found = place.shown(panel)
    grid = found.axis.grid
    if grid is None:
        raise RequestError("an image wants a grid of regions: Axis(..., grid=(rows, columns))")
    photo = photo_of(found.axis.image)
    blocks: list[list[Text]] = []
    trail = list(zip(found.extra.get("x", ()), found.extra.get("y", ()), strict=False))
    wide = 2 * grid[1]
    for r in chosen_rows(found, panel):
        look = found.weights[0][r].reshape(grid)
        if photo is None:
            lines = [place.cells(line, found.top, 2) for line in look]
        else:
            lines = picture_lines(photo, look, trail[: r + 1], place.width, place.colour)
            wide = max(len(lines[0]), LEAST_WIDE)
            lines = [line + Text(" " * (wide - len(line))) for line in lines]
        blocks.append([Text(f"{clean(found.rows[r])[:wide]:{wide}}"), *lines])
    across = max(place.width // (wide + 2), 1)
    made = []
    for start in range(0, len(blocks), across):
        rows = zip(*blocks[start : start + across], strict=True)
        made += [Text("  ").join(row) for row in rows]
    return titled(place, panel, made)


def _sound(place: TerminalSurface, panel: MapPanel) -> Text:
    """A line of frames for each row, neighbors' largest where they are too many."""
    found = place.shown(panel)
    left = max((cell_len(clean(w)) for w in found.rows), default=0)
    frames = found.weights[0].shape[1]
    count = max(min(frames, place.width - left - 2), 1)
    parts = np.array_split(np.arange(frames), count)
    lines = []
    for r in chosen_rows(found, panel):
        cells = [float(found.weights[0][r][part].max()) for part in parts]
        name = right(found.rows[r], left)
        lines.append(Text(f"{name}  ").append_text(place.cells(cells, found.top)))
    seconds = found.axis.seconds
    end = f"{frames * seconds:.1f} s" if seconds else f"{frames}"
    lines.append(Text(f"{'':{left}}  0{end:>{max(count - 1, 1)}}"))
    return titled(place, panel, lines)


def _compare(place: TerminalSurface, panel: MapPanel) -> Text:
    m, head = panel.other or (panel.map, 1)
    second = MapPanel("matrix", map=m, heads=() if head is None else (head,))
    first = replace(panel, kind="matrix", other=None)
    return Text("\n\n").join([
        Text("A  ").append_text(_matrix(place, first)),
        Text("B  ").append_text(_matrix(place, second)),
    ])  # fmt: skip


DRAW: Mapping[str, Callable[[TerminalSurface, Any], Text]] = {
    "matrix": _matrix, "heads": _matrix, "lines": _lines, "arcs": _lines, "text": _text,
    "curves": _curves, "hops": _hops, "pointer": _pointer, "features": _features,
    "image": _image, "sound": _sound, "graph": graph_lines, "neighbors": neighbors_lines,
    "compare": _compare, "bars": bars_lines, "shaded": shaded_lines, "table": table_lines,
    "tree": tree_lines, "spans": spans_lines,
}  # fmt: skip
"""What draws each kind of panel."""
