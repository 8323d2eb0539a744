"""Weights that several processes have in memory once: a file that each of them maps.

What is loaded is the same for all, so the first process writes it as a safetensors file of its own
(float32, as it is computed with; folders may hold halves, and their files may be overwritten), and
every process puts mapped tensors in the place of its own. Pages that nobody writes stay shared.
"""

import hashlib
import os
import tempfile
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.system.heap import hand_back

__all__ = ["shared"]


def shared(model: nn.Module, folder: Path, digest: str) -> None:
    """Put weights that are mapped from a file in `folder` in the place of the model's own.

    Args:
        digest: of the weights; two models of one digest have the same numbers.
    """
    own: dict[str, Tensor] = {}
    same: dict[str, list[Tensor]] = {}
    seen: dict[tuple[int, object, object], str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not tensor.numel():
            continue
        place = (tensor.data_ptr(), tensor.shape, tensor.stride())
        first = seen.setdefault(place, name)  # tied weights are there once
        own.setdefault(first, tensor.detach())
        same.setdefault(first, []).append(tensor)
    kinds = sorted(f"{name} {t.dtype} {tuple(t.shape)}" for name, t in own.items())
    called = hashlib.sha256("\n".join([digest, *kinds]).encode()).hexdigest()[:32]
    path = folder / f"{called}.safetensors"
    if not path.exists():
        _write(own, path)
    for name, mapped in load_file(path).items():
        for tensor in same[name]:
            tensor.data = mapped
    del own
    hand_back()


def _write(tensors: dict[str, Tensor], path: Path) -> None:
    """Whole or not at all; where another process was faster, its file stays."""
    handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".part")
    os.close(handle)
    try:
        save_file({name: one.contiguous() for name, one in tensors.items()}, beside)
        try:
            os.link(beside, path)
        except FileExistsError:
            return
    finally:
        os.unlink(beside)
