r"""Scenes: small pictures laid on a larger canvas, the same for the same seed.

- `cluttered` (Mnih et al. 2014, section 4.1): a picture at a random place, and pieces of other
  pictures at random places; without pieces it is the translated version.
- `cued` (a task where looking must pay): four pictures in the corners; a mark in the middle says
  in which corner the one stands that counts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError, nearest

__all__ = ["SCENES", "Cluttered", "Cued", "Scene", "built", "scene_of"]

T = TypeVar("T")

Pixels = NDArray[np.uint8]
Others = Callable[[int], Pixels]
"""Gives the n-th of the other pictures."""


@dataclass(frozen=True)
class Scene(ABC):
    """A way to lay a picture on a canvas.

    Args:
        size: of the canvas, each way.
        seed: of all scenes.
        copies: scenes that are made of each picture of the training data.
    """

    size: int = 60
    seed: int = 1
    copies: int = 1

    smallest: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.size < self.smallest or self.copies < 1 or self.seed < 0:
            raise RequestError(
                f"task.scene: expected a size of {self.smallest} or more, one copy or more and no "
                f"negative seed, got {self}"
            )

    @abstractmethod
    def lay(self, one: Pixels, others: Others, count: int, random: np.random.Generator) -> Pixels:
        """The canvas with a picture on it.

        Args:
            one: the picture that counts.
            others, count: the pictures that may be beside it, and how many there are.

        Shapes:
            pictures (h, w, channels), canvas (size, size, channels)
        """

    def canvas(self, one: Pixels) -> Pixels:
        """An empty one.

        Raises:
            RequestError: the picture is larger.
        """
        if max(one.shape[:2]) > self.size:
            high, wide = one.shape[:2]
            raise RequestError(
                f"task.scene.size is {self.size}; a picture of {wide} × {high} pixels does not fit"
            )
        return np.zeros((self.size, self.size, one.shape[2]), np.uint8)


@dataclass(frozen=True)
class Cluttered(Scene):
    """A picture at a random place, with pieces of others.

    Args:
        clutter: how many pieces.
        piece: pixels of a piece, each way.
    """

    clutter: int = 4
    piece: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clutter < 0 or not 1 <= self.piece <= self.size:
            raise RequestError(
                f"task.scene: expected no negative clutter, and pieces of 1 to {self.size} pixels, "
                f"got {self}"
            )

    def lay(self, one: Pixels, others: Others, count: int, random: np.random.Generator) -> Pixels:
        """The lighter one of two pixels is seen."""
        made = self.canvas(one)
        _put(made, one, random)
        for _ in range(self.clutter if count else 0):
            other = others(int(random.integers(count)))
            y, x = (int(random.integers(max(s - self.piece, 0) + 1)) for s in other.shape[:2])
            _put(made, other[y : y + self.piece, x : x + self.piece], random)
        return made


@dataclass(frozen=True)
class Cued(Scene):
    """Four pictures in the corners, and a mark in the middle that names one of them.

    Args:
        cell: pixels of each picture, each way; larger ones are made smaller by the mean of blocks.
        mark: pixels of the mark, each way.
    """

    size: int = 48
    cell: int = 14
    mark: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.cell, self.mark) < 2 or 2 * self.cell + self.mark > self.size:
            raise RequestError(
                f"task.scene: a mark of {self.mark} pixels between pictures of {self.cell} does "
                f"not fit on {self.size}"
            )

    def lay(self, one: Pixels, others: Others, count: int, random: np.random.Generator) -> Pixels:
        """The corners are numbered row by row; the mark is bright on the side of its corner."""
        made = np.zeros((self.size, self.size, one.shape[2]), np.uint8)
        corner = int(random.integers(4))
        far = self.size - self.cell
        for place in range(4):
            told = one if place == corner or not count else others(int(random.integers(count)))
            y, x = far * (place // 2), far * (place % 2)
            made[y : y + self.cell, x : x + self.cell] = shrunk(told, self.cell)
        start, half = (self.size - self.mark) // 2, self.mark // 2
        y, x = start + half * (corner // 2), start + half * (corner % 2)
        made[y : y + half, x : x + half] = 255
        return made


def shrunk(one: Pixels, side: int) -> Pixels:
    """A picture of `side` pixels each way: the means of blocks of the middle of a larger one.

    Raises:
        RequestError: it has fewer pixels.
    """
    factor = min(one.shape[:2]) // side
    if not factor:
        raise RequestError(
            f"task.scene.cell is {side}; a picture has {one.shape[1]} × {one.shape[0]} pixels"
        )
    y, x = ((s - factor * side) // 2 for s in one.shape[:2])
    middle = one[y : y + factor * side, x : x + factor * side].astype(np.float64)
    blocks = middle.reshape(side, factor, side, factor, -1).mean((1, 3))
    return np.asarray(blocks.round(), np.uint8)


SCENES: Mapping[str, type[Scene]] = {"cluttered": Cluttered, "cued": Cued}
"""What a recipe may name as `task.scene.name`."""


def scene_of(told: Mapping[str, Any]) -> Scene | None:
    """The scene that a mapping describes; None for an empty one.

    Raises:
        RequestError: an unknown name or key, or a number that cannot be.
    """
    if not told:
        return None
    name = told.get("name", "cluttered")
    if name not in SCENES:
        raise RequestError(f"task.scene: there is no {name!r}: {nearest(str(name), SCENES)}")
    return built(SCENES[name], {key: value for key, value in told.items() if key != "name"})


def built(kind: type[T], told: Mapping[str, Any], section: str = "task.scene") -> T:
    """A dataclass of whole numbers from a section of a recipe.

    Raises:
        RequestError: an unknown key, or no whole number.
    """
    known = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    for key, value in told.items():
        if key not in known:
            raise RequestError(f"{section} has no key {key!r}: {nearest(str(key), known)}")
        if not isinstance(value, int) or isinstance(value, bool):
            raise RequestError(f"{section}.{key}: expected a whole number, got {value!r}")
    return kind(**told)


def _put(canvas: Pixels, piece: Pixels, random: np.random.Generator) -> None:
    """Lay a piece at a random place, where all of it is on the canvas."""
    high, wide = piece.shape[:2]
    y, x = (
        int(random.integers(c - s + 1)) for c, s in zip(canvas.shape, (high, wide), strict=False)
    )
    there = canvas[y : y + high, x : x + wide]
    np.maximum(there, piece, out=there)
