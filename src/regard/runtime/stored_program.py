"""The parts of a `program.json`: its graphs with their constants."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError
from regard.runtime.graph import OperatorGraph
from regard.runtime.weights import sinusoid_table

__all__ = ["FORMAT", "PROGRAM", "BeyondProgram", "fit", "graph_of"]

PROGRAM = "program.json"
FORMAT = 1
"""The format that this version writes and reads."""


class BeyondProgram(RegardError):
    """An input is longer or shorter than the program's graphs are for."""


def graph_of(stored: Mapping[str, Any], weights: Mapping[str, NDArray[Any]]) -> OperatorGraph:
    """A graph with its constants.

    Raises:
        KeyError: a weight is not in the folder's file.
    """
    return OperatorGraph(
        stored, {name: _array(one, weights) for name, one in stored["constants"].items()}
    )


def _array(stored: Mapping[str, Any], weights: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    if "weight" in stored:
        return weights[stored["weight"]]
    if "sinusoid" in stored:
        return sinusoid_table(*stored["sinusoid"])
    flat = np.frombuffer(base64.b64decode(stored["base64"]), np.dtype(stored["dtype"]))
    return flat.reshape(stored["shape"])


def fit(name: str, size: int, bounds: tuple[int, int | None], what: str = "tokens") -> None:
    """Check that an input is of a size that the graph is for.

    Args:
        bounds: the least, and the most where something limits it.
        what: it is counted in.

    Raises:
        BeyondProgram: it is not.
    """
    low, high = bounds
    if size < low or (high is not None and size > high):
        most = "" if high is None else f", at most {high}"
        raise BeyondProgram(f"its {name} has at least {low} {what}{most}")
