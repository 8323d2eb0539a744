"""Named operations: functions that a recorder of PyTorch calls sees as one call.

`decode.program` records which PyTorch operations the step of a model calls. It cannot see calls of
C, which receive addresses, and it should not see how `attend` or an LSTM cell is computed. Such
functions are named with `@operation`. While nobody records they are called as they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import torch

__all__ = ["OperationRecorder", "is_recorded", "operation", "recording_operations"]

P = ParamSpec("P")
R = TypeVar("R")


class OperationRecorder(Protocol):
    """Is called in the place of every named operation."""

    def operation(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Call the function, and write the call down."""
        ...


_RECORDER: ContextVar[OperationRecorder | None] = ContextVar("regard_operations", default=None)


def operation(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Name a function for recorders: a decorator.

    Example:
        >>> @operation("double")
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> double(4)
        8
    """

    def named(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if torch.compiler.is_compiling() or (recorder := _RECORDER.get()) is None:
                return function(*args, **kwargs)
            found: R = recorder.operation(name, function, args, kwargs)
            return found

        return call

    return named


def is_recorded() -> bool:
    """Whether operations of this thread or task are recorded: then fast paths around them wait."""
    return not torch.compiler.is_compiling() and _RECORDER.get() is not None


@contextmanager
def recording_operations(recorder: OperationRecorder | None) -> Iterator[None]:
    """Send the named operations of the block to a recorder; None: to nobody."""
    token = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(token)
