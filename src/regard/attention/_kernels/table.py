"""The table of kernels: `choose` picks the fastest that supports a call, `explain` says why."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.attention.carry import Carry, CarryState
from regard.attention.mask import Mask
from regard.attention.position import Position
from regard.attention.read import Read
from regard.attention.score import Score
from regard.attention.select import Select
from regard.errors import RequestError, nearest
from regard.native.transforms import followed

__all__ = [
    "BY_TENSORS",
    "Attended",
    "Call",
    "Explanation",
    "Kernel",
    "choose",
    "explain_call",
    "forced",
    "kernels",
    "unforced",
]


class Attended(NamedTuple):
    """What every attention returns, whatever its parts and the kernel.

    Shapes:
        context (*batch, Q, value_dim); weights (*batch, Q, K) where they were asked for;
        log_prob of the choice for a sampling select; state: the carry's value after this step
    """

    context: Tensor
    weights: Tensor | None = None
    log_prob: Tensor | None = None
    state: CarryState | None = None


@dataclass(slots=True)  # not frozen: that would cost a small call 2 us
class Call:
    """The six parts and what they are called with; `prepared` keys come from a Memory."""

    score: Score
    select: Select
    read: Read
    position: Position | None = None
    mask: Mask | None = None
    carry: Carry | None = None
    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    prepared: Any = None
    state: CarryState | None = None
    at: int | Tensor = 0
    need_weights: bool = False

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of a call that has them."""
        assert self.query is not None
        assert self.key is not None
        assert self.value is not None
        return self.query, self.key, self.value

    @property
    def keys(self) -> Any:
        """What the score is called with: prepared keys, made here where no memory holds them."""
        return self.score.prepare(self.tensors[1]) if self.prepared is None else self.prepared


@runtime_checkable
class Kernel(Protocol):
    """One implementation of the operation.

    With `plain = True` a kernel uses PyTorch's own operators only. Such a kernel is required under
    transforms of `torch.func`, for forward-mode derivatives and for meta tensors.
    """

    name: str

    def unsupported_reason(self, call: Call) -> str | None:
        """Why it cannot compute this call, in a clause (parts, then tensors); None where it can."""
        ...

    def run(self, call: Call) -> Attended:
        """Do it. Weights may be given although nobody asked, where they were made anyway."""
        ...


_forced: ContextVar[str | None] = ContextVar("regard_kernel", default=None)


def forced() -> str | None:
    """The kernel that an enclosing `kernels` block forces, if any."""
    # A compiler cannot trace context variables; a compiled graph takes the fastest kernel.
    return None if torch.compiler.is_compiling() else _forced.get()


def unforced() -> bool:
    """Whether no kernel is forced; for callers outside of compiled graphs."""
    return _forced.get() is None


@cache
def table() -> tuple[Kernel, ...]:
    """The kernels, fastest first; those after `reference` run only where they are forced."""
    from regard.attention._kernels.chunks import Chunks
    from regard.attention._kernels.dots import Dots
    from regard.attention._kernels.edges import EdgeWise
    from regard.attention._kernels.euclidean import Euclidean
    from regard.attention._kernels.features import FeatureWise
    from regard.attention._kernels.flex import Flex
    from regard.attention._kernels.local import Local
    from regard.attention._kernels.located import Located
    from regard.attention._kernels.reference import Reference
    from regard.attention._kernels.relative import Relative
    from regard.attention._kernels.sdpa import Sdpa
    from regard.attention._kernels.segment import Segment
    from regard.attention._kernels.streaming import Streaming
    from regard.attention._kernels.window import Windowed

    return (
        Dots(), Sdpa(), Located(), Streaming(), Flex(), Windowed(), Relative(), Euclidean(),
        Local(), EdgeWise(), Segment(), FeatureWise(), Reference(), Chunks(),
    )  # fmt: skip


@contextmanager
def kernels(name: str) -> Iterator[None]:
    """Force one kernel for every attention in the block, in this thread or task.

    Raises:
        RequestError: for an unknown name; and by the attention itself where that kernel does
        not support the call.

    Example:
        >>> with kernels("reference"):
        ...     pass
    """
    names = [kernel.name for kernel in table()]
    if name not in names:
        raise RequestError(f"no attention kernel is called {name!r}; {nearest(name, names)}")
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)


def choose(call: Call) -> Kernel:
    """The forced kernel, or the first of the table that supports the call."""
    wanted, watched = forced(), followed(call.query, call.key, call.value)
    for kernel in table():
        if wanted is not None:
            if kernel.name != wanted:
                continue
            reason = _reason(kernel, call, watched)
            if reason is not None:
                raise RequestError(f"kernels({wanted!r}) was asked for, but {reason}")
            return kernel
        if watched is not None and not _is_plain(kernel):
            continue
        if kernel.unsupported_reason(call) is None:
            return kernel
    raise AssertionError("the reference kernel does everything")


def _reason(kernel: Kernel, call: Call, watched: str | None) -> str | None:
    return watched if watched and not _is_plain(kernel) else kernel.unsupported_reason(call)


def _is_plain(kernel: Kernel) -> bool:
    return getattr(kernel, "plain", False)


BY_TENSORS = "decided by the tensors of a call"
"""How the reason ends for which a kernel is passed over that a call may still use."""


class Explanation(NamedTuple):
    """Which kernel an attention uses, and why each faster one was passed over."""

    kernel: str
    passed_over: tuple[tuple[str, str], ...]
    backend: str = ""

    @property
    def names(self) -> list[str]:
        """The kernels that may be used, fastest first: some are decided by a call's tensors."""
        return [*(name for name, why in self.passed_over if why.endswith(BY_TENSORS)), self.kernel]

    def __str__(self) -> str:
        """One line."""
        reasons: dict[str, list[str]] = {}
        for name, why in self.passed_over:
            reasons.setdefault(why, []).append(name)
        said = [self.backend] if self.backend else []
        said += [f"not {' or '.join(names)}: {why}" for why, names in reasons.items()]
        return f"{self.kernel}" + (f" ({'; '.join(said)})" if said else "")


def explain_call(call: Call) -> Explanation:
    """The choice that `choose` would make, with the reasons."""
    kernel, watched = choose(call), followed(call.query, call.key, call.value)
    over = []
    for other in table():
        if other.name == kernel.name:
            break
        reason = _reason(other, call, watched)
        if reason is None or (forced() and reason.endswith(BY_TENSORS)):
            reason = "another kernel was forced"
        over.append((other.name, reason))
    # A kernel with several backends (C, PyTorch blocks) says which one: `backend(call) -> str`.
    backend = kernel.backend(call) if hasattr(kernel, "backend") else ""
    return Explanation(kernel.name, tuple(over), backend)
