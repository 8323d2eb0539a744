"""The state of all random number generators, kept and restored."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

__all__ = ["random_state", "set_random_state"]


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
    """Restore the states of all random generators."""
    random.setstate(state["python"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
