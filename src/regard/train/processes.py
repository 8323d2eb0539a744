"""Communication between the processes of a training; trivial for a single process."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["aside", "first", "gather", "is_parallel", "total"]


def is_parallel() -> bool:
    """Whether there are several processes."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def first(value: float, device: torch.device) -> float:
    """Broadcast the value of the first process."""
    if not is_parallel():
        return value
    said = torch.tensor(value, dtype=torch.float64, device=device)
    torch.distributed.broadcast(said, 0)
    return float(said)


def total(value: Tensor) -> Tensor:
    """The sum over all processes, in place."""
    if is_parallel():
        torch.distributed.all_reduce(value)
    return value


def gather(value: Any) -> list[Any]:
    """The values of all processes."""
    if not is_parallel():
        return [value]
    found: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, value)
    return found


def aside() -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """Sums over all processes, for a thread beside the training, in a group of its own.

    The group is made at the first call, which all processes must make.
    """
    groups: list[Any] = []

    def summed(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        if not is_parallel():
            return numbers
        if not groups:
            groups.append(torch.distributed.new_group(backend="gloo"))
        value = torch.from_numpy(numbers.copy())
        torch.distributed.all_reduce(value, group=groups[0])
        return value.numpy()

    return summed
