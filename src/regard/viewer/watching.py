"""Watching with a way to look at it: a recorder that writes pages and files of what it saw."""

import html
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention import Record, Seen
from regard.attention.lazy_weights import LazyWeights
from regard.attention.recording import recording
from regard.errors import RequestError
from regard.viewer._drawable import DrawableView
from regard.viewer._graph import EdgeWeights, edge_map, node_axis
from regard.views import Axis, Map, Run, axis_of

if TYPE_CHECKING:
    from regard.viewer._notebook import Following

__all__ = ["Watched", "of_seen", "watch"]

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
        from regard.viewer._measured import rollout

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
        from regard.viewer._notebook import Following

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


@contextmanager
def watch(
    model: Any = None,
    *,
    only: str | None = None,
    top_k: int | None = None,
    dtype: torch.dtype | None = None,
    to: str | Path | None = None,
    tiles: bool = False,
    measure: str = "weights",
) -> Iterator[Watched]:
    """See every attention of `model` (and every bare `attend`) while the block runs.

    As `regard.attention.watch`, whose arguments these are; what it gives can also be looked at.

    Args:
        measure: what is kept in place of weights: "norms", what each head could have handed over
            of each value (Kobayashi et al. 2020); "gradient", weights times the gradient of the
            score that `seen.backward(score)` is told; `seen.rollout()` is made of weights.

    Raises:
        RequestError: no such measure, or one together with `top_k`, `dtype`, `to` or `tiles`.

    Example:
        >>> from regard.attention import MultiHead
        >>> layer = MultiHead(8, 2)
        >>> with watch(layer) as seen:
        ...     x = torch.randn(1, 3, 8)
        ...     _ = layer(x, x, x)
        >>> seen.label(rows="a b c").view()
        DrawableView('attention': 1 run(s), 1 map(s), 2 head(s))
    """
    if measure == "weights":
        with recording(Watched, model, only, top_k=top_k, dtype=dtype, to=to, tiles=tiles) as seen:
            yield seen
        return
    from regard.viewer._measured import kind_of

    kind, around = kind_of(measure)
    if tiles or any(option is not None for option in (top_k, dtype, to)):
        raise RequestError(f"measure={measure!r}: expected without top_k, dtype, to and tiles")
    with around, recording(kind, model, only) as measured:
        yield measured


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
    for name, record in seen.items():
        known = seen.labels(name)
        first = known[0] if rows is None else rows
        second = known[1] if columns is None else columns
        layers[record.role] = layers.get(record.role, 0) + 1
        if "edge" in record.axes:
            maps += _edge_maps(record, sides, first, row, layers[record.role])
            continue
        parts = _by_scope(record, row)
        for turn, (scope, weights) in enumerate(parts, 1):
            _, r, c = weights.shape
            given = second if second is not None else first if r == c else None
            tiled = isinstance(weights, _TiledWeights)
            maps.append(Map(
                name, sides.of(first if first is not None or r != c else given, r),
                sides.of(given, c), weights.shape,
                weights.load if tiled else weights.__getitem__,
                kind="features" if record.features else record.role or name or "attention",
                what=getattr(seen, "what", "weights"),
                layer=turn if len(parts) > 1 else layers[record.role] if record.role else 0,
                scope=scope,
                tile=weights.tile if tiled else None,
            ))  # fmt: skip
    if not maps:
        raise RequestError("nothing was seen: no watched attention ran inside the block")
    return DrawableView(sides.axes, maps, [Run(list(range(len(maps))))], title or "attention")


class _Sides:
    """The axes of a view, each made once of the labels that were given."""

    def __init__(self, row: int) -> None:
        self.axes: list[Axis] = []
        self._row = row
        self._known: dict[Any, int] = {}

    def of(self, given: Any, count: int) -> int:
        """The place of an axis with so many labels."""
        key = (id(given), count)
        if key not in self._known:
            self._known[key] = self.add(axis_of(given, count, row=self._row))
        return self._known[key]

    def nodes(self, layers: Sequence[EdgeWeights], given: Any) -> int:
        """The place of an axis of nodes; layers over the same edges have the same."""
        axis = node_axis(layers, given)
        return self.axes.index(axis) if axis in self.axes else self.add(axis)

    def add(self, axis: Axis) -> int:
        """Its place, at the end."""
        self.axes.append(axis)
        return len(self.axes) - 1


def _edge_maps(record: Record, sides: _Sides, labels: Any, row: int, layer: int) -> list[Map]:
    """A map of each call over a graph: nodes look at their neighbors."""
    made = []
    for turn, (weights, edges) in enumerate(zip(record.steps, record.edges, strict=True), 1):
        shape = dict(zip(record.axes, weights.shape, strict=True))
        if set(shape) - {"example", "head", "edge"} or row >= shape.get("example", row + 1):
            named = ", ".join(f"{axis} {size}" for axis, size in shape.items())
            raise RequestError(f"{record.name}: there is no row {row}, got weights ({named})")
        one = weights[row] if "example" in shape else weights
        one = (one if record.heads else one[None]).float().cpu()
        own = EdgeWeights(
            edges.targets.cpu(), edges.sources.cpu(), one.numpy(), nodes=edges.queries
        )
        at = sides.nodes([own], labels)
        several = len(record.kept) > 1
        made.append(edge_map(
            record.name or "edges", at, len(sides.axes[at]), own, layer=turn if several else layer,
            scope={"call": turn} if several else {},
        ))  # fmt: skip
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


def _by_scope(record: Record, row: int) -> list[tuple[dict[str, int], Any]]:
    """Weights (H, Q, K) for each turn of each loop that is not a step."""
    order: list[dict[str, int]] = []
    for scope in record.scopes:
        if scope not in order:
            order.append(scope)
    found: list[tuple[dict[str, int], Any]] = []
    for scope in order:
        some = record.within(scope)
        if len(some.kept) == 1 and isinstance(some.kept[0], LazyWeights):
            found.append((scope, _TiledWeights.of(some.kept[0], row)))
            continue
        shape = dict(zip(some.axes, some.steps[0].shape, strict=True))
        named = ", ".join(f"{axis} {size}" for axis, size in shape.items())
        if set(some.axes) - {"example", "head", "query", "key", "feature"}:
            raise RequestError(
                f"{record.name}: rows of a beam are shown through `regard look` or `along`; "
                f"one batch axis, the example, was expected, got weights ({named})"
            )
        if "example" not in shape or not 0 <= row < shape["example"]:
            raise RequestError(f"{record.name}: there is no row {row}, got weights ({named})")
        weights = np.ascontiguousarray(some.of(row).float().cpu())
        if record.features:  # (H, Q, K, D): each feature is a head of its own
            weights = np.moveaxis(weights, 3, 1).reshape(-1, *weights.shape[1:3])
        found.append((scope, weights))
    return found
