"""Watching: every attention of every model, seen at the operation, with no effect on it.

No model has a flag for it. A recorder changes no kernel, no output, no gradient and draws no random
numbers: where the chosen kernel kept no weights they come from a second pass beside it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatch
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.axes import Axes
from regard.attention.call import Attended, Call
from regard.attention.declaring import ROLES, Declaring
from regard.attention.lazy_weights import LazyWeights
from regard.attention.mask import Edges
from regard.attention.recomputed_weights import weights_of
from regard.attention.record import Facts, Record
from regard.attention.stored_weights import DiskStore, DiskWeights, TopKWeights
from regard.errors import RequestError, nearest

__all__ = ["Record", "Seen", "record_weights", "rows_of", "scope"]


class Seen(Mapping[str, Record]):
    """What was looked at, by the path of the attention module (or the name of a bare `attend`)."""

    intercepts: Any = None
    """What watches models that are not ours in its name, where weights alone are not enough."""

    def __init__(
        self,
        model: nn.Module | None,
        only: str | None = None,
        *,
        top_k: int | None = None,
        dtype: torch.dtype | None = None,
        shelf: DiskStore | None = None,
        tiles: bool = False,
    ) -> None:
        self.tiles = tiles
        self._paths = {} if model is None else {id(m): p for p, m in model.named_modules()}
        self._only, self._top_k, self._dtype, self._shelf = only, top_k, dtype, shelf
        self._records: dict[str, Record] = {}
        self._labels: list[tuple[str, Any, Any]] = []
        self._roles: list[tuple[str, str]] = []
        self.unseen: dict[str, str] = {}
        """Modules whose attention was not seen though they ran, and why; known when the block has
        ended."""

    def __getitem__(self, name: str) -> Record:
        try:
            return self._records[name]
        except KeyError:
            raise RequestError(
                f"no attention called {name!r} was seen; {nearest(name, self._records)}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        rows = (f"{n}: {len(r.kept)} step(s)" for n, r in self._records.items())
        return "Seen(" + ", ".join(rows) + ")"

    def clear(self) -> None:
        """Forget what was seen so far."""
        self._records.clear()

    def name_of(self, owner: object) -> str | None:
        """The name to record under, or None where this watcher does not look."""
        if isinstance(owner, str):
            name: str | None = owner
        elif owner is None:
            name = "attend"
        else:
            name = self._paths.get(id(owner))
        if name is None or (self._only is not None and not fnmatch(name, self._only)):
            return None
        return name

    def meet(self, name: str, call: Call, weights: Tensor, owner: object) -> None:
        """One call of an attention that is watched; who wants more than weights takes it here."""
        features = bool(getattr(call.score, "per_feature", False))
        edges = call.mask if isinstance(call.mask, Edges) else None
        sources = 0
        if edges is not None:
            count = call.tensors[2].shape[-2]
            sources = int(count) if edges.two_sets or count != edges.queries else 0
        self.add(name, weights, owner, features=features, edges=edges, sources=sources)

    def meet_again(self, name: str, call: Call, owner: object) -> None:
        """Keep what a call's weights can be computed from again, in place of them."""
        self._step(self._record(name, owner), LazyWeights(call))

    def add(
        self,
        name: str,
        weights: Tensor,
        owner: object,
        *,
        features: bool = False,
        edges: Edges | None = None,
        sources: int = 0,
    ) -> None:
        """Write one step down."""
        record = self._record(name, owner, features=features)
        if edges is not None:
            record.edges.append(edges)
            record.sources.append(sources)
        self._step(record, self._form(weights))

    def add_foreign(
        self,
        name: str,
        weights: Tensor | LazyWeights,
        facts: Facts,
        *,
        axes: Axes,
        role: str,
        edges: Edges | None = None,
        sources: int = 0,
    ) -> None:
        """Write down one call of an attention that is not this package's."""
        if name not in self._records:
            own = self._role(name, role)
            self._records[name] = Record(name, axes.heads, role=own, batch=axes.batch)
        record = self._records[name]
        if edges is not None:
            record.edges.append(edges)
            record.sources.append(sources)
        record.meaning.append(axes)
        record.facts.append(facts)
        self._step(record, self._form(weights) if isinstance(weights, Tensor) else weights)

    def number(self, name: str, turns: list[int]) -> None:
        """Say of each step which call of its module it was, where one run has several.

        So it is said where calls do not go on from each other, and of runs of `generate`.
        """
        record = self._records[name]
        runs = list(dict.fromkeys(id(axes.run) if axes.run else 0 for axes in record.meaning))
        if runs != [0]:  # each step of a run is a call of the model, whatever calls the run
            met = Counter[tuple[int, int]]()
            for n, axes in enumerate(record.meaning[-len(turns) :]):
                if axes.run is not None:
                    met[id(axes.run), axes.reading] += 1
                    turns[n] = met[id(axes.run), axes.reading]
        if len(runs) > 1:  # what ran beside a run is no part of it
            known = [run for run in runs if run]
            for scope, axes in zip(record.scopes, record.meaning, strict=True):
                own = axes.run is not None
                scope["generate" if own else "beside"] = 1 + (
                    known.index(id(axes.run)) if own else 0
                )
        elif max(turns) == 1 and runs == [0] and not record.grows:
            turns = list(range(1, len(turns) + 1))
        if max(turns) > 1:
            for scope, turn in zip(record.scopes[-len(turns) :], turns, strict=True):
                scope["call"] = turn

    def _form(self, weights: Tensor) -> Tensor | TopKWeights | DiskWeights:
        """Weights as they were asked to be kept."""
        weights = weights.detach()
        if self._dtype is not None:
            weights = weights.to(self._dtype)
        step: Tensor | TopKWeights | DiskWeights = weights
        if self._shelf is not None:
            step = self._shelf.put(weights)
        elif self._top_k is not None:
            step = TopKWeights(weights, self._top_k)
        return step

    def _record(self, name: str, owner: object, *, features: bool = False) -> Record:
        """The record of an attention, with what it declares of itself."""
        if name not in self._records:
            own = Record(name, False, features=features)
            if isinstance(owner, Declaring):
                own.heads, own.role, own.batch = owner.head_axis, owner.role, owner.batch_axes
            own.role = self._role(name, own.role)
            self._records[name] = own
        return self._records[name]

    def _role(self, name: str, declared: str) -> str:
        """What `label` said of this attention, or else what it declares."""
        return next((role for only, role in reversed(self._roles) if fnmatch(name, only)), declared)

    def _step(self, record: Record, step: Tensor | TopKWeights | DiskWeights | LazyWeights) -> None:
        record.kept.append(step)
        record.scopes.append(dict(_scopes.get()))
        record.rows.append(dict(_rows.get()))

    def label(
        self, only: str = "*", *, rows: Any = None, columns: Any = None, role: str | None = None
    ) -> "Seen":
        """Say what is on the axes, for pages and files; the last matching pattern wins.

        Args:
            only: which attentions, as in `watch`.
            rows, columns: a list of labels, a text, or a `regard.viewer.Axis` (image regions, time
                axes, graph edges).
            role: what looks at what, for attentions that declare no role: a key of `ROLES`.

        Raises:
            RequestError: there is no such role.
        """
        if role is not None and role not in ROLES:
            raise RequestError(f"no attention has the role {role!r}; {nearest(role, ROLES)}")
        self._labels.append((only, rows, columns))
        if role is not None:
            self._roles.append((only, role))
        for name, record in self._records.items():
            if role is not None and fnmatch(name, only):
                record.role = role
        return self

    def labels(self, name: str) -> tuple[Any, Any]:
        """What was said of this attention's rows and columns; None where nothing was."""
        rows = columns = None
        for pattern, own_rows, own_columns in self._labels:
            if fnmatch(name, pattern):
                rows = rows if own_rows is None else own_rows
                columns = columns if own_columns is None else own_columns
        return rows, columns


SeenT = TypeVar("SeenT", bound=Seen)

_watchers: ContextVar[tuple[Seen, ...]] = ContextVar("regard_watchers", default=())
_scopes: ContextVar[tuple[tuple[str, int], ...]] = ContextVar("regard_scopes", default=())
_rows: ContextVar[Mapping[str, Tensor]] = ContextVar("regard_rows", default=MappingProxyType({}))


@contextmanager
def scope(name: str, index: int) -> Iterator[None]:
    """Say which turn of a loop that is not a decoder step this is: `scope("hop", k)`."""
    token = _scopes.set((*_scopes.get(), (name, index)))
    try:
        yield
    finally:
        _scopes.reset(token)


def scopes() -> tuple[tuple[str, int], ...]:
    """The turns of loops that the caller is in."""
    return _scopes.get()


@contextmanager
def rows_of(**index: Tensor) -> Iterator[None]:
    """Say to what each row of a batch belongs: `rows_of(example=index)`.

    A beam that goes on with some of its sentences says which; a model that reads all sentences of
    all documents at once says the document (`example`) and the `sentence` of each row.

    Shapes:
        index (rows,) each
    """
    token = _rows.set({**_rows.get(), **index})
    try:
        yield
    finally:
        _rows.reset(token)


@contextmanager
def unseen() -> Iterator[None]:
    """Let no watcher see what runs in the block: probes are no part of what a model does."""
    token = _watchers.set(())
    try:
        yield
    finally:
        _watchers.reset(token)


def active() -> bool:
    """Whether anybody watches in this thread or task; a compiled graph is not watched."""
    return not torch.compiler.is_compiling() and bool(_now())


def unwatched() -> bool:
    """Whether nobody does, for callers outside of compiled graphs."""
    return not _watchers.get()


def _now() -> tuple[Seen, ...]:
    """Who watches: nobody in a backward pass, where a checkpoint runs what was seen once more."""
    seen = _watchers.get()
    return seen if seen and torch._C._current_graph_task_id() == -1 else ()


def record_weights(owner: nn.Module, weights: Callable[[], Tensor]) -> None:
    """Show the watchers what was looked at by what is no `Attention`: glimpses, crops, windows.

    Args:
        owner: the module that looks; a `Declaring` one says its role.
        weights: computes them, if anybody watches: (B, query, key).
    """
    for seen in _now() if active() else ():
        if (name := seen.name_of(owner)) is not None:
            seen.add(name, weights(), owner)


def record(call: Call, attended: Attended, owner: object) -> None:
    """Show one call to the watchers."""
    weights = attended.weights
    for seen in _now():
        name = seen.name_of(owner)
        if name is None:
            continue
        if seen.tiles and LazyWeights.supports(call):
            seen.meet_again(name, call, owner)
            continue
        if weights is None:
            weights = weights_of(call)
        seen.meet(name, call, weights, owner)


def wants_calls() -> bool:
    """Whether a watcher wants more of a call than its weights; these need the full call."""
    return any(seen.tiles or type(seen).meet is not Seen.meet for seen in _watchers.get())


def note(owner: object, weights: Tensor) -> None:
    """Show the watchers weights of a layer that was not called but computed otherwise."""
    for seen in _now():
        name = seen.name_of(owner)
        if name is not None:
            seen.add(name, weights, owner)


@contextmanager
def watching(seen: SeenT) -> Iterator[SeenT]:
    """Let a watcher of one's own see what runs in the block."""
    token = _watchers.set((*_watchers.get(), seen))
    try:
        yield seen
    finally:
        _watchers.reset(token)
