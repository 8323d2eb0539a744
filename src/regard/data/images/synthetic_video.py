r"""Made clips: a picture that moves, grows, or over which the camera pans; the same for one seed.

There are no real clips with captions here that may be passed on. A made clip shows one picture on a
colored ground. For some frames nothing moves; at a random time one thing happens, for a few frames;
then nothing moves again. Which of two opposite motions it was is a matter of the order of frames
alone: both have the same frames.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from regard.data.images.images import resized
from regard.data.images.scenes import built
from regard.errors import RequestError

__all__ = ["MOTIONS", "Moving", "moving_of"]

Pixels = NDArray[np.uint8]

MOTIONS: Mapping[str, str] = {
    "left": "{} moves left",
    "right": "{} moves right",
    "up": "{} moves up",
    "down": "{} moves down",
    "grow": "{} grows",
    "shrink": "{} shrinks",
    "pan left": "the camera pans left over {}",
    "pan right": "the camera pans right over {}",
}
"""What may happen, and what is said of it; the camera that pans left shows things moving right."""
GROUND = 5
"""Colors of the ground each way, before they are blended."""


@dataclass(frozen=True)
class Moving:
    """How clips are made of pictures.

    Args:
        size: pixels of a frame, each way.
        frames: of a clip.
        moving: frames in which something moves.
        distance: pixels from its beginning to its end.
        seed: of all clips.
        copies: clips that are made of each picture of the training data.
    """

    size: int = 32
    frames: int = 12
    moving: int = 4
    distance: int = 10
    seed: int = 1
    copies: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.moving < self.frames or self.copies < 1 or self.seed < 0:
            raise RequestError(
                "task.scene: expected fewer frames that move than frames, one copy or more and no "
                f"negative seed, got {self}"
            )
        if not 1 <= self.distance <= self.size // 2 or self.size < 8:
            raise RequestError(
                "task.scene: expected 8 pixels or more, and a distance of at most half of them, "
                f"got size {self.size} and distance {self.distance}"
            )

    def motion(self, name: str, copy: int) -> str:
        """What happens in a clip: one of `MOTIONS`.

        Args:
            name: of the picture.
            copy: which of its clips.
        """
        return list(MOTIONS)[int(self._random(name, copy).integers(len(MOTIONS)))]

    def said(self, what: str, name: str, copy: int) -> str:
        """The caption of a clip.

        Example:
            >>> Moving(seed=3).said("a red ball", "ball.png", 0)
            'a red ball moves down'
        """
        return MOTIONS[self.motion(name, copy)].format(what)

    def clip(self, picture: Pixels, name: str, copy: int) -> Pixels:
        """The frames.

        Shapes:
            picture (h, w, channels) to (frames, size, size, channels)
        """
        random = self._random(name, copy)
        motion = list(MOTIONS)[int(random.integers(len(MOTIONS)))]
        side = self.size // 2 + int(random.integers(-2, 3))
        begin = int(random.integers(self.frames - self.moving))
        ground = _ground(random, self.size, self.distance, picture.shape[2])
        # From 0 to 1; opposite motions are one path, forth and back, so their frames are the same.
        way = np.clip((np.arange(self.frames) - begin) / self.moving, 0, 1)
        if motion in ("left", "up", "shrink", "pan left"):
            way = 1 - way
        axis = {"left": 1, "right": 1, "up": 0, "down": 0}.get(motion)
        room = np.array([self.size - side] * 2)
        if axis is not None:
            room[axis] = max(room[axis] - self.distance, 0)
        start = np.array([int(random.integers(max(r, 0) + 1)) for r in room])
        made = []
        for at in way:
            place, large, shift = start.copy(), side, self.distance
            if axis is not None:
                place[axis] += round(float(at) * self.distance)
            if motion in ("grow", "shrink"):
                large = side - self.distance // 2 + round(float(at) * self.distance)
                place = place + (side - large) // 2
            if motion.startswith("pan"):
                shift = round(float(at) * self.distance)  # to the right, over the ground
                place[1] += self.distance // 2 - shift
            frame = ground[:, shift : shift + self.size].copy()
            _lay(frame, resized(picture, (max(large, 1),) * 2), place)
            made.append(frame)
        return np.stack(made)

    def _random(self, name: str, copy: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, crc32(name.encode()), copy])


def moving_of(told: Mapping[str, Any]) -> Moving | None:
    """The clips that a mapping describes; None for an empty one.

    Raises:
        RequestError: an unknown key, or a number that cannot be.
    """
    return built(Moving, told) if told else None


def _ground(random: np.random.Generator, size: int, more: int, channels: int) -> Pixels:
    """Light blended colors, wider than a frame."""
    small = random.integers(140, 256, (GROUND, GROUND * 2, channels)).astype(np.uint8)
    return resized(small, (size, size + 2 * more))


def _lay(frame: Pixels, one: Pixels, place: NDArray[np.int64]) -> None:
    """Lay what of a picture is inside the frame; the darker of two pixels is seen."""
    top, left = (int(p) for p in place)
    y, x = max(-top, 0), max(-left, 0)
    part = one[y : max(frame.shape[0] - top, 0), x : max(frame.shape[1] - left, 0)]
    there = frame[top + y : top + y + part.shape[0], left + x : left + x + part.shape[1]]
    np.minimum(there, part, out=there)
