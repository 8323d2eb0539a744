"""Watching with a way to look at it: a recorder that writes pages and files of what it saw."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention import Record, Seen
from regard.attention._lazy_weights import LazyWeights
from regard.attention._recorder import recording
from regard.errors import RequestError
from regard.viewer._drawable import DrawableView
from regard.views import Axis, Map, Run, axis_of

__all__ = ["Watched", "of_seen", "watch"]

Floats = NDArray[np.float32]


class Watched(Seen):
    """What was looked at, with pages and files of it."""

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
        return self.view()._repr_html_()


@contextmanager
def watch(
    model: Any = None,
    *,
    only: str | None = None,
    top_k: int | None = None,
    dtype: torch.dtype | None = None,
    to: str | Path | None = None,
    tiles: bool = False,
) -> Iterator[Watched]:
    """See every attention of `model` (and every bare `attend`) while the block runs.

    As `regard.attention.watch`, whose arguments these are; what it gives can also be looked at.

    Example:
        >>> from regard.attention import MultiHead
        >>> layer = MultiHead(8, 2)
        >>> with watch(layer) as seen:
        ...     x = torch.randn(1, 3, 8)
        ...     _ = layer(x, x, x)
        >>> seen.label(rows="a b c").view()
        DrawableView('attention': 1 run(s), 1 map(s), 2 head(s))
    """
    with recording(Watched, model, only, top_k=top_k, dtype=dtype, to=to, tiles=tiles) as seen:
        yield seen


def of_seen(seen: Seen, *, title: str = "", row: int = 0) -> DrawableView:
    """One example of everything a recorder saw, with the labels it was told.

    A map's kind is the role that its attention declares; one that declares none goes by its name.

    Raises:
        RequestError: nothing was seen, or labels of another number.
    """
    axes: list[Axis] = []
    known: dict[Any, int] = {}
    maps: list[Map] = []
    layers: dict[str, int] = {}

    def side(given: Any, count: int) -> int:
        key = (id(given), count)
        if key not in known:
            axes.append(axis_of(given, count))
            known[key] = len(axes) - 1
        return known[key]

    for name, record in seen.items():
        rows, columns = seen.labels(name)
        parts = _by_scope(record, row)
        layers[record.role] = layers.get(record.role, 0) + 1
        for turn, (scope, weights) in enumerate(parts, 1):
            _, r, c = weights.shape
            given = columns if columns is not None else rows if r == c else None
            tiled = isinstance(weights, _TiledWeights)
            maps.append(Map(
                name, side(rows if rows is not None or r != c else given, r), side(given, c),
                weights.shape, weights.load if tiled else weights.__getitem__,
                kind="features" if record.features else record.role or name or "attention",
                layer=turn if len(parts) > 1 else layers[record.role] if record.role else 0,
                scope=scope,
                tile=weights.tile if tiled else None,
            ))  # fmt: skip
    if not maps:
        raise RequestError("nothing was seen: no watched attention ran inside the block")
    return DrawableView(axes, maps, [Run(list(range(len(maps))))], title or "attention")


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
        if "edge" in shape:
            raise RequestError(
                f"{record.name}: the edges of a graph are shown through `regard look`; "
                f"got weights ({named})"
            )
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
