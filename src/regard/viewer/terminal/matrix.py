"""The alignment picture in a terminal: a shaded cell for every weight, words on both axes.

Das
│  Fenster
│  │  schließt
│  │  │
██ ░░          The
░░ ██          window
      ██       closes

Where the words do not fit side by side, a cell is half a character high (`▀`: its colour the upper
row's, its ground the lower's), two rows share a line and the columns' words run downwards.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from regard.viewer.labels import visible
from regard.viewer.palette import ink_on, shade, top_of
from regard.views.numbers import in_cell

if TYPE_CHECKING:
    from regard.views.picture import Picture

__all__ = ["SHADES", "clean", "draw", "mark", "shading"]

SHADES = " ░▒▓█"
"""What stands for a weight where there is no colour; at equal steps, as the colours are."""
TALLEST = 14
"""Letters of a word that runs downwards; longer ones are cut."""


def draw(
    picture: "Picture",
    *,
    width: int = 100,
    colour: bool = True,
    values: bool = False,
    title: str | None = None,
    label: int = 0,
    head: bool = True,
) -> Text:
    """Lay a picture out as lines of text that a `rich` console prints.

    Args:
        picture: `rows`, `columns` and `weights` (rows, columns).
        width: of the terminal in characters; columns that do not fit two characters each are drawn
            in half-blocks (in colour, without `values`); what then does not fit continues below.
        colour: background colours; else `SHADES`.
        values: write the weights into the cells, with two decimals.
        title: a first line.
        label: at least so wide are the rows' words.
        head: the columns' words above, where the columns fit.
    """
    rows = [clean(word) for word in picture.rows]
    columns = [clean(word) for word in picture.columns]
    weights = picture.weights.tolist()
    top = top_of([max(map(abs, row), default=0.0) for row in weights])
    widest = max((cell_len(word) for word in rows), default=0)
    label = min(max(widest, label), max(width // 3, 4))
    half = colour and not values and len(columns) * 2 + label + 2 > width
    if half:
        pairs = [" ".join(rows[i : i + 2]) for i in range(0, len(rows), 2)]
        label = min(max((cell_len(both) for both in pairs), default=0), max(width // 3, 4))
        cell = max((cell_len(letter) for word in columns for letter in word), default=1)
    else:
        cell = 3 if len(columns) * 3 + label < width else 2
        if values:
            cell = 1 + max((len(in_cell(w)) for row in weights for w in row), default=2)
    fit = max((width - label - 2) // cell, 1)
    blocks = max(-(-len(columns) // fit), 1)
    fit = max(-(-len(columns) // blocks), 1)  # blocks of even width
    head = head or half or blocks > 1
    lines: list[Text] = [Text(title)] if title else []
    for start in range(0, max(len(columns), 1), fit):
        if lines and head:
            lines.append(Text())
        here = slice(start, start + fit)
        if half:
            lines += _downwards(columns[here], cell, label)
            for i, both in enumerate(pairs):
                upper, *lower = (row[here] for row in weights[2 * i : 2 * i + 2])
                lines.append(
                    Text(_right(both, label) + "  ").append_text(
                        _halves(upper, lower[0] if lower else None, cell, top)
                    )
                )
            continue
        lines += _header(columns[here], cell, label, width) if head else []
        for word, row in zip(rows, weights, strict=True):
            lines.append(
                Text(_right(word, label) + "  ").append_text(
                    _cells(row[here], cell, top, colour=colour, values=values)
                )
            )
    if not colour and not values and any(min(row, default=0.0) < 0 for row in weights):
        lines.append(Text(f"{'':{label}}  - : below zero", style="dim"))
    if top < 1:
        lines.append(Text(f"{'':{label}}  darkest = {top:g}", style="dim"))
    return Text("\n").join(lines)


def shading(weight: float, top: float) -> Style:
    """The colours of a weight: its shade behind, ink that can be read on it before."""
    return Style(color=ink_on(weight, top), bgcolor=_rgb(weight, top))


def mark(weight: float, top: float) -> str:
    """The block that stands for the size of a weight where there are no colours."""
    return SHADES[min(round(abs(weight) / top * (len(SHADES) - 1)), len(SHADES) - 1)]


def _header(words: Sequence[str], cell: int, label: int, width: int) -> list[Text]:
    """A line for each column's word, above lines that lead down to its cells."""
    lines = []
    for i, word in enumerate(words):
        before = "".join("│" + " " * (cell - 1) for _ in range(i))
        room = max(width - label - 2 - i * cell, 1)
        lines.append(
            Text(f"{'':{label}}  {before}", style="dim").append(_cut(word, room), "not dim")
        )
    return lines


def _cells(row: Sequence[float], cell: int, top: float, *, colour: bool, values: bool) -> Text:
    line = Text()
    for weight in row:
        number = in_cell(weight) if values else ""
        if colour:
            line.append(number.rjust(cell - 1).ljust(cell), shading(weight, top))
        elif values:
            line.append(number.rjust(cell - 1).ljust(cell))
        else:
            block = mark(weight, top)
            less = weight < 0 and block.strip()
            line.append((f"-{block}" if less else block * 2).ljust(cell))
    if not colour:
        line.rstrip()
    return line


def _downwards(words: Sequence[str], cell: int, label: int) -> list[Text]:
    """The columns' words, a letter a line, each ending above its cells."""
    letters = [_letters(word) for word in words]
    high = min(max(map(len, letters), default=0), TALLEST)
    down = [one if len(one) <= high else [*one[: high - 1], "⋮"] for one in letters]
    lines = []
    for i in range(high):
        line = (one[i - high + len(one)] if i >= high - len(one) else "" for one in down)
        across = "".join(letter + " " * (cell - cell_len(letter)) for letter in line)
        lines.append(Text(f"{'':{label}}  {across.rstrip()}"))
    return lines


def _letters(word: str) -> list[str]:
    """Letters with the marks that stand on them."""
    found: list[str] = []
    for letter in word:
        if found and not cell_len(letter):
            found[-1] += letter
        else:
            found.append(letter)
    return found


def _halves(upper: Sequence[float], lower: Sequence[float] | None, cell: int, top: float) -> Text:
    """Two rows in one line."""
    line = Text()
    for i, weight in enumerate(upper):
        ground = None if lower is None else _rgb(lower[i], top)
        line.append("▀" * cell, Style(color=_rgb(weight, top), bgcolor=ground))
    return line


def _rgb(weight: float, top: float) -> str:
    red, green, blue = shade(weight, top)
    return f"rgb({red},{green},{blue})"


def clean(word: str) -> str:
    """A word as a terminal can show it: without control characters, which could move the cursor."""
    return visible(word)


def _cut(word: str, room: int) -> str:
    return word if cell_len(word) <= room else set_cell_size(word, max(room - 1, 0)) + "…"


def _right(word: str, room: int) -> str:
    word = _cut(word, room)
    return " " * (room - cell_len(word)) + word
