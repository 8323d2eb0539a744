"""A text with named stretches: on a terminal, on paper and on a page."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from regard.viewer._drawn import EDGE, SMALL, SOFT, TEXT, paper, write
from regard.viewer._page import _width
from regard.viewer._terminal_values import TerminalSurface
from regard.viewer.palette import HEADS, MARK
from regard.viewer.terminal import clean
from regard.views import LabeledSpan, SpansPanel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_spans", "levels_of", "spans_html", "spans_lines"]

_LINE, _LEVEL, _ARCS = 0.24, 0.22, 0.34  # inches: a line of words, of stretches, of arcs


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
    return one.label if one.value is None else f"{one.label} {one.value:.2f}"


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


def draw_spans(panel: SpansPanel, width: float, title: str) -> "Figure":
    """Words in lines; brackets with names below, arcs from the anchor above."""
    from matplotlib.patches import Arc

    levels = levels_of(panel.spans)
    width = max(width, 5.0)
    wide = [_width(word, TEXT) for word in panel.words]
    if panel.anchor is not None:
        wide[panel.anchor] *= 1.15  # it is bold
    for one in panel.spans:
        lacks = _width(_said(one), SMALL) - sum(w + 0.06 for w in wide[one.start : one.end])
        wide[one.end - 1] += max(lacks, 0.0)
    lines = _lines_of(wide, width - 2 * EDGE, 0.06)
    arched = panel.anchor is not None
    high = _LINE + _LEVEL * (max(levels, default=-1) + 1) + (_ARCS if arched else 0.0)
    made, axes = paper(width, high * len(lines) + 2 * EDGE, title)
    labels = list(dict.fromkeys(one.label for one in panel.spans))
    for number, (start, end) in enumerate(lines):
        x, y = EDGE, EDGE + number * high + (_ARCS if arched else 0.0) + _LINE / 2
        left = {}
        for i in range(start, end):
            left[i] = x
            mine = i == panel.anchor
            bold: dict[str, Any] = {"weight": "bold", "color": MARK} if mine else {}
            write(axes, x, y, panel.words[i], **bold)
            x += wide[i] + 0.06
        for one, level in zip(panel.spans, levels, strict=True):
            first, last = max(one.start, start), min(one.end, end)
            if first >= last:
                continue
            colour = HEADS[labels.index(one.label) % len(HEADS)]
            a, b = left[first], left[last - 1] + wide[last - 1]
            below = y + _LINE / 2 + level * _LEVEL
            axes.plot([a, a, b, b], [below - 0.04, below, below, below - 0.04], color=colour,
                      linewidth=0.9)  # fmt: skip
            name = _said(one) if first == one.start else "…"
            write(axes, (a + b) / 2, below + 0.09, name, SMALL, ha="center", color=colour)
            at = panel.anchor
            if at is None or not start <= at < end or one.start <= at < one.end:
                continue
            here = left[at] + wide[at] / 2
            middle, reach = (here + (a + b) / 2) / 2, abs((a + b) / 2 - here)
            tall = min(2 * (_ARCS - 0.08), 0.2 + 0.25 * reach)
            axes.add_patch(Arc((middle, y - _LINE / 2 + 0.02), reach, tall, theta1=180, theta2=360,
                               color=colour, linewidth=0.9))  # fmt: skip
    if panel.note:
        made.text(0.5, 0.0, panel.note, ha="center", va="bottom", fontsize=SMALL, color=SOFT,
                  parse_math=False)  # fmt: skip
    return made


def spans_html(panel: SpansPanel) -> str:
    """Each word with the names of the stretches that it is in below it, first words named."""
    levels = levels_of(panel.spans)
    count = max(levels, default=-1) + 1
    labels = list(dict.fromkeys(one.label for one in panel.spans))
    cells = []
    for i, word in enumerate(panel.words):
        marks = []
        for level in range(count):
            own = next(
                (s for s, at in zip(panel.spans, levels, strict=True)
                 if at == level and s.start <= i < s.end),
                None,
            )  # fmt: skip
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
        cells.append(f'<span><{tag} dir="auto">{escape(word)}</{tag}>{"".join(marks)}</span>')
    return f'<p class="spans" dir="auto">{"".join(cells)}</p>'
