"""A view that can be drawn: as a page, a `.seen` file, a figure, a text for the terminal."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError
from regard.system.files import replace_file
from regard.views import View

if TYPE_CHECKING:
    from rich.text import Text

    from regard.viewer.page.live import Live

__all__ = ["DrawableView", "drawable"]

PAGES = (".html", ".htm")
FIGURES = (".png", ".pdf", ".svg")


@dataclass(frozen=True, repr=False)
class DrawableView(View):
    """A `View` with the surfaces that draw it: page, file, figure, terminal."""

    def save(
        self,
        path: str | Path,
        *,
        code: str | None = None,
        top_k: int | None = None,
        precision: int = 200,
    ) -> Path:
        """Write a `.seen` file.

        Args:
            code: "u8" (default) or "f16" (exact where the weights were half precision).
            top_k: keep the largest k of each row, and what share of the row that is.
            precision: of heads of more than 2^15 weights, keep n steps of each row's largest
                weight s, off by at most s / 2n: 8 to 64, or 200. The file says by how much it is
                off.

        Raises:
            RequestError: the file's ending is that of a page or a figure.
        """
        from regard.viewer.seen_file.file import dump

        target = _ending(path, (".seen",), ".save")
        content = dump(self, code=code, top_k=top_k, precision=precision)
        replace_file(target, lambda beside: beside.write_bytes(content))
        return target

    def page(
        self,
        path: str | Path,
        *,
        code: str | None = None,
        top_k: int | None = None,
        precision: int = 25,
        state: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write one self-contained HTML file that opens anywhere, without a network.

        Args:
            code, top_k, precision: as in `save`; of large heads a page keeps less.
            state: what it opens with, as `viewer.page.opening.opening` makes it.

        Raises:
            RequestError: the file's ending is neither .html nor .htm.
        """
        from regard.viewer.page.html import page

        target = _ending(path, PAGES, ".page")
        content = page(self, code=code, top_k=top_k, precision=precision, state=state)
        replace_file(target, lambda beside: beside.write_bytes(content))
        return target

    def serve(self, port: int = 0, **options: Any) -> "Live":
        """Show the page at an address of this machine alone, with exact tiles as they are wanted.

        Args:
            port: 0 takes one that is free.
            options: those of `save`, and `state` as of `page`.
        """
        from regard.viewer.page.live import Live

        return Live(self, port, **options)

    def figure(self, path: str | Path | None = None, **options: Any) -> Any:
        """Draw one view as a figure for a paper; options are those of `viewer.drawing.figure`.

        Example:
            view.figure("lines.pdf", show="lines", head=[2, 5], width="column")
        """
        from regard.viewer.drawing import figure

        return figure(self, path, **options)

    def text(self, run: int = 0, **options: Any) -> "Text":
        """A run's panels for the terminal; options are those of `viewer.rendering.render`.

        Of a run that comes with none, the picture that fits its last layer.
        """
        from regard.viewer.rendering import render
        from regard.viewer.selection import choose

        if options.get("panels") is None:
            options["panels"] = choose(self, run)
        return render(self, self.runs[run], **options)

    def html(self, **options: Any) -> str:
        """The page as text."""
        from regard.viewer.page.html import page

        return page(self, **options).decode()

    def _repr_html_(self) -> str:
        """For notebooks: the same page in a frame."""
        from regard.viewer.page.frame import framed

        return framed(self.html())


def _ending(path: str | Path, known: tuple[str, ...], method: str) -> Path:
    """The path, unless its ending is that of a file that another method writes."""
    target = Path(path)
    ending = target.suffix.lower()
    others = {
        ".seen": ".save",
        **dict.fromkeys(PAGES, ".page"),
        **dict.fromkeys(FIGURES, ".figure"),
    }
    if ending in known or ending not in others:
        return target
    raise RequestError(
        f"{target}: {method} writes {' or '.join(known)}; expected {others[ending]}({str(path)!r})"
    )


def drawable(view: View) -> DrawableView:
    """The same view, as one that can be drawn: what a task gives is values alone."""
    if isinstance(view, DrawableView):
        return view
    return DrawableView(view.axes, view.maps, view.runs, view.title, view.source)
