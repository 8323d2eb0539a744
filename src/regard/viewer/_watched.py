"""From what was watched to what is shown: looks at a model's outputs, and a recorder's records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.attention import Seen
from regard.attention._lazy_weights import LazyWeights
from regard.errors import RequestError
from regard.viewer._view import Map, Run, View
from regard.viewer.sides import Side, side_of

if TYPE_CHECKING:
    from regard.viewer.looking import Look

__all__ = ["of_looks", "of_seen"]

Floats = NDArray[np.float32]


def of_looks(looks: Sequence["Look"], *, folder: str = "", title: str = "") -> View:
    """Hypotheses, inputs or models, each a run of one view; what they share is kept once."""
    sides: list[Side] = []
    maps: list[Map] = []
    runs: list[Run] = []
    known: dict[Any, int] = {}

    def once(key: Any, made: list[Any], thing: Any) -> int:
        if key not in known:
            made.append(thing)
            known[key] = len(made) - 1
        return known[key]

    for look in looks:
        source = once(("source", look.model, look.input), sides, side_of(look.source))
        target = once(("target", id(look)), sides, side_of(look.target))
        kept = []
        for kind in ("cross", "decoder", "encoder"):
            for layer, (name, weights) in enumerate(look.weights.get(kind, {}).items(), 1):
                rows = source if kind == "encoder" else target
                columns = target if kind == "decoder" else source
                # A beam's longest past is as wide as its longest hypothesis; nothing is there.
                wide = weights[:, :, : len(sides[columns])].numpy()
                more = {"kind": kind, "layer": layer, "what": look.what}
                one = Map.of(name, rows, columns, wide, **more)
                shared = kind == "encoder" and look.what != "gradient"
                own = (name, look.what, look.model, look.input) if shared else (name, id(look))
                kept.append(once(own, maps, one))
        runs.append(Run(
            kept, input=look.input, output=look.output, model=look.model, folder=folder,
            score=look.score, number=look.number, of=look.of,
        ))  # fmt: skip
    first = looks[0]
    return View(sides, maps, runs, title or f"{folder or first.model} · {first.input}")


def of_seen(seen: Seen, *, title: str = "", row: int = 0) -> View:
    """One row of the batch of everything a recorder saw, with the labels it was told.

    Raises:
        RequestError: nothing was seen, or labels of another number.
    """
    sides: list[Side] = []
    known: dict[Any, int] = {}
    maps: list[Map] = []

    def side(given: Any, count: int) -> int:
        key = (id(given), count)
        if key not in known:
            sides.append(side_of(given, count))
            known[key] = len(sides) - 1
        return known[key]

    for name, record in seen.items():
        rows, columns = seen.labels(name)
        parts = _by_scope(record, row)
        for layer, (scope, weights) in enumerate(parts, 1):
            _, r, c = weights.shape
            given = columns if columns is not None else rows if r == c else None
            tiled = isinstance(weights, _Tiles)
            maps.append(Map(
                name, side(rows if rows is not None or r != c else given, r), side(given, c),
                weights.shape, weights.load if tiled else weights.__getitem__,
                kind="features" if record.features else name or "attention",
                layer=layer if len(parts) > 1 else 0, scope=scope,
                tile=weights.tile if tiled else None,
            ))  # fmt: skip
    if not maps:
        raise RequestError("nothing was seen: no watched attention ran inside the block")
    return View(sides, maps, [Run(list(range(len(maps))))], title or "attention")


@dataclass(frozen=True)
class _Tiles:
    """One row of the batch of an attention whose weights are computed again on demand."""

    again: LazyWeights
    places: list[tuple[int, ...]]

    @classmethod
    def of(cls, again: LazyWeights, row: int) -> "_Tiles":
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


def _by_scope(record: Any, row: int) -> list[tuple[dict[str, int], Any]]:
    """Weights (H, Q, K) for each turn of each loop that is not a step."""
    order: list[dict[str, int]] = []
    for scope in record.scopes:
        if scope not in order:
            order.append(scope)
    found: list[tuple[dict[str, int], Any]] = []
    for scope in order:
        some = record.within(scope)
        if len(some.kept) == 1 and isinstance(some.kept[0], LazyWeights):
            found.append((scope, _Tiles.of(some.kept[0], row)))
            continue
        first = some.steps[0]
        if row >= first.shape[0] or first.dim() - 2 - record.heads - record.features > 1:
            raise RequestError(
                f"{record.name}: rows of a beam are shown through `regard look` or `along`; "
                f"a row of a batch was expected, got weights {tuple(first.shape)}"
            )
        weights = np.ascontiguousarray(some.of(row).float().cpu())
        if record.features:  # (H, Q, K, D): each feature is a head of its own
            weights = np.moveaxis(weights, 3, 1).reshape(-1, *weights.shape[1:3])
        found.append((scope, weights))
    return found
