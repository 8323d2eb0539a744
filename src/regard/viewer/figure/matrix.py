"""Alignment pictures for papers: PNG, PDF and SVG with words on the axes, drawn by matplotlib.

Everything is measured in inches and the size follows from the words, so a picture made `COLUMN`
wide is exactly as wide as a column of a paper, whatever is in it.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError, nearest
from regard.system.extras import install
from regard.system.files import replace_file
from regard.viewer.figure.sheet import Page, Subplot, style
from regard.viewer.labels import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.views.picture import Picture

__all__ = [
    "COLUMN",
    "FORMATS",
    "PAGE",
    "WIDTHS",
    "Subplot",
    "alignment",
    "check_format",
    "check_width",
    "grid",
]

log = logging.getLogger(__name__)

COLUMN, PAGE = 3.35, 6.9
"""Inches: one column and the whole width of a two-column paper."""

WIDTHS = {"column": COLUMN, "page": PAGE}
WIDEST = 100
"""Inches: a figure may be so wide; at 300 dots per inch a PNG has 30,000 columns then."""
FORMATS = (".pdf", ".png", ".svg")


def alignment(
    picture: "Picture",
    path: str | Path | None = None,
    *,
    title: str | None = None,
    width: float | str | None = None,
    values: bool = False,
    bar: bool = True,
    mark: int | None = None,
) -> "Figure":
    """Draw which column words each row word looks at.

    Args:
        picture: `rows`, `columns` and `weights` (rows, columns).
        path: also write it there; the format follows from the ending.
        title: model, layer, head, hypothesis and score, in small letters above.
        width: in inches, or "column" (3.35) or "page" (6.9); as wide as the words need where None.
        values: print the weights into the cells.
        bar: draw the colour bar.
        mark: frame this row (counted from 0).

    Raises:
        RequestError: a format that is not had, or `matplotlib` is not installed.
    """
    panel = Subplot("", picture)
    return _draw([[panel]], path, title, width, values=values, bar=bar, mark=mark)


def grid(
    panels: Sequence[Subplot],
    path: str | Path | None = None,
    *,
    across: int | None = None,
    title: str | None = None,
    width: float | str | None = None,
    bar: bool = True,
) -> "Figure":
    """Draw several pictures of the same words side by side: heads of a layer, or layers and heads.

    Args:
        panels: in reading order.
        across: how many in a row; about as wide as high where None.
        path: also write it there.
        title: in small letters above all.
        width: in inches, or "column" or "page"; at most a page where None.
        bar: draw the colour bar.
    """
    if not panels:
        raise RequestError("a grid of pictures expects at least one panel, got none")
    across = across or _across(len(panels))
    rows = [list(panels[i : i + across]) for i in range(0, len(panels), across)]
    return _draw(rows, path, title, width, values=False, bar=bar, mark=None)


def check_format(path: str | Path) -> None:
    """Refuse a file whose ending is no format of pictures, before anything is computed.

    Raises:
        RequestError: with the formats there are.
    """
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        known = ", ".join(FORMATS)
        hint = f"; {nearest(ending, FORMATS)}" if ending else ""
        raise RequestError(f"{path}: pictures are written as {known}{hint}")


def _across(count: int) -> int:
    if count > 4 and count % 4 == 0:
        return 4
    return next((n for n in (1, 2, 3) if n * n >= count), 4)


def _draw(
    rows: list[list[Subplot]],
    path: str | Path | None,
    title: str | None,
    width: float | str | None,
    *,
    values: bool,
    bar: bool,
    mark: int | None,
) -> "Figure":
    if path is not None:
        check_format(path)
    rows = [[_visible(panel) for panel in row] for row in rows]
    title = None if title is None else visible(title)
    with _quiet(), _matplotlib().rc_context(style()):
        figure = Page(rows, title, _inches(width), bar=bar).draw(values=values, mark=mark)
        if path is not None:
            _save(figure, Path(path))
    return figure


def _visible(panel: Subplot) -> Subplot:
    """The panel with a sign for each character that has no glyph."""
    own = panel.picture
    rows, columns = ([visible(word) for word in words] for words in (own.rows, own.columns))
    return Subplot(visible(panel.title), replace(own, rows=rows, columns=columns))


def check_width(width: float | str | None) -> None:
    """Refuse a width that no figure can have, before anything is computed.

    Raises:
        RequestError: neither a name of `WIDTHS` nor 1 to `WIDEST` inches.
    """
    if isinstance(width, str):
        if width not in WIDTHS:
            raise RequestError(f"width: inches, or {' or '.join(WIDTHS)}; got {width!r}")
    elif width is not None and not 1 <= width <= WIDEST:  # also not a number
        raise RequestError(f"width: expected 1 to {WIDEST} inches, got {width}")


def _inches(width: float | str | None) -> float | None:
    check_width(width)
    return WIDTHS[width] if isinstance(width, str) else width


def _save(figure: "Figure", path: Path) -> None:
    metadata = {".pdf": {"CreationDate": None, "Creator": "regard"}, ".svg": {"Date": None}}
    form, about = path.suffix[1:].lower(), metadata.get(path.suffix.lower())
    replace_file(path, lambda beside: figure.savefig(beside, format=form, metadata=about))


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise RequestError(
            f"pictures need matplotlib: {install('view')} (the terminal picture does not)"
        ) from error
    return matplotlib


@contextmanager
def _quiet() -> Iterator[None]:
    """Say once, not per glyph, that no font has some letters; they are drawn as boxes.

    Nor does matplotlib say which weight of a font it took in place of the regular one.
    """
    missing: list[str] = []
    fonts = logging.getLogger("matplotlib.font_manager")
    before = fonts.level
    fonts.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
            missing = [str(w.message) for w in caught if "missing from" in str(w.message)]
    finally:
        fonts.setLevel(before)
        if missing:
            style.cache_clear()  # fonts are looked for again
            log.warning(
                "no installed font has some of the letters (%d); a Noto font for their script, "
                "once installed, is used by itself",
                len(set(missing)),
            )
