"""One call of the operation, what it returns, and what a kernel is."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.attention.carry import Carry, CarryState
from regard.attention.mask import Mask
from regard.attention.position import Position
from regard.attention.read import Read
from regard.attention.score import Score
from regard.attention.select import Select

__all__ = ["BY_TENSORS", "Attended", "Call", "Kernel", "forced", "unforced"]


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

    With `calls_parts = True` it calls the parts and their `forward`, whatever they are. Other
    kernels are used only for parts that nobody has altered (`regard.attention.plain`).
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


BY_TENSORS = "decided by the tensors of a call"
"""How the reason ends for which a kernel is passed over that a call may still use."""
