"""Where everything goes on a page of alignment pictures, measured in inches."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.viewer.content import Shown
from regard.viewer.labels import upright
from regard.viewer.palette import GRID, HEADS, INK, LESS, MARK, STOPS, ink_on, shade, top_of
from regard.views.numbers import in_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.views.picture import Picture

__all__ = [
    "EDGE",
    "SMALL",
    "SOFT",
    "TEXT",
    "TITLE",
    "Floats",
    "Page",
    "Subplot",
    "blues",
    "colour_of",
    "paper",
    "shaded",
    "style",
    "write",
]

_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK TC",
    "Noto Sans CJK KR",
    "Noto Sans SC",
    "Noto Sans JP",
    "Noto Sans KR",
    "Source Han Sans SC",
    "Noto Serif CJK SC",
    "WenQuanYi Micro Hei",
    "SimHei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Sans Lao",
    "Noto Sans Myanmar",
    "Noto Sans Khmer",
)
"""For letters that DejaVu Sans, which comes with matplotlib, does not have; where installed."""

_CELL, _SMALLEST = 0.18, 0.012  # inches: of a cell where there is room, and at least
_TEXT, _TITLE, _SPACING = 8.0, 7.0, 1.05  # points; of lines of one letter
_LINE = 1.3 / 72  # inches: of a letter below another, at a size of one point
_EDGE, _GAP = 0.06, 0.05  # inches: around everything, and between words and cells
_BETWEEN = 0.1  # inches: between panels side by side
_WIDEST, _GRID_WIDEST = 10.0, 6.9  # inches: of pictures that may be as wide as they like
_BAR = 0.42  # inches: the colour bar with its numbers


def blues(*, signed: bool = False) -> Any:
    """The colours of weights, from white to dark blue, as matplotlib takes them.

    Args:
        signed: from dark brown over white: of weights from -1 to 1.
    """
    from matplotlib.colors import LinearSegmentedColormap

    stops = (*reversed(LESS), *STOPS[1:]) if signed else STOPS
    return LinearSegmentedColormap.from_list("regard", stops)


@dataclass(frozen=True)
class Subplot:
    """One picture of a grid with the words above it."""

    title: str
    picture: "Picture"


@lru_cache(maxsize=1)
def style() -> dict[str, Any]:
    """Settings of matplotlib: fonts that are there and are embedded, files without dates."""
    from matplotlib import font_manager

    there = set(font_manager.get_font_names())
    if not there.issuperset(_FONTS):
        there |= _just_installed({one.fname for one in font_manager.fontManager.ttflist})
    named = [name for one in _FONTS for name in (one, f"{one} Regular") if name in there]
    return {
        "font.family": ["DejaVu Sans", *named],
        "pdf.fonttype": 42,  # TrueType outlines, embedded: what publishers ask for
        "ps.fonttype": 42,
        "svg.fonttype": "path",
        "svg.hashsalt": "regard",
        "axes.linewidth": 0.5,
        "text.hinting": "no_hinting",  # else letters of some sizes are wider than `_width` says
    }


def _just_installed(listed: set[str]) -> set[str]:
    """Names of fonts that matplotlib's list, which it made once, does not have; they join it."""
    from matplotlib import font_manager

    before = len(font_manager.fontManager.ttflist)
    for file in set(font_manager.findSystemFonts()) - listed:
        # Bitmaps, and what else it cannot draw.
        with suppress(OSError, RuntimeError, ValueError):
            font_manager.fontManager.addfont(file)  # a collection (.ttc) adds several
    return {font.name for font in font_manager.fontManager.ttflist[before:]}


class Page:
    """Where everything goes, in inches from the upper left corner."""

    def __init__(
        self, rows: list[list[Subplot]], title: str | None, width: float | None, *, bar: bool
    ) -> None:
        self.rows, self.bar = rows, bar
        self.signed = any(bool((p.picture.weights < 0).any()) for row in rows for p in row)
        first = rows[0][0].picture
        self.size = (len(first.rows), len(first.columns))
        self.across = max(len(row) for row in rows)
        widest = _WIDEST if self.across == 1 else _GRID_WIDEST
        if width is None and self.size[1] * _CELL * self.across > widest - 1:
            width = widest
        self.panel_title = 0.16 if any(p.title for row in rows for p in row) else 0.0
        side, cell = _BAR if bar else _EDGE, _CELL
        text = _TEXT
        for _ in range(12):  # words shrink with the cells, and leave more room to them
            left = _EDGE + _longest(first.rows, text) + _GAP
            between = self.across * self.size[1]
            room = None if width is None else width - left - side - _BETWEEN * (self.across - 1)
            cell = _CELL if room is None else max(min(_CELL * 2, room / between), _SMALLEST)
            fits = min(_TEXT, max(cell * 72 * 0.82, 1.5))
            if width is not None:  # long words beside the rows leave room for the cells
                fits = min(fits, 0.45 * width / max(_longest(first.rows, 1.0), 0.01))
            if abs(fits - text) < 0.05:
                break
            text = fits
        self.text, self.cell, self.left, self.side = text, cell, left, side
        self.high = min(cell, _CELL)  # rows need not be as high as columns are wide
        slanted = cell >= 0.16 and self.across == 1 and not any(map(upright, first.columns))
        self.slant = 45 if slanted else 90
        self.words = self._reach(first.columns)
        self.over = _overhang(first.columns, text, cell) if self.slant == 45 else 0.0
        beyond = _longest([p.title for row in rows for p in row], _TITLE) - self.size[1] * cell
        self.gap = _BETWEEN  # wider where titles would meet, and the figure may be wider
        if width is None and beyond > 0:
            self.gap = max(_BETWEEN, beyond + 0.08)
            self.left = left = max(left, beyond / 2 + _EDGE)
            side = max(side, beyond / 2 + _EDGE)
        self.title_room = self.size[1] * cell + min(self.gap - 0.04, 2 * (left - _EDGE))
        cells = self.across * self.size[1] * cell + self.gap * (self.across - 1)
        self.width = width or left + cells + max(side, self.over + _EDGE)
        if width is not None and self.over > side:  # slanted words would be cut off
            self.slant, self.over = 90, 0.0
            self.words = self._reach(first.columns)
        self.title = _wrap(title or "", self.width - 2 * _EDGE)
        self.above = _EDGE + 0.13 * len(self.title)

    def _reach(self, columns: Sequence[str]) -> float:
        """How high the words above the cells are, in inches."""
        turned = _longest([word for word in columns if upright(word) is None], self.text)
        letters = max((len(word) for word in columns if upright(word)), default=0)
        return max(turned * (0.71 if self.slant == 45 else 1.0), letters * _LINE * self.text) + 0.06

    def draw(self, *, values: bool, mark: int | None) -> "Figure":
        """Put the panels and the bar on a figure."""
        from matplotlib.figure import Figure

        tall = self.size[0] * self.high
        heights = [self.words + self.panel_title] + [self.panel_title + 0.1] * (len(self.rows) - 1)
        total = max(self.above + sum(heights) + len(self.rows) * tall + _EDGE, 0.7)
        figure = Figure(figsize=(self.width, total), dpi=300)
        every = [p.picture.weights for row in self.rows for p in row]
        top = top_of([float(own.abs().max()) for own in every if own.numel()])
        wide, y = self.size[1] * self.cell, self.above
        for r, row in enumerate(self.rows):
            y += heights[r]
            for c, panel in enumerate(row):
                x = self.left + c * (wide + self.gap)
                place = (x / self.width, 1 - (y + tall) / total, wide / self.width, tall / total)
                axes = figure.add_axes(place)
                mesh = self._cells(axes, panel.picture, top, values=values, mark=mark)
                self._labels(axes, panel, left=c == 0, above=r == 0)
            y += tall
        if self.bar:
            self._bar(figure, mesh, top, total)
        for i, line in enumerate(self.title):
            figure.text(
                _EDGE / self.width,
                1 - (_EDGE / 2 + 0.13 * i) / total,
                line,
                fontsize=_TITLE,
                color=INK,
                va="top",
                parse_math=False,
            )
        return figure

    def _cells(
        self, axes: "Axes", picture: "Picture", top: float, *, values: bool, mark: int | None
    ) -> Any:
        from matplotlib.patches import Rectangle

        lined = self.cell > 0.06
        mesh = axes.pcolormesh(
            picture.weights.double().cpu().numpy(),
            vmin=-top if self.signed else 0,
            vmax=top,
            cmap=blues(signed=self.signed),
            edgecolors=GRID if lined else "face",
            linewidth=0.3 if lined else 0.0,
        )
        axes.set_ylim(self.size[0], 0)
        axes.set_xlim(0, self.size[1])
        if values:
            size = min(self.text * 0.75, self.cell * 72 * 0.42)
            for i, row in enumerate(picture.weights.tolist()):
                for j, weight in enumerate(row):
                    axes.text(
                        j + 0.5,
                        i + 0.52,
                        in_cell(weight),
                        fontsize=size,
                        ha="center",
                        va="center",
                        color=ink_on(weight, top),
                    )
        if mark is not None:
            frame = Rectangle((0, mark), self.size[1], 1, fill=False, edgecolor=MARK, linewidth=1.0)
            frame.set_clip_on(False)
            axes.add_patch(frame)
        return mesh

    def _labels(self, axes: "Axes", panel: Subplot, *, left: bool, above: bool) -> None:
        axes.tick_params(length=0, pad=_GAP * 72 * 0.8)
        axes.xaxis.tick_top()
        for spine in axes.spines.values():
            spine.set_color("#9a9a9a")
        axes.set_xticks([i + 0.5 for i in range(self.size[1])] if above else [])
        axes.set_yticks([i + 0.5 for i in range(self.size[0])] if left else [])
        style: dict[str, Any] = {"fontsize": self.text, "color": INK, "parse_math": False}
        if above:
            slanted: dict[str, Any] = {"rotation": self.slant, "rotation_mode": "anchor"}
            at = "center" if self.slant == 90 else "baseline"
            words = list(panel.picture.columns)
            stacks = [upright(word) for word in words]
            names = [stack or word for stack, word in zip(stacks, words, strict=True)]
            labels = axes.set_xticklabels(names, ha="left", va=at, **slanted, **style)
            for stack, label in zip(stacks, labels, strict=True):
                if stack is not None:
                    label.set(rotation=0, ha="center", va="bottom", linespacing=_SPACING)
        if left:
            axes.set_yticklabels(list(panel.picture.rows), **style)
        if panel.title:
            lift = (self.words if above else 0.0) * 72
            axes.annotate(
                panel.title,
                (0.5, 1),
                (0, lift + 2),
                xycoords="axes fraction",
                textcoords="offset points",
                fontsize=_TITLE
                * min(1.0, self.title_room / max(_width(panel.title, _TITLE), 0.01)),
                color=INK,
                ha="center",
                va="bottom",
                parse_math=False,
                annotation_clip=False,
            )

    def _bar(self, figure: "Figure", mesh: Any, top: float, total: float) -> None:
        first = figure.axes[0].get_position()
        down = min(first.height, 1.2 / total)
        right = self.left + self.across * self.size[1] * self.cell + self.gap * (self.across - 1)
        place = ((right + 0.09) / self.width, first.y1 - down, 0.07 / self.width, down)
        axes = figure.add_axes(place)
        low = -top if self.signed else 0
        marks = [low, top] if down * total < 0.5 else [low, (low + top) / 2, top]
        bar = figure.colorbar(mesh, cax=axes)
        bar.outline.set_linewidth(0.3)
        bar.set_ticks(marks, labels=[f"{mark:g}" for mark in marks])
        axes.tick_params(labelsize=6, length=1.5, width=0.3, pad=1.5)


def _longest(words: Sequence[str], points: float) -> float:
    """The width in inches of the widest word."""
    return max((_width(word, points) for word in words), default=0.0)


def _overhang(words: Sequence[str], points: float, cell: float) -> float:
    """How far slanted words reach to the right of the last cell, in inches."""
    count = len(words)
    reach = (
        _width(w, points) * 0.71 - (count - i - 0.5) * cell
        for i, w in enumerate(words)
        if upright(w) is None
    )
    return max(max(reach, default=0.0) + 0.05, 0.0)


def _width(text: str, points: float) -> float:
    return _unit(text) * points


@lru_cache(maxsize=4096)
def _unit(text: str) -> float:
    """The width of a text in inches at a size of one point."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    font = FontProperties(family=style()["font.family"], size=100)
    text = text.replace("$", r"\$")  # else it would be read as mathematics
    path = TextPath((0, 0), text, size=100, prop=font, usetex=False)
    return float(path.get_extents().width) / 100 / 72


def _wrap(title: str, width: float) -> list[str]:
    """The title in lines that fit `width` inches; broken between its parts where possible."""
    lines: list[str] = []
    for word in title.split(" · "):
        joined = f"{lines[-1]} · {word}" if lines else word
        if lines and _width(joined, _TITLE) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    return [line for line in lines if line]


Floats = NDArray[np.float32]
TEXT, SMALL, EDGE, TITLE = 8.0, 7.0, 0.06, 0.16
SOFT = "#6b7280"


def paper(width: float, height: float, title: str) -> tuple["Figure", "Axes"]:
    """A sheet to draw on in inches, from the upper left corner, below its title."""
    from matplotlib.figure import Figure

    above = TITLE if title else 0.0
    made = Figure(figsize=(width, height + above), dpi=300)
    axes = made.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, -above))
    axes.set_axis_off()
    write(axes, EDGE, -above / 2, title, SMALL, room=width - 2 * EDGE)
    return made, axes


def write(
    axes: "Axes",
    x: float,
    y: float,
    words: str,
    size: float = TEXT,
    *,
    room: float = 99.0,
    **more: Any,
) -> None:
    """A text, as small as its room wants."""
    if more.get("rotation") == 90 and (stacked := upright(words)) is not None:
        words, more = stacked, more | {"rotation": 0, "linespacing": _SPACING}
    wide = _width(words, size)
    fitted = size * min(1.0, room / wide) if wide else size
    style: dict[str, Any] = {"color": INK, "va": "center", "parse_math": False} | more
    axes.text(x, y, words, fontsize=fitted, **style)


def colour_of(shown: Shown, k: int) -> Any:
    """One hue for one head, a colour each for several."""
    return HEADS[k % len(HEADS)] if len(shown.weights) > 1 else shaded(0.75)


def shaded(weight: float, top: float = 1.0) -> tuple[float, float, float]:
    """The colour of a weight, as matplotlib wants it."""
    red, green, blue = shade(weight, top)
    return red / 255, green / 255, blue / 255


def _legend(axes: "Axes", shown: Shown, y: float) -> None:
    x = EDGE
    for k, name in enumerate(shown.names if len(shown.weights) > 1 else []):
        axes.plot([x, x + 0.12], [y, y], color=colour_of(shown, k), linewidth=2)
        write(axes, x + 0.16, y, name, SMALL)
        x += 0.26 + _width(name, SMALL)
