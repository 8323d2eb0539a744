"""Sharded weights: every process holds a part of each tensor (PyTorch's FSDP2).

Validation, averaged files and checkpoints use unsharded weights, so neither checkpoints nor folders
depend on the number of processes.
"""

import copy
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from regard.train.checkpoints import weights_of

__all__ = ["copy_weights", "like", "local", "sharded", "whole"]


def sharded(model: nn.Module, optimizer: Optimizer, mesh: DeviceMesh) -> nn.Module:
    """A sharded copy of a model; the optimizer is moved to the copy.

    Each member of an `nn.ModuleList` (a layer) is gathered when it is called and freed afterwards;
    the rest of the model is gathered while the model is called. So `forward` must call its layers;
    otherwise PyTorch raises an error about mixed tensors.
    """
    copied = copy.deepcopy(model)
    for parent in copied.modules():
        if isinstance(parent, nn.ModuleList):
            for layer in parent:
                # A list in a list is never called; its members are layers of their own.
                if not isinstance(layer, nn.ModuleList) and any(True for _ in layer.parameters()):
                    fully_shard(layer, mesh=mesh)
    fully_shard(copied, mesh=mesh)
    pairs = zip(model.parameters(), copied.parameters(), strict=True)
    now: dict[Tensor, Tensor] = dict(pairs)
    for group in optimizer.param_groups:
        group["params"] = [now[p] for p in group["params"]]
    state = {
        now[p]: {key: like(value, now[p]) for key, value in values.items()}
        for p, values in optimizer.state.items()
    }
    optimizer.state = defaultdict(dict, state)
    return copied


def like(value: Any, model: Tensor) -> Any:
    """A tensor sharded like `model`, if it has its shape (optimizer states, averages)."""
    if isinstance(model, DTensor) and isinstance(value, Tensor) and value.shape == model.shape:
        return distribute_tensor(value.to(model.device), model.device_mesh, model.placements)
    return value


def local(tensor: Tensor) -> Tensor:
    """The local shard of a tensor, sharing its memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(value: Any, *, keep: bool = True) -> Any:
    """Values with every sharded tensor gathered into CPU memory.

    All processes must call it.

    Args:
        value: nested dictionaries, lists and tuples.
        keep: whether this process needs the sharded tensors; the others get None.
    """
    if isinstance(value, DTensor):
        full: Tensor = DTensor.full_tensor(value.detach())  # type: ignore[arg-type]
        return full.cpu() if keep else None
    if isinstance(value, dict):
        return {key: whole(item, keep=keep) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(whole(item, keep=keep) for item in value)
    return value


@torch.no_grad()
def copy_weights(source: nn.Module, target: nn.Module) -> None:
    """Copy the weights of a sharded model to an unsharded one; all processes must call it."""
    weights = weights_of(source)
    for name, tensor in weights_of(target).items():
        tensor.copy_(whole(weights[name]))
