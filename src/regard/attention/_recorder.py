"""Watching: every attention of every model, seen at the operation, with no effect on it.

No model has a flag for it. A recorder changes no kernel, no output, no gradient and draws no random
numbers: where the chosen kernel kept no weights they come from a second pass beside it.
"""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention._kernels.table import Attended, Call
from regard.attention._lazy_weights import LazyWeights
from regard.attention._second import weights_of
from regard.attention._stored_weights import DiskStore, DiskWeights, TopKWeights
from regard.errors import RequestError, nearest

__all__ = ["Record", "Seen", "scope", "watch"]


@dataclass
class Record:
    """What one attention looked at, step by step.

    `steps[t]` has the weights of its t-th call, probabilities before dropout, never averaged:
    (*batch, [head,] Q, K), with a feature axis behind where scores are feature-wise (`features`).
    `scopes[t]` says in which loops the call was (`scope("hop", 2)`).
    """

    name: str
    heads: bool
    kept: list[Tensor | TopKWeights | DiskWeights | LazyWeights] = field(default_factory=list)
    scopes: list[dict[str, int]] = field(default_factory=list)
    features: bool = False

    @property
    def steps(self) -> list[Tensor]:
        """Every call's weights; with `top_k`, zeros stand for what was not kept."""
        return [step if isinstance(step, Tensor) else step.dense() for step in self.kept]

    @property
    def shared(self) -> bool:
        """Whether a decoder's step looked at one set of keys a sentence: (B, [head,] beam, K).

        What hypotheses have written themselves is a past of each: (B, beam, [head,] 1, K).
        """
        return self.steps[-1].dim() - self.heads - self.features == 3

    def within(self, scope: Mapping[str, int]) -> "Record":
        """The calls of one turn of a loop: `within({"hop": 2})`."""
        inside = [all(own.get(loop) == turn for loop, turn in scope.items()) for own in self.scopes]
        kept = [step for step, there in zip(self.kept, inside, strict=True) if there]
        scopes = [own for own, there in zip(self.scopes, inside, strict=True) if there]
        return Record(self.name, self.heads, kept, scopes, self.features)

    @property
    def weights(self) -> Tensor:
        """All weights in one tensor: a single call's own, or (step, *batch, [head,] Q, K).

        Steps that looked at fewer keys (a growing past) are filled up with zeros.
        """
        steps = self.steps
        return steps[0] if len(steps) == 1 else torch.stack(self._even(steps))

    def of(self, row: int = 0) -> Tensor:
        """One row of the batch, its queries in order over all steps: (head, Q, K).

        For teacher-forced calls: one call with all queries, or a step for each query.
        """
        return torch.cat([self._heads(step[row]) for step in self._even(self.steps)], dim=1)

    def along(self, trail: Tensor) -> Tensor:
        """The hypothesis that a decoder's trail leads to, whatever re-orderings a beam made.

        Args:
            trail: `trail[t] = (row, slot)`, where the hypothesis stood at step t.

        Shapes:
            trail (T, 2); weights (head, T, K)
        """
        if len(trail) > len(self.kept):
            raise RequestError(
                f"{self.name}: the hypothesis has {len(trail)} steps but {len(self.kept)} were "
                "seen; watch the decoding of this one sentence alone"
            )
        rows = []
        for (row, slot), step in zip(trail.tolist(), self._even(self.steps), strict=False):
            one = step[row]
            axes = step.dim() - self.heads - self.features
            if axes == 4:  # (B, beam, [H,] 1, K): rows of their own
                rows.append(self._heads(one[slot])[:, -1])
            else:  # (B, [H,] beam, K): beams are the query axis
                rows.append(self._heads(one)[:, slot])
        return torch.stack(rows, dim=1)

    def _heads(self, weights: Tensor) -> Tensor:
        """([head,] Q, K) to (head, Q, K)."""
        return weights if self.heads else weights[None]

    def _even(self, steps: list[Tensor]) -> list[Tensor]:
        """Steps filled up with zeros to the widest one's number of keys."""
        axis = -2 if self.features else -1
        widest = max((s.shape[axis] for s in steps), default=0)
        behind = (0, 0) if self.features else ()
        return [
            s if s.shape[axis] == widest else F.pad(s, (*behind, 0, widest - s.shape[axis]))
            for s in steps
        ]


class Seen(Mapping[str, Record]):
    """What was looked at, by the path of the attention module (or the name of a bare `attend`)."""

    def __init__(
        self,
        model: nn.Module | None,
        only: str | None,
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
        from regard.attention.module import MultiHead

        features = bool(getattr(call.score, "per_feature", False))
        self.add(name, weights, isinstance(owner, MultiHead), dict(_scopes.get()), features)

    def meet_again(self, name: str, call: Call, owner: object) -> None:
        """Keep what a call's weights can be computed from again, in place of them."""
        from regard.attention.module import MultiHead

        record = self._records.setdefault(name, Record(name, isinstance(owner, MultiHead)))
        record.kept.append(LazyWeights(call))
        record.scopes.append(dict(_scopes.get()))

    def add(
        self,
        name: str,
        weights: Tensor,
        heads: bool,
        scopes: dict[str, int],
        features: bool = False,
    ) -> None:
        """Write one step down."""
        record = self._records.get(name)
        if record is None:
            record = self._records[name] = Record(name, heads, features=features)
        weights = weights.detach()
        if self._dtype is not None:
            weights = weights.to(self._dtype)
        step: Tensor | TopKWeights | DiskWeights = weights
        if self._shelf is not None:
            step = self._shelf.put(weights)
        elif self._top_k is not None:
            step = TopKWeights(weights, self._top_k)
        record.kept.append(step)
        record.scopes.append(scopes)

    def label(self, only: str = "*", *, rows: Any = None, columns: Any = None) -> "Seen":
        """Say what is on the axes, for pages and files; the last that fits a name holds.

        Args:
            only: which attentions, as in `watch`.
            rows, columns: a list of labels, a text, or a `regard.viewer.Side` (image regions, time
                axes, graph edges).
        """
        self._labels.append((only, rows, columns))
        return self

    def labels(self, name: str) -> tuple[Any, Any]:
        """What was said of this attention's rows and columns; None where nothing was."""
        rows = columns = None
        for pattern, own_rows, own_columns in self._labels:
            if fnmatch(name, pattern):
                rows = rows if own_rows is None else own_rows
                columns = columns if own_columns is None else own_columns
        return rows, columns

    def view(self, *, row: int = 0, title: str = "") -> Any:
        """All that was seen of one row of the batch, as a `regard.viewer.View`."""
        # The viewer stands on a higher floor: it is looked up when it is asked for.
        return importlib.import_module("regard.viewer._watched").of_seen(self, title=title, row=row)

    def save(self, path: str | Path, *, row: int = 0, **options: Any) -> Path:
        """Write a `.seen` file; options are those of `regard.viewer.View.save`."""
        return Path(self.view(row=row).save(path, **options))

    def page(self, path: str | Path, *, row: int = 0, title: str = "", **options: Any) -> Path:
        """Write one HTML file that opens anywhere."""
        return Path(self.view(row=row, title=title).page(path, **options))

    def _repr_html_(self) -> str:
        return str(self.view()._repr_html_())


_watchers: ContextVar[tuple[Seen, ...]] = ContextVar("regard_watchers", default=())
_scopes: ContextVar[tuple[tuple[str, int], ...]] = ContextVar("regard_scopes", default=())


@contextmanager
def watch(
    model: Any = None,
    *,
    only: str | None = None,
    top_k: int | None = None,
    dtype: torch.dtype | None = None,
    to: str | Path | None = None,
    tiles: bool = False,
) -> Iterator[Seen]:
    """See every attention of `model` (and every bare `attend`) while the block runs.

    A graph made by `torch.compile` has no watchers in it: watch the model itself, uncompiled.

    Args:
        model: a module, or an object with a `.model`; None sees bare calls only.
        only: a pattern such as "decoder.*cross*"; others are not recorded.
        top_k: keep the largest k weights of each row alone; the others come back as zeros.
        dtype: keep weights in this precision.
        to: a file to write them to while running, for more than memory holds. Its form is
            private and it is read through what this gives; `save` writes one to keep.
        tiles: keep queries and keys in place of weights, for texts of thousands of tokens: pages
            show an overview, and tiles are computed again when they are looked at (`View.serve`).

    Example:
        >>> from regard.attention import MultiHead
        >>> layer = MultiHead(8, 2)
        >>> with watch(layer) as seen:
        ...     x = torch.randn(1, 3, 8)
        ...     _ = layer(x, x, x)
        >>> seen[""].weights.shape
        torch.Size([1, 2, 3, 3])
    """
    if model is not None and not isinstance(model, nn.Module):
        model = getattr(model, "model", None)
        if not isinstance(model, nn.Module):
            raise RequestError("watch expected a module, or an object with a .model")
    if top_k is not None and (top_k < 1 or to is not None):
        raise RequestError(f"top_k: expected 1 or more, and without `to`; got {top_k}")
    if tiles and (top_k is not None or to is not None or dtype is not None):
        raise RequestError("tiles: expected without top_k, dtype and to, which keep weights")
    shelf = None if to is None else DiskStore(Path(to))
    try:
        seen = Seen(model, only, top_k=top_k, dtype=dtype, shelf=shelf, tiles=tiles)
        with watching(seen):
            yield seen
    finally:
        if shelf is not None:
            shelf.close()


@contextmanager
def scope(name: str, index: int) -> Iterator[None]:
    """Say which turn of a loop that is not a decoder step this is: `scope("hop", k)`."""
    token = _scopes.set((*_scopes.get(), (name, index)))
    try:
        yield
    finally:
        _scopes.reset(token)


def active() -> bool:
    """Whether anybody watches in this thread or task; a compiled graph is not watched."""
    return not torch.compiler.is_compiling() and bool(_watchers.get())


def unwatched() -> bool:
    """Whether nobody does, for callers outside of compiled graphs."""
    return not _watchers.get()


def record(call: Call, attended: Attended, owner: object) -> None:
    """Show one call to the watchers."""
    weights = attended.weights
    for seen in _watchers.get():
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
    """Whether a watcher wants more of a call than its weights; such have to see the call itself."""
    return any(seen.tiles or type(seen).meet is not Seen.meet for seen in _watchers.get())


def note(owner: object, weights: Tensor) -> None:
    """Show the watchers weights of a layer that was not called but computed otherwise."""
    from regard.attention.module import MultiHead

    for seen in _watchers.get():
        name = seen.name_of(owner)
        if name is not None:
            seen.add(name, weights, isinstance(owner, MultiHead), dict(_scopes.get()))


@contextmanager
def watching(seen: Seen) -> Iterator[Seen]:
    """Let a watcher of one's own see what runs in the block."""
    token = _watchers.set((*_watchers.get(), seen))
    try:
        yield seen
    finally:
        _watchers.reset(token)
