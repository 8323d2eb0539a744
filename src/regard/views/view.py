"""What was looked at, ready to be kept or shown: axes with labels, maps of weights, runs.

Plain values: what draws them is on a higher floor (`regard.viewer`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError, nearest
from regard.views.axis import Axis
from regard.views.panel import MapPanel, Panel

__all__ = ["WHATS", "Map", "Run", "View"]

Floats = NDArray[np.float32]

WHATS = {
    "weights": "attention weights: where the model looked, not yet why it answered as it did",
    "norms": "weight × size of the value it reads: what could have arrived, not what mattered",
    "rollout": "attention rollout: weights multiplied through the layers, residuals half",
    "gradient": "gradient × weight: how the score would move with each weight",
    "relevance": "gradient × state: how much each word moved the score, by layer, without its sign",
    "pooled": "the share of the pooled features that each word gave by its maximum; not attention",
    "alignment": "a given alignment, not a model's attention",
}
"""What the numbers of a map are, said on every page."""


@dataclass(frozen=True)
class Map:
    """One attention: all heads over the same rows and columns.

    Args:
        name: the module's path.
        rows, columns: which axes of the view.
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
        target: what was asked to be looked at; "" where the output is the model's own.
        folder: for the command that shows the same again.
        title: of its pictures, where the output is not enough.
        panels: what is shown of it where nothing else is asked for; the first map's kind is what a
            page opens with.
        result: plain values for `--json`, where the task has more to say than weights.
        step: of a training, at which it was; None where nothing was trained.
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
    title: str = ""
    panels: list[Panel] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    step: int | None = None
    target: str = ""


@dataclass(frozen=True)
class View:
    """Everything that one page shows or one `.seen` file holds."""

    axes: list[Axis]
    maps: list[Map]
    runs: list[Run]
    title: str = "attention"
    source: str = ""

    def __post_init__(self) -> None:
        for one in self.maps:
            for axis, side, size in (
                ("rows", one.rows, one.shape[1]),
                ("columns", one.columns, one.shape[2]),
            ):
                if not 0 <= side < len(self.axes) or len(self.axes[side]) != size:
                    raise RequestError(
                        f"{one.name}: its {size} {axis} have no labels of that number"
                    )
            if one.what not in WHATS:
                raise RequestError(f"no map is of {one.what!r}; {nearest(one.what, WHATS)}")
        if any(not 0 <= m < len(self.maps) for run in self.runs for m in run.maps):
            raise RequestError("a run names a map that is not there")
        for run in self.runs:
            for panel in run.panels:
                if not isinstance(panel, MapPanel):
                    continue
                if panel.map not in run.maps:
                    raise RequestError(f"a panel shows map {panel.map}, which its run has not")
                if panel.other is not None and not 0 <= panel.other[0] < len(self.maps):
                    raise RequestError(f"a panel shows map {panel.other[0]}, which is not there")

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

    def __add__(self, other: "View") -> Any:
        """Both on one page: to compare models, checkpoints or inputs."""
        s, m = len(self.axes), len(self.maps)
        maps = [replace(o, rows=o.rows + s, columns=o.columns + s) for o in other.maps]
        runs = [_moved(r, {i: i + m for i in r.maps}) for r in other.runs]
        return replace(
            self, axes=[*self.axes, *other.axes], maps=[*self.maps, *maps], runs=[*self.runs, *runs]
        )

    def __repr__(self) -> str:
        heads = sum(one.shape[0] for one in self.maps)
        counts = f"{len(self.runs)} run(s), {len(self.maps)} map(s), {heads} head(s)"
        return f"{type(self).__name__}({self.title!r}: {counts})"

    def __len__(self) -> int:
        return len(self.maps)


def _moved(run: Run, place: dict[int, int]) -> Run:
    """A run whose maps are elsewhere; those that have no place are left out."""
    panels: list[Panel] = []
    for panel in run.panels:
        if not isinstance(panel, MapPanel):
            panels.append(panel)
        elif panel.map in place:
            other = panel.other
            if other is not None and other[0] in place:
                other = (place[other[0]], other[1])
            panels.append(replace(panel, map=place[panel.map], other=other))
    return replace(run, maps=[place[m] for m in run.maps if m in place], panels=panels)
