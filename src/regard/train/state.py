"""What a training is besides its weights: random states, checkpoints, files replaced at once."""

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import RegardError

__all__ = [
    "load_checkpoint",
    "load_weights",
    "random_state",
    "replace_file",
    "save_checkpoint",
    "save_weights",
    "set_random_state",
    "set_weights",
    "weights_of",
]


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` make a file beside `path`, then put it in place at once: never half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Save what resuming needs, at once."""
    replace_file(path, lambda beside: torch.save(dict(state), beside))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint: tensors and plain values only, never code.

    Raises:
        RegardError: the file cannot be read.
    """
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        why = str(error).partition("\n")[0]
        raise RegardError(
            f"{path}: cannot read this checkpoint ({why}); --fresh starts over"
        ) from None
    return state


def random_state() -> dict[str, Any]:
    """The states of all random generators of this process."""
    kind, keys, at, has_gauss, gauss = np.random.get_state()  # noqa: NPY002  (the global one)
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(np.array(keys, dtype=np.int64)), at, has_gauss, gauss),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    """Continue with the random numbers that would have come next."""
    random.setstate(state["python"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters (tied ones once) and buffers by name, not copied."""
    named = dict(model.named_parameters())
    kept = set(model.state_dict(keep_vars=True))
    return {**named, **{k: v for k, v in model.named_buffers() if k in kept}}


@torch.no_grad()
def set_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model, in place."""
    for name, tensor in weights_of(model).items():
        tensor.copy_(weights[name])


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Save weights as safetensors, at once."""
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    replace_file(path, lambda beside: save_file(plain, beside))


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read safetensors."""
    from safetensors.torch import load_file

    return load_file(path)
