"""Watching: every attention of every model, seen at the operation, with no effect on it.

No model has a flag for it. A recorder changes no kernel, no output, no gradient and draws no random
numbers: where the chosen kernel kept no weights they come from a second pass beside it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention._kernels.table import Attended, Call
from regard.errors import RequestError, nearest

__all__ = ["Record", "Seen", "scope", "watch"]


@dataclass
class Record:
    """What one attention looked at, step by step.

    `steps[t]` has the weights of its t-th call, probabilities before dropout, never averaged:
    (*batch, [head,] Q, K). `scopes[t]` says in which loops the call was (`scope("hop", 2)`).
    """

    name: str
    heads: bool
    steps: list[Tensor] = field(default_factory=list)
    scopes: list[dict[str, int]] = field(default_factory=list)

    @property
    def weights(self) -> Tensor:
        """All weights in one tensor: a single call's own, or (step, *batch, [head,] Q, K).

        Steps that looked at fewer keys (a growing past) are filled up with zeros.
        """
        if len(self.steps) == 1:
            return self.steps[0]
        return torch.stack(_even(self.steps))

    def of(self, row: int = 0) -> Tensor:
        """One row of the batch, its queries in order over all steps: (head, Q, K).

        For teacher-forced calls: one call with all queries, or a step for each query.
        """
        return torch.cat([self._heads(step[row]) for step in _even(self.steps)], dim=1)

    def along(self, trail: Tensor) -> Tensor:
        """The hypothesis that a decoder's trail leads to, whatever re-orderings a beam made.

        Args:
            trail: `trail[t] = (row, slot)`, where the hypothesis stood at step t.

        Shapes:
            trail (T, 2); weights (head, T, K)
        """
        if len(trail) > len(self.steps):
            raise RequestError(
                f"{self.name}: the hypothesis has {len(trail)} steps but {len(self.steps)} were "
                "seen; watch the decoding of this one sentence alone"
            )
        rows = []
        for (row, slot), step in zip(trail.tolist(), _even(self.steps), strict=False):
            one = step[row]
            if step.dim() - 2 - self.heads == 2:  # (B, beam, [H,] 1, K): rows of their own
                rows.append(self._heads(one[slot])[:, -1])
            else:  # (B, [H,] beam, K): beams are the query axis
                rows.append(self._heads(one)[:, slot])
        return torch.stack(rows, dim=1)

    def _heads(self, weights: Tensor) -> Tensor:
        """([head,] Q, K) to (head, Q, K)."""
        return weights if self.heads else weights[None]


class Seen(Mapping[str, Record]):
    """What was looked at, by the path of the attention module (or the name of a bare `attend`)."""

    def __init__(self, model: nn.Module | None, only: str | None) -> None:
        self._paths = {} if model is None else {id(m): p for p, m in model.named_modules()}
        self._only = only
        self._records: dict[str, Record] = {}

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
        rows = (f"{n}: {len(r.steps)} step(s)" for n, r in self._records.items())
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

    def add(self, name: str, weights: Tensor, heads: bool, scopes: dict[str, int]) -> None:
        """Write one step down."""
        record = self._records.setdefault(name, Record(name, heads))
        record.steps.append(weights.detach())
        record.scopes.append(scopes)


_watchers: ContextVar[tuple[Seen, ...]] = ContextVar("regard_watchers", default=())
_scopes: ContextVar[tuple[tuple[str, int], ...]] = ContextVar("regard_scopes", default=())


@contextmanager
def watch(model: Any = None, *, only: str | None = None) -> Iterator[Seen]:
    """See every attention of `model` (and every bare `attend`) while the block runs.

    A graph made by `torch.compile` has no watchers in it: watch the model itself, uncompiled.

    Args:
        model: a module, or an object with a `.model`; None sees bare calls only.
        only: a pattern such as "decoder.*cross*"; others are not recorded.

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
    seen = Seen(model, only)
    token = _watchers.set((*_watchers.get(), seen))
    try:
        yield seen
    finally:
        _watchers.reset(token)


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


def record(call: Call, attended: Attended, owner: object) -> None:
    """Show one call to the watchers."""
    from regard.attention._kernels.reference import Reference
    from regard.attention.module import MultiHead

    weights = attended.weights
    for seen in _watchers.get():
        name = seen.name_of(owner)
        if name is None:
            continue
        if weights is None:
            with torch.no_grad():
                again = replace(call, need_weights=True, read=_no_read)
                weights = Reference().run(again).weights
            assert weights is not None
        seen.add(name, weights, isinstance(owner, MultiHead), dict(_scopes.get()))


def _no_read(weights: Tensor, value: Tensor, *, at: int | Tensor = 0) -> Tensor:
    """The second pass wants weights only; it reads nothing and so draws no dropout."""
    return weights


def _even(steps: list[Tensor]) -> list[Tensor]:
    """Steps filled up with zeros to the widest one's number of keys."""
    widest = max((s.shape[-1] for s in steps), default=0)
    return [s if s.shape[-1] == widest else F.pad(s, (0, widest - s.shape[-1])) for s in steps]
