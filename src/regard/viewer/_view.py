"""What was looked at, ready to be kept or shown: sides with labels, maps of weights, runs."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._files import replace_file
from regard.errors import RequestError, nearest
from regard.viewer.sides import Side

if TYPE_CHECKING:
    from regard.viewer._live import Live

__all__ = ["WHATS", "Map", "Run", "View"]

Floats = NDArray[np.float32]

WHATS = {
    "weights": "attention weights: where the model looked, not yet why it answered as it did",
    "norms": "weight × size of the value it reads: what could have arrived, not what mattered",
    "rollout": "attention rollout: weights multiplied through the layers, residuals half",
    "gradient": "gradient × weight: how the score would move with each weight",
    "alignment": "a given alignment, not a model's attention",
}
"""What the numbers of a map are, said on every page."""


@dataclass(frozen=True)
class Map:
    """One attention: all heads over the same rows and columns.

    Args:
        name: the module's path.
        rows, columns: which sides of the view.
        shape: heads, rows, columns.
        load: gives one head's weights (R, C) as float32.
        kind: cross, encoder, decoder, self, features, edges, ...; what the views go by.
        layer: counted from 1 within its kind.
        what: a key of `WHATS`.
        heads: names, where they are not numbers (features, hops).
        scope: in which loop it was, as {"hop": 2}.
        extra: (R,) numbers beside the rows, as {"generate": [...]} for pointers.
        links: known pairs of row and column, to compare with.
        tile: gives some rows and columns of one head, where weights are computed again on demand.
        pool: of an overview: how many rows and columns each of its cells stands for. `load` gives
            the cells, of which each is the largest weight inside.
    """

    name: str
    rows: int
    columns: int
    shape: tuple[int, int, int]
    load: Callable[[int], Floats]
    kind: str = "cross"
    layer: int = 1
    what: str = "weights"
    heads: list[str] = field(default_factory=list)
    scope: dict[str, int] = field(default_factory=dict)
    extra: dict[str, list[float]] = field(default_factory=dict)
    links: list[tuple[int, int]] = field(default_factory=list)
    tile: Callable[[int, slice, slice], Floats] | None = None
    pool: tuple[int, int] = (1, 1)

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of what `load` gives."""
        return -(-self.shape[1] // self.pool[0]), -(-self.shape[2] // self.pool[1])

    @property
    def weights(self) -> Floats:
        """Every head: (H, R, C), or the cells of an overview."""
        heads = [self.load(h) for h in range(self.shape[0])]
        return np.stack(heads) if heads else np.zeros((0, *self.cells), np.float32)

    def part(self, head: int, rows: slice, columns: slice) -> Floats:
        """Some rows and columns of one head, exactly.

        Raises:
            RequestError: there is only an overview.
        """
        if self.pool != (1, 1):
            raise RequestError(f"{self.name}: only an overview of its weights was kept")
        if self.tile is not None:
            return self.tile(head, rows, columns)
        return self.load(head)[rows, columns]

    @classmethod
    def of(cls, name: str, rows: int, columns: int, weights: Any, **more: Any) -> "Map":
        """From an array (H, R, C)."""
        array = np.ascontiguousarray(weights, dtype=np.float32)
        shape = (int(array.shape[0]), int(array.shape[1]), int(array.shape[2]))
        return cls(name, rows, columns, shape, array.__getitem__, **more)


@dataclass(frozen=True)
class Run:
    """One input and one output (a hypothesis of a beam), and what was looked at for it.

    Args:
        maps: which maps of the view.
        number, of: the hypothesis, from 1; 0 where there is no beam.
        folder: for the command that shows the same again.
    """

    maps: list[int]
    label: str = ""
    input: str = ""
    output: str = ""
    model: str = ""
    folder: str = ""
    score: float | None = None
    number: int = 0
    of: int = 0


@dataclass(frozen=True)
class View:
    """Everything that one page shows or one `.seen` file holds."""

    sides: list[Side]
    maps: list[Map]
    runs: list[Run]
    title: str = "attention"
    source: str = ""

    def __post_init__(self) -> None:
        for one in self.maps:
            for axis, side, size in (
                ("rows", one.rows, one.shape[1]), ("columns", one.columns, one.shape[2])
            ):  # fmt: skip
                if not 0 <= side < len(self.sides) or len(self.sides[side]) != size:
                    raise RequestError(
                        f"{one.name}: its {size} {axis} have no labels of that number"
                    )
            if one.what not in WHATS:
                raise RequestError(f"no map is of {one.what!r}; {nearest(one.what, WHATS)}")
        if any(not 0 <= m < len(self.maps) for run in self.runs for m in run.maps):
            raise RequestError("a run names a map that is not there")

    def __getitem__(self, name: str) -> Map:
        """The first map of this name (the best hypothesis')."""
        for run in self.runs:
            for m in run.maps:
                if self.maps[m].name == name:
                    return self.maps[m]
        raise RequestError(f"no attention called {name!r}; {nearest(name, self.names)}")

    @property
    def names(self) -> list[str]:
        """The attentions, in order."""
        return list(dict.fromkeys(one.name for one in self.maps))

    def __add__(self, other: "View") -> "View":
        """Both on one page: to compare models, checkpoints or inputs."""
        s, m = len(self.sides), len(self.maps)
        maps = [replace(o, rows=o.rows + s, columns=o.columns + s) for o in other.maps]
        runs = [replace(r, maps=[i + m for i in r.maps]) for r in other.runs]
        return replace(
            self, sides=[*self.sides, *other.sides], maps=[*self.maps, *maps],
            runs=[*self.runs, *runs],
        )  # fmt: skip

    def save(self, path: str | Path, *, code: str | None = None, top_k: int | None = None) -> Path:
        """Write a `.seen` file.

        Args:
            code: "u8" (default) or "f16" (exact where the weights were half precision).
            top_k: keep the largest k of each row, and what share of the row that is.
        """
        from regard.viewer._seen import dump

        target = Path(path)
        content = dump(self, code=code, top_k=top_k)
        replace_file(target, lambda beside: beside.write_bytes(content))
        return target

    def page(self, path: str | Path, *, code: str | None = None, top_k: int | None = None) -> Path:
        """Write one self-contained HTML file that opens anywhere, without a network."""
        from regard.viewer._html import page

        target = Path(path)
        content = page(self, code=code, top_k=top_k)
        replace_file(target, lambda beside: beside.write_bytes(content))
        return target

    def serve(self, port: int = 0, **options: Any) -> "Live":
        """Show the page at an address of this machine alone, with exact tiles as they are wanted.

        Args:
            port: 0 takes one that is free.
            options: those of `save`.
        """
        from regard.viewer._live import Live

        return Live(self, port, **options)

    def figure(self, path: str | Path | None = None, **options: Any) -> Any:
        """Draw one view as a figure for a paper; options are those of `viewer.drawing.figure`.

        Example:
            view.figure("lines.pdf", show="lines", head=[2, 5], width="column")
        """
        from regard.viewer.drawing import figure

        return figure(self, path, **options)

    def html(self, **options: Any) -> str:
        """The page as text."""
        from regard.viewer._html import page

        return page(self, **options).decode()

    def _repr_html_(self) -> str:
        """For notebooks: the same page in a frame."""
        inside = html.escape(self.html(), quote=True)
        style = "width:100%;height:640px;border:1px solid #8884;border-radius:6px"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{inside}"></iframe>'

    def __repr__(self) -> str:
        heads = sum(one.shape[0] for one in self.maps)
        counts = f"{len(self.runs)} run(s), {len(self.maps)} map(s), {heads} head(s)"
        return f"View({self.title!r}: {counts})"

    def __len__(self) -> int:
        return len(self.maps)


def only_maps(view: View, keep: Sequence[int]) -> View:
    """A view of some of the maps."""
    place = {m: i for i, m in enumerate(keep)}
    runs = [replace(r, maps=[place[m] for m in r.maps if m in place]) for r in view.runs]
    return replace(view, maps=[view.maps[m] for m in keep], runs=runs)
