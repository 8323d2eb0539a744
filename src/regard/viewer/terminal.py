"""The alignment picture in a terminal: a shaded cell for every weight, words on both axes.

Das
│  Fenster
│  │  schließt
│  │  │
██ ░░          The
░░ ██          window
      ██       closes
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from regard.viewer.palette import ink_on, shade, top_of

if TYPE_CHECKING:
    from regard.tasks import Prediction
    from regard.viewer.picture import Picture

__all__ = ["SHADES", "draw", "listed", "mark", "ranked", "shading"]

SHADES = " ░▒▓█"
"""What stands for a weight where there is no colour; at equal steps, as the colours are."""


def draw(
    picture: "Picture",
    *,
    width: int = 100,
    colour: bool = True,
    values: bool = False,
    title: str | None = None,
) -> Text:
    """Lay a picture out as lines of text that a `rich` console prints.

    Args:
        picture: `rows`, `columns` and `weights` (rows, columns).
        width: of the terminal in characters; columns that do not fit continue below.
        colour: background colours; else `SHADES`.
        values: weights in hundredths inside the cells.
        title: a first line.
    """
    rows = [_clean(word) for word in picture.rows]
    columns = [_clean(word) for word in picture.columns]
    weights = picture.weights.tolist()
    top = top_of([max(row, default=0.0) for row in weights])
    label = min(max((cell_len(word) for word in rows), default=0), max(width // 3, 4))
    cell = 3 if values or len(columns) * 3 + label < width else 2
    fit = max((width - label - 2) // cell, 1)
    blocks = max(-(-len(columns) // fit), 1)
    fit = max(-(-len(columns) // blocks), 1)  # blocks of even width
    lines: list[Text] = [Text(title)] if title else []
    for start in range(0, max(len(columns), 1), fit):
        if lines:
            lines.append(Text())
        lines += _header(columns[start : start + fit], cell, label, width)
        for word, row in zip(rows, weights, strict=True):
            lines.append(Text(_right(word, label) + "  ").append_text(
                _cells(row[start : start + fit], cell, top, colour=colour, values=values)
            ))  # fmt: skip
    if top < 1:
        lines.append(Text(f"{'':{label}}  darkest = {top:g}", style="dim"))
    return Text("\n").join(lines)


def shading(weight: float, top: float) -> Style:
    """The colours of a weight: its shade behind, ink that can be read on it before."""
    red, green, blue = shade(weight, top)
    return Style(color=ink_on(weight, top), bgcolor=f"rgb({red},{green},{blue})")


def mark(weight: float, top: float) -> str:
    """The block that stands for a weight where there are no colours."""
    return SHADES[min(round(weight / top * (len(SHADES) - 1)), len(SHADES) - 1)]


def ranked(best: "Prediction") -> list[tuple[str, float]]:
    """An answer and the next ones, each with its probability; 0 where it has no score."""
    every = [best, *best.alternatives]
    return [(p.output, 0.0 if p.score is None else math.exp(p.score)) for p in every]


def listed(answers: Sequence[tuple[str, float]]) -> str:
    """A line for each answer: its probability, and what it is."""
    return "".join(f"{probability:6.3f}  {answer}\n" for answer, probability in answers)


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
        number = f"{min(round(weight * 100), 99):2d}" if values and weight >= 0.005 else "  "
        if colour:
            line.append(number.ljust(cell), shading(weight, top))
        else:
            line.append((number if values else mark(weight, top) * 2).ljust(cell))
    if not colour:
        line.rstrip()
    return line


def _clean(word: str) -> str:
    """A word without control characters, which could move the cursor."""
    return "".join(c if c.isprintable() else "�" for c in word)


def _cut(word: str, room: int) -> str:
    return word if cell_len(word) <= room else set_cell_size(word, max(room - 1, 0)) + "…"


def _right(word: str, room: int) -> str:
    word = _cut(word, room)
    return " " * (room - cell_len(word)) + word
