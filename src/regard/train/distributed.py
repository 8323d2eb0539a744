"""Communication between the processes of a training; trivial for a single process."""

import atexit
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["aside", "compress", "connect", "first", "gather", "is_parallel", "total"]


def connect(device: torch.device) -> None:
    """Connect the processes that torchrun started, if its store outlives a restart.

    torchrun (PyTorch 2.11 to 2.13) keeps one store for all its attempts, and PyTorch puts the
    addresses of the processes there under the same names each time. After `--max-restarts` a
    process may read where one of the attempt before listened, and wait for it in vain. Here names
    are of one attempt alone. The training engine takes the connection that is there.

    Args:
        device: that is computed on; it decides what the processes communicate through.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or is_parallel():
        return
    own: Any = torch.distributed
    through = own.Backend.default_device_backend_map.get(device.type, "gloo")
    place, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = own.PrefixStore(f"attempt-{attempt}", own.TCPStore(place, port, is_master=False))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    own.init_process_group(through, store=store, rank=rank, world_size=world)
    if through == "nccl":  # PyTorch warns of a group that is still there at the end
        atexit.register(own.destroy_process_group)


def compress(model: Any, precision: str) -> None:
    """Let gradients be sent, and added up, in half precision.

    The sum of W processes loses what half precision does not hold: gradients of fp16 below 6e-8
    are 0 and above 65,504 infinite; bf16 has the range of float32 and 8 bits of a number.

    Args:
        model: that the training engine wrapped; only `DistributedDataParallel` sends gradients so.
        precision: `fp16` or `bf16`.
    """
    own: Any = torch.distributed
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[precision]

    # PyTorch's own hook for bf16 wants NCCL; gloo adds in bfloat16, too.
    def sent(_: None, bucket: own.GradBucket) -> torch.futures.Future[Tensor]:
        whole = bucket.buffer()
        half = whole.to(dtype).div_(own.get_world_size())
        done = own.all_reduce(half, async_op=True).get_future()
        copied: torch.futures.Future[Tensor]
        copied = done.then(lambda found: whole.copy_(found.value()[0]))
        return copied

    model.register_comm_hook(None, sent)


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
