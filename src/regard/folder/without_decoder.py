"""What programs without a decoder have alike: no settings to change, and a line is an input."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from regard.runtime.operators import Array

__all__ = ["WithoutDecoder"]


class WithoutDecoder(ABC):
    """A program that makes its answers without a search.

    Args:
        stored: what `program.json` says.
        folder: has its tokenizer, and whatever else it reads.
        weights: of the folder.
    """

    writes = False

    @abstractmethod
    def __init__(
        self, stored: Mapping[str, Any], folder: Path, weights: Mapping[str, Array]
    ) -> None:
        """Read what the program needs."""

    @classmethod
    def maker(
        cls, stored: Mapping[str, Any], changes: Mapping[str, Any]
    ) -> Callable[[Path, Mapping[str, Array]], Self] | None:
        """What makes the program; None where settings of a decoder are given: it has no decoder."""
        return None if changes else partial(cls, stored)

    def changed(self, changes: Mapping[str, Any]) -> Self | None:
        """Itself; None where settings of a decoder are given: it has none."""
        return None if changes else self

    def join(self, lines: Iterator[str]) -> Iterator[str]:
        """A line is an input."""
        return lines
