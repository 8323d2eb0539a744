"""The weights of a model folder as arrays, without PyTorch."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FILE", "STEPS", "read_weights", "sinusoid_table"]

FILE = "model.safetensors"
STEPS = ":steps"
"""Behind the name of a matrix of bytes: that of the steps of its rows, float32."""


def read_weights(folder: Path, noted: Mapping[str, Any]) -> dict[str, NDArray[Any]] | None:
    """Every weight by its name, those of bytes and halves as float32; None of a damaged file.

    Args:
        noted: what `config.json` notes about the file: `sha256`, and `tied` names.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        content = (folder / FILE).read_bytes()
        if hashlib.sha256(content).hexdigest() != noted.get("sha256"):
            return None
        stored = load(content)
    except (OSError, SafetensorError):
        return None
    found = {name: value for name, value in stored.items() if not name.endswith(STEPS)}
    for name, value in found.items():
        if value.dtype == np.int8:
            steps = stored[name + STEPS]
            found[name] = value * steps.reshape(-1, *[1] * (value.ndim - 1))
        elif value.dtype == np.float16:
            found[name] = value.astype(np.float32)
    tied: Mapping[str, str] = noted.get("tied") or {}
    return found | {name: found[kept] for name, kept in tied.items() if kept in found}


@lru_cache(maxsize=4)
def sinusoid_table(length: int, dim: int, layout: str) -> NDArray[np.float32]:
    """`layers.positional_encoding.sinusoid`: computed in float64."""
    half = (dim + 1) // 2
    index = np.arange(half, dtype=np.float64)
    exponent = -index / max(half - 1, 1) if layout == "halves" else -2 * index / dim
    angle = np.arange(length, dtype=np.float64)[:, None] * 10000.0**exponent
    both = np.sin(angle), np.cos(angle)
    if layout == "interleaved":
        table = np.stack(both, 2).reshape(length, -1)
    else:
        table = np.concatenate(both, 1)
    return table[:, :dim].astype(np.float32)
