"""Views of what was seen."""

import html
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention import Record, Seen
from regard.attention.lazy_weights import LazyWeights
from regard.errors import RequestError
from regard.viewer._drawable import DrawableView
from regard.views import Axis, Map, MapPanel, Panel, Run, TablePanel, axis_of
from regard.watching.measures import rolled
from regard.watching.readers.axes import part
from regard.watching.readers.graphs import EdgeWeights, edge_map, node_axes

if TYPE_CHECKING:
    from regard.watching.following import Following

__all__ = ["Floats", "Watched", "of_seen", "rollout"]


Floats = NDArray[np.float32]


class Watched(Seen):
    """What was looked at, with pages and files of it."""

    what = "weights"
    """What its records hold: a key of `regard.views.WHATS`."""

    def rollout(self) -> "Watched":
        """Attention rollout: where each layer's positions come from, through all layers below.

        Ã_l = (½ mean_h A_l + ½ I) Ã_{l-1}, Ã_0 = I, for the stack of each role, in the order in
        which layers ran; (example, head, query, key) with one head. Attention that looks at
        something else (cross) is left out.

        Raises:
            RequestError: nothing looks at itself, a stack's layers differ in length, or they were
                called several times (as `generate` with a cache does).

        Source: Abnar and Zuidema 2020, section 3.
        """
        return rollout(self)

    def backward(self, score: torch.Tensor) -> "Watched":
        """With `watch(..., measure="gradient")`: weights times the gradient of a score by them.

        Args:
            score: one number that the watched run led to, as a log-probability.

        Raises:
            RequestError: watched without that measure, not one number, or run without gradients.
        """
        raise RequestError('expected watch(..., measure="gradient"), got one of ' + self.what)

    def view(self, *, row: int = 0, title: str = "") -> DrawableView:
        """All that was seen of one example of the batch."""
        return of_seen(self, title=title, row=row)

    def save(self, path: str | Path, *, row: int = 0, **options: Any) -> Path:
        """Write a `.seen` file; options are those of `DrawableView.save`."""
        return self.view(row=row).save(path, **options)

    def page(self, path: str | Path, *, row: int = 0, title: str = "", **options: Any) -> Path:
        """Write one HTML file that opens anywhere."""
        return self.view(row=row, title=title).page(path, **options)

    def _repr_html_(self) -> str:
        try:
            return self.view()._repr_html_()
        except RequestError as error:
            return f"<p>{html.escape(str(error))}</p>"

    @contextmanager
    def follow(self, tokenizer: Any = None, every: float = 0.5) -> Iterator["Following"]:
        """In a notebook: a display that says, while the model runs, what its newest row looks at.

        Args:
            tokenizer: of the tokens that it is given as a streamer of `generate`.
            every: seconds between two displays.

        Raises:
            RequestError: IPython is not installed.

        Example:
            `with regard.watch(model) as seen, seen.follow(tokenizer) as live:
            model.generate(ids, streamer=live)`
        """
        from regard.watching.following import Following

        self._follower = Following(self, tokenizer, every)
        try:
            yield self._follower
        finally:
            self._follower.show()
            self._follower = None

    _follower: "Following | None" = None

    def _step(self, record: Record, step: Any) -> None:
        super()._step(record, step)
        if self._follower is not None:
            self._follower.met(record)


def of_seen(
    seen: Seen, *, title: str = "", row: int = 0, rows: Any = None, columns: Any = None
) -> DrawableView:
    """One example of everything a recorder saw, with the labels it was told.

    A map's kind is the role that its attention declares; one that declares none goes by its name.

    Args:
        rows, columns: labels for all of it, in place of those that the recorder was told.

    Raises:
        RequestError: nothing was seen, or labels of another number.
    """
    sides = _Sides(row)
    maps: list[Map] = []
    layers: dict[str, int] = {}
    unseen = dict(seen.unseen)
    refused: RequestError | None = None
    for name, record in seen.items():
        known = seen.labels(name)
        first = known[0] if rows is None else rows
        second = known[1] if columns is None else columns
        layers[record.role] = layers.get(record.role, 0) + 1
        try:
            if "edge" in record.axes:
                maps += _edge_maps(record, sides, first, second, row, layers[record.role])
                continue
            parts, left_out = _by_scope(record, row)
        except RequestError as error:  # one that cannot be shown leaves the others
            parts, left_out = [], error
        if left_out is not None:
            refused = refused or left_out
            unseen[name] = str(left_out).removeprefix(f"{record.title}: ")
        written = any(axes.run is not None for axes in record.meaning)
        for turn, (scope, weights) in enumerate(parts, 1):
            _, r, c = weights.shape
            given = second if second is not None else first if r == c else None
            tiled = isinstance(weights, _TiledWeights)
            maps.append(
                Map(
                    name,
                    sides.of(first if first is not None or r != c else given, r, written),
                    sides.of(given, c, written and record.role != "cross"),
                    weights.shape,
                    weights.load if tiled else weights.__getitem__,
                    kind="features" if record.features else record.role or name or "attention",
                    what=getattr(seen, "what", "weights"),
                    layer=turn if len(parts) > 1 else layers[record.role] if record.role else 0,
                    scope=scope,
                    tile=weights.tile if tiled else None,
                )
            )
    if not maps:
        if refused is not None:
            raise refused
        raise RequestError("nothing was seen: no watched attention ran inside the block")
    run = Run(list(range(len(maps))), panels=_unseen_panels(unseen))
    return DrawableView(sides.axes, maps, [run], title or "attention")


def _unseen_panels(unseen: Mapping[str, str]) -> list[Panel]:
    """Beside the maps, a table of what is not among them."""
    if not unseen:
        return []
    cells = tuple((path or "the model", why) for path, why in unseen.items())
    table = TablePanel("table", "not seen", columns=("module", "why"), cells=cells)
    return [MapPanel("matrix"), table]


class _Sides:
    """The axes of a view, each made once of the labels that were given."""

    def __init__(self, row: int) -> None:
        self.axes: list[Axis] = []
        self._row = row
        self._known: dict[Any, int] = {}

    def of(self, given: Any, count: int, written: bool = False) -> int:
        """The place of an axis with this many labels.

        Args:
            written: by `generate`, whose last tokens were never read: their labels may be there.
        """
        key = (id(given), count)
        if key not in self._known:
            if written and given is not None:
                named = axis_of(given, row=self._row)
                if len(named) > count:
                    given = part(named, 0, count)
            self._known[key] = self.add(axis_of(given, count, row=self._row))
        return self._known[key]

    def nodes(self, layer: EdgeWeights, rows: Any, columns: Any) -> tuple[int, int]:
        """The places of the axes of nodes; layers over the same edges have the same."""
        first, second = node_axes([layer], rows, columns if layer.keys is not None else None)
        at = self._once(first)
        if second is None:
            return at, at
        return at, self.add(second) if second == first else self._once(second)

    def _once(self, axis: Axis) -> int:
        return self.axes.index(axis) if axis in self.axes else self.add(axis)

    def add(self, axis: Axis) -> int:
        """Its place, at the end."""
        self.axes.append(axis)
        return len(self.axes) - 1


def _edge_maps(
    record: Record, sides: _Sides, rows: Any, columns: Any, row: int, layer: int
) -> list[Map]:
    """A map of each call over a graph: nodes look at their neighbors."""
    made = []
    calls = zip(record.steps, record.edges, record.sources, strict=True)
    for turn, (weights, edges, sources) in enumerate(calls, 1):
        shape = dict(zip(record.axes, weights.shape, strict=True))
        if set(shape) - {"example", "head", "edge"} or row >= shape.get("example", row + 1):
            named = ", ".join(f"{axis} {size}" for axis, size in shape.items())
            raise RequestError(f"{record.title}: there is no row {row}, got weights ({named})")
        one = weights[row] if "example" in shape else weights
        one = (one if record.heads else one[None]).float().cpu()
        own = EdgeWeights(
            edges.targets.cpu(),
            edges.sources.cpu(),
            one.numpy(),
            nodes=edges.queries,
            keys=sources or None,
        )
        places = sides.nodes(own, rows, columns)
        counts = len(sides.axes[places[0]]), len(sides.axes[places[1]])
        several = len(record.kept) > 1
        made.append(
            edge_map(
                record.name or "edges",
                places,
                counts,
                own,
                layer=turn if several else layer,
                scope={"call": turn} if several else {},
            )
        )
    return made


@dataclass(frozen=True)
class _TiledWeights:
    """One row of the batch of an attention whose weights are computed again on demand."""

    again: LazyWeights
    places: list[tuple[int, ...]]

    @classmethod
    def of(cls, again: LazyWeights, row: int) -> "_TiledWeights":
        """Whatever axes are behind the batch's are heads.

        Raises:
            RequestError: there is no such row.
        """
        batch = tuple(again.shape[:-2])
        if batch and not 0 <= row < batch[0]:
            raise RequestError(f"there is no row {row} in a batch of {batch[0]}")
        return cls(again, [(row, *rest)[: len(batch)] for rest in np.ndindex(*batch[1:])])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Heads, rows, columns."""
        return len(self.places), int(self.again.shape[-2]), int(self.again.shape[-1])

    def load(self, head: int) -> Floats:
        """All of one head."""
        return self.tile(head, slice(0, self.shape[1]), slice(0, self.shape[2]))

    def tile(self, head: int, rows: slice, columns: slice) -> Floats:
        """Some of it."""
        return self.again.tile(self.places[head], rows, columns).float().cpu().numpy()


def _by_scope(
    record: Record, row: int
) -> tuple[list[tuple[dict[str, int], Any]], RequestError | None]:
    """Weights (H, Q, K) for each turn of each loop that is not a step, and why one is left out.

    Raises:
        RequestError: there is no such row, or what the axes mean is not known, in any turn.
    """
    order: list[dict[str, int]] = []
    for scope in record.scopes:
        if scope not in order:
            order.append(scope)
    found: list[tuple[dict[str, int], Any]] = []
    refused: RequestError | None = None
    for scope in order:
        try:
            found.append((scope, _weights(record.within(scope), row)))
        except RequestError as error:
            refused = refused or error
    if refused is not None and not found:
        raise refused
    return found, refused


def _weights(record: Record, row: int) -> Any:
    """Weights (H, Q, K) of one turn."""
    if record.meaning:
        record.check_row()
    if record.meaning and record.meaning[0].run is not None:
        return np.ascontiguousarray(record.of(row).float().cpu())
    if len(record.kept) == 1 and isinstance(record.kept[0], LazyWeights):
        return _TiledWeights.of(record.kept[0], row)
    shape = dict(zip(record.axes, record.kept[0].shape, strict=True))
    named = ", ".join(f"{axis} {size}" for axis, size in shape.items())
    if set(record.axes) - {"example", "head", "query", "key", "feature"}:
        raise RequestError(
            f"{record.title}: rows of a beam are shown through `regard look` or `along`; "
            f"one batch axis, the example, was expected, got weights ({named})"
        )
    if "example" not in shape or not 0 <= row < shape["example"]:
        raise RequestError(f"{record.title}: there is no row {row}, got weights ({named})")
    weights = np.ascontiguousarray(record.of(row).float().cpu())
    if record.features:  # (H, Q, K, D): each feature is a head of its own
        weights = np.moveaxis(weights, 3, 1).reshape(-1, *weights.shape[1:3])
    return weights


class _Rollout(Watched):
    what = "rollout"


def rollout(seen: Watched) -> Watched:
    """`Watched.rollout`."""
    stacks: dict[str, list[Record]] = {}
    for record in seen.values():
        own = "edge" not in record.axes and not record.features and record.role != "cross"
        for axes in record.meaning if own else ():
            if axes.batch != ("example",):
                raise RequestError(f"rollout: {record.title}: {axes.reason or 'it has more axes'}")
            if axes.part > 1:
                raise RequestError(
                    f"rollout: {record.title} attended several times in one call, as a loop over "
                    "heads does, and these are no layers"
                )
        if own and all(s[-1] == s[-2] for s in (step.shape for step in record.kept)):
            stacks.setdefault(record.role, []).append(record)
    if not stacks:
        raise RequestError("rollout: nothing that looks at itself was seen, with all its rows")
    made = _Rollout(None, None)
    made._labels = list(seen._labels)
    for role, records in stacks.items():
        steps = [step for record in records for step in record.steps]
        names = [record.name for record in records for _ in record.steps]
        shapes = {(step.shape[0], step.shape[-1]) for step in steps}
        if len(shapes) > 1:
            raise RequestError(
                f"rollout: layers of {role or 'the model'} differ in examples or length: "
                + ", ".join(f"{n} × {t}" for n, t in sorted(shapes))
            )
        if len(records) > 1 and len(steps) > len(records):
            raise RequestError(
                "rollout: a layer was called several times; watch one call of the model"
            )
        examples = [
            rolled({str(n): _headed(step[e]) for n, step in enumerate(steps)})
            for e in range(steps[0].shape[0])
        ]
        for n, name in enumerate(names):
            record = made._records.setdefault(name, Record(name, True, role=role))
            record.kept.append(torch.stack([one[str(n)] for one in examples]))
            record.scopes.append({"call": n + 1} if len(steps) > len(records) else {})
            record.rows.append({})
    return made


def _headed(weights: Tensor) -> Tensor:
    """([head,] T, T) to (head, T, T)."""
    return weights if weights.dim() == 3 else weights[None]
