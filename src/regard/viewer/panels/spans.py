"""A text with named stretches: on a terminal, on paper and on a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from regard.viewer.checked import Checked
from regard.viewer.figure.sheet import EDGE, SMALL, SOFT, TEXT, _width, paper, write
from regard.viewer.palette import HEADS, MARK
from regard.viewer.panels.kind import PanelKind
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import TerminalSurface
from regard.views import (
    LabeledSpan,
    SpansPanel,
)
from regard.views.numbers import decimal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["KINDS", "UNSURE", "draw_spans", "levels_of", "seen_spans", "spans_html", "spans_lines"]

_LINE, _LEVEL, _ARCS = 0.24, 0.22, 0.34  # inches: a line of words, of stretches, of arcs
_LETTER, _SMALL_LETTER = 6.0, 6.2  # pixels of a page: of a word at least, of a name at most
_GAP = 0.06  # inches between words, and between names


def levels_of(spans: Sequence[LabeledSpan]) -> list[int]:
    """The row of each stretch, so that no two of a row overlap; longer ones are farther down."""
    rows: list[list[LabeledSpan]] = []
    found = [0] * len(spans)
    order = sorted(range(len(spans)), key=lambda i: (spans[i].end - spans[i].start, i))
    for i in order:
        own = spans[i]
        free = (
            level
            for level, row in enumerate(rows)
            if all(own.end <= other.start or other.end <= own.start for other in row)
        )
        found[i] = next(free, len(rows))
        if found[i] == len(rows):
            rows.append([])
        rows[found[i]].append(own)
    return found


def _said(one: LabeledSpan) -> str:
    return one.label if one.value is None else f"{one.label} {decimal(one.value)}"


def _lines_of(widths: Sequence[float], room: float, gap: float) -> list[tuple[int, int]]:
    """Where a text of words so wide is cut, so that each line has room for its words."""
    found, start, used = [], 0, 0.0
    for i, wide in enumerate(widths):
        if i > start and used + wide > room:
            found.append((start, i))
            start, used = i, 0.0
        used += wide + gap
    return [*found, (start, len(widths))]


def spans_lines(place: TerminalSurface, panel: SpansPanel) -> Text:
    """Words, and below them brackets with the names of stretches; the anchor is underlined."""
    words = [clean(word) for word in panel.words]
    levels = levels_of(panel.spans)
    wide = [cell_len(word) for word in words]
    for one in panel.spans:  # room for the name: its first word is as wide as it must be
        lacks = cell_len(_said(one)) + 2 - sum(w + 1 for w in wide[one.start : one.end]) + 1
        wide[one.end - 1] += max(lacks, 0)
    made = [Text(panel.title)] if panel.title else []
    for start, end in _lines_of([float(w) for w in wide], max(place.width - 2.0, 10.0), 1.0):
        line = Text()
        for i in range(start, end):
            style = "bold underline" if i == panel.anchor else ""
            line.append(words[i], style).append(" " * (wide[i] - cell_len(words[i]) + 1))
        made.append(line)
        for level in range(max(levels, default=-1) + 1):
            row, reached = Text(), start
            here = [s for s, at in zip(panel.spans, levels, strict=True) if at == level]
            for one in sorted(here, key=lambda s: s.start):
                first, last = max(one.start, start), min(one.end, end)
                if first >= last:
                    continue
                row.append(" " * sum(w + 1 for w in wide[reached:first]))
                room = sum(w + 1 for w in wide[first:last]) - 1
                name = _said(one) if first == one.start else "…"
                body = name[: room - 2].center(room - 2, "─") if room > 2 else "─" * (room - 2)
                ends = ("└" if first == one.start else "─", "┘" if last == one.end else "─")
                style = "blue" if place.colour else ""
                row.append((ends[0] + body + ends[1])[:room], style).append(" ")
                reached = last
            if row.plain.strip():
                made.append(row)
    if panel.note:
        made.append(Text(panel.note, "dim" if place.colour else ""))
    return Text("\n").join(made)


def draw_spans(
    panels: Sequence[SpansPanel], width: float, title: str, *, values: bool = False
) -> "Figure":
    """Words in lines; brackets with names below, arcs from the anchor above. Texts are stacked."""
    width = max(width, 5.0)
    laid = [_laid(panel, width, len(panels) > 1) for panel in panels]
    labels = list(dict.fromkeys(one.label for panel in panels for one in panel.spans))
    made, axes = paper(width, sum(one.high for one in laid) + 2 * EDGE, title)
    y = EDGE
    for one in laid:
        _put(axes, one, y, labels, width)
        y += one.high
    return made


@dataclass(frozen=True)
class _Laid:
    """A text as it is laid out: how wide words are, which line has which, the heights of all."""

    panel: SpansPanel
    title: str
    wide: list[float]
    lines: list[tuple[int, int]]
    levels: list[int]
    arched: float
    line: float

    @property
    def high(self) -> float:
        more = (_LINE if self.title else 0.0) + (_LINE if self.panel.note else 0.0)
        return self.line * len(self.lines) + more


def _laid(panel: SpansPanel, width: float, titled: bool) -> _Laid:
    levels = levels_of(panel.spans)
    wide = [min(_width(word, TEXT), width - 2 * EDGE) for word in panel.words]
    if panel.anchor is not None:
        wide[panel.anchor] *= 1.15  # it is bold
    for one in panel.spans:
        room = sum(w + _GAP for w in wide[one.start : one.end]) - _GAP
        wide[one.end - 1] += max(_width(_said(one), SMALL) + _GAP - room, 0.0)
    arched = 0.0 if panel.anchor is None else _ARCS
    line = _LINE + _LEVEL * (max(levels, default=-1) + 1) + arched
    lines = _lines_of(wide, width - 2 * EDGE, _GAP)
    return _Laid(panel, panel.title if titled else "", wide, lines, levels, arched, line)


def _put(axes: "Axes", laid: _Laid, top: float, labels: Sequence[str], width: float) -> None:
    """One text with its brackets and arcs, from `top` down."""
    from matplotlib.patches import Arc

    panel, wide = laid.panel, laid.wide
    if laid.title:
        write(axes, EDGE, top + _LINE / 2, laid.title, SMALL, color=SOFT)
        top += _LINE
    for number, (start, end) in enumerate(laid.lines):
        x, y = EDGE, top + number * laid.line + laid.arched + _LINE / 2
        left = {}
        for i in range(start, end):
            left[i] = x
            mine = i == panel.anchor
            bold: dict[str, Any] = {"weight": "bold", "color": MARK} if mine else {}
            write(axes, x, y, panel.words[i], room=width - 2 * EDGE, **bold)
            x += wide[i] + _GAP
        for one, level in zip(panel.spans, laid.levels, strict=True):
            first, last = max(one.start, start), min(one.end, end)
            if first >= last:
                continue
            colour = HEADS[labels.index(one.label) % len(HEADS)]
            a, b = left[first], left[last - 1] + wide[last - 1]
            below = y + _LINE / 2 + level * _LEVEL
            axes.plot(
                [a, a, b, b],
                [below - 0.04, below, below, below - 0.04],
                color=colour,
                linewidth=0.9,
            )
            name = _said(one) if first == one.start else "…"
            write(axes, (a + b) / 2, below + 0.09, name, SMALL, ha="center", color=colour)
            at = panel.anchor
            if at is None or not start <= at < end or one.start <= at < one.end:
                continue
            here = left[at] + wide[at] / 2
            middle, reach = (here + (a + b) / 2) / 2, abs((a + b) / 2 - here)
            tall = min(2 * (_ARCS - 0.08), 0.2 + 0.25 * reach)
            axes.add_patch(
                Arc(
                    (middle, y - _LINE / 2 + 0.02),
                    reach,
                    tall,
                    theta1=180,
                    theta2=360,
                    color=colour,
                    linewidth=0.9,
                )
            )
    if panel.note:
        foot = top + len(laid.lines) * laid.line + _LINE / 2
        write(axes, EDGE, foot, panel.note, SMALL, color=SOFT, room=width - 2 * EDGE)


def spans_html(panel: SpansPanel) -> str:
    """Each word with the names of the stretches that it is in below it, first words named.

    The first words of a stretch stay on one line until its name has room below them.
    """
    levels = levels_of(panel.spans)
    count = max(levels, default=-1) + 1
    labels = list(dict.fromkeys(one.label for one in panel.spans))
    wide = [cell_len(word) * _LETTER + 6 for word in panel.words]
    joined = [False] * len(wide)  # to the word before
    for one in panel.spans:
        lacks = cell_len(_said(one)) * _SMALL_LETTER + 12
        for i in range(one.start, one.end):
            if lacks <= 0:
                break
            joined[i] |= i > one.start
            lacks -= wide[i]
        wide[one.end - 1] += max(lacks, 0.0)
    units: list[list[str]] = []
    for i, word in enumerate(panel.words):
        marks = []
        for level in range(count):
            own = next(
                (
                    s
                    for s, at in zip(panel.spans, levels, strict=True)
                    if at == level and s.start <= i < s.end
                ),
                None,
            )
            if own is None:
                marks.append("<i></i>")
                continue
            name = _said(own) if i == own.start else "\u00a0"
            hue = HEADS[labels.index(own.label) % len(HEADS)]
            ends = " first" * (i == own.start) + " last" * (i == own.end - 1)
            marks.append(
                f'<i class="of{ends}" style="--hue:{hue}" title="{escape(own.label)}">'
                f"{escape(name)}</i>"
            )
        tag = "strong" if i == panel.anchor else "b"
        least = cell_len(word) * _LETTER + 6
        room = f' style="min-width:{wide[i]:.0f}px"' if wide[i] > least else ""
        if not joined[i]:
            units.append([])
        inside = f'<{tag} dir="auto">{escape(word)}</{tag}>{"".join(marks)}'
        units[-1].append(f'<span class="named"{room}>{inside}</span>')
    told = "".join(f'<span class="kept">{"".join(unit)}</span>' for unit in units)
    return f'<p class="spans" dir="auto">{told}</p>'


UNSURE = -1.0
"""The value of a stretch of which nobody says how sure it is."""


def seen_spans(row: Checked) -> tuple[LabeledSpan, ...]:
    """The spans of a row of a `.seen` file."""
    labels, starts, ends = row.strings("labels"), row.whole("starts"), row.whole("ends")
    row.claim(len(labels) == len(starts) == len(ends), "ends")
    count = len(row.strings("words"))
    row.claim(all(a < b <= count for a, b in zip(starts, ends, strict=True)), "ends")
    values = row.floats("values")
    row.claim(len(values) == len(labels), "values")
    each = [None if value == UNSURE else value for value in values]
    rows = zip(starts, ends, labels, each, strict=True)
    return tuple(LabeledSpan(*one) for one in rows)


def _anchor(row: Checked) -> int | None:
    number = row.count("anchor")
    row.claim(number <= len(row.strings("words")), "anchor")
    return number - 1 if number else None


def row_of_spans(panel: SpansPanel) -> dict[str, Any]:
    """Words, then starts, ends, labels and values of the spans; the anchor counted from 1."""
    row: dict[str, Any] = {"words": panel.words, "labels": [one.label for one in panel.spans]}
    row["starts"] = [one.start for one in panel.spans]
    row["ends"] = [one.end for one in panel.spans]
    row["values"] = [
        UNSURE if one.value is None else float(f"{one.value:.6g}") for one in panel.spans
    ]
    if panel.anchor is not None:
        row["anchor"] = panel.anchor + 1
    return row


def spans_of_row(kind: str, title: str, note: str, row: Checked) -> SpansPanel:
    """Spans within the words."""
    return SpansPanel(kind, title, note, tuple(row.strings("words")), seen_spans(row), _anchor(row))


KINDS = (
    PanelKind(
        name="spans",
        panel=SpansPanel,
        terminal=spans_lines,
        figure=draw_spans,
        page=spans_html,
        row=row_of_spans,
        read=spans_of_row,
        several=True,
    ),
)
