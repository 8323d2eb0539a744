"""The state of a training besides its weights: random states and checkpoints, saved atomically."""

import os
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.system.files import replace_file

__all__ = [
    "load_checkpoint",
    "load_weights",
    "restoring",
    "same_model",
    "save_checkpoint",
    "save_weights",
    "seed_all",
    "set_weights",
    "weights_of",
]


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Save a checkpoint atomically."""

    def write(beside: Path) -> None:
        failed: list[OSError] = []
        with open(beside, "wb") as file:
            try:
                torch.save(dict(state), cast(BinaryIO, _Watched(file, failed)))
            except RuntimeError:
                if failed:  # torch says "unexpected pos" where the disk is full
                    raise failed[0] from None
                raise

    replace_file(path, write)


class _Watched:
    """A file that remembers write errors, which PyTorch does not report."""

    def __init__(self, file: BinaryIO, failed: list[OSError]) -> None:
        self.file, self.failed = file, failed

    def write(self, content: Any) -> int:
        try:
            return self.file.write(content)
        except OSError as error:
            self.failed.append(error)
            raise

    def flush(self) -> None:
        self.file.flush()


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint: tensors and plain values only, never code.

    Raises:
        RegardError: the file cannot be read.
    """
    with restoring(path):
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


@contextmanager
def restoring(path: Path) -> Iterator[None]:
    """Report any error in a checkpoint as a damaged file.

    PyTorch's own message suggests loading the file in a way that executes code.

    Raises:
        RegardError: on any error.
    """
    try:
        yield
    except RegardError:
        raise
    except Exception as error:
        raise RegardError(
            f"{path}: this checkpoint is damaged, or none of this training; --fresh starts over"
        ) from error


@contextmanager
def same_model(path: Path) -> Iterator[None]:
    """Say of weights that do not fit which ones, and what may have changed.

    Raises:
        RegardError: the checkpoint is whole, and of another model.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        first = next((line.strip() for line in str(error).splitlines()[1:]), str(error))
        raise RegardError(
            f"{path}: written by another model than this command makes ({first.rstrip('. ')}): "
            "the program or the files of its tokenizers changed since; --fresh starts over"
        ) from error


def seed_all(*numbers: int) -> None:
    """Seed all random generators with numbers that follow from several."""
    drawn = np.random.SeedSequence(numbers).generate_state(3).tolist()
    random.seed(drawn[0])
    np.random.seed(drawn[1])  # noqa: NPY002  (the global one)
    torch.manual_seed(drawn[2])


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
    """Save weights as safetensors, atomically."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}

    def write(beside: Path) -> None:
        try:
            save_file(plain, beside)
        except SafetensorError as error:
            if number := re.search(r"os error (\d+)", str(error)):
                raise OSError(int(number[1]), os.strerror(int(number[1]))) from None
            raise

    replace_file(path, write)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read safetensors."""
    from safetensors.torch import load_file

    return load_file(path)
