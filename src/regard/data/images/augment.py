"""Pictures a little changed, for training sets that are small: the same for the same seed."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from regard.errors import RequestError

__all__ = ["Varied"]

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Varied:
    """How a training picture is changed: turned, made larger or smaller, moved, lighter or darker.

    Each number is the most of a change, whose amount is drawn evenly from both sides of none. What
    comes into the picture from outside has the color of its nearest edge.

    Args:
        copies: changed pictures of each picture of the training data.
        turn: degrees.
        zoom: percent of the size.
        shift: percent of the size, each way.
        light: percent by which all numbers are multiplied.
        blur: the picture is made smaller by up to this percent, then as large as before.
        seed: of all changes.
    """

    copies: int = 10
    turn: int = 10
    zoom: int = 15
    shift: int = 8
    light: int = 15
    blur: int = 50
    seed: int = 1

    def __post_init__(self) -> None:
        parts = (self.turn, self.zoom, self.shift, self.light, self.blur)
        if self.copies < 1 or self.seed < 0 or min(parts) < 0 or max(parts) > 90:
            raise RequestError(
                "task.vary: expected one copy or more, no negative seed, and changes from 0 to 90, "
                f"got {self}"
            )

    def changed(self, one: Pixels, random: np.random.Generator) -> Pixels:
        """The picture, as one draw changes it.

        Shapes:
            (height, width, channels) to the same

        Example:
            >>> white = np.full((8, 8, 3), 255, np.uint8)
            >>> made = Varied(light=0).changed(white, np.random.default_rng(1))
            >>> made.shape, int(made.min())
            ((8, 8, 3), 255)
        """
        drawn = random.uniform(-1, 1, 6)
        angle = math.radians(self.turn * drawn[0])
        scale = 1 + self.zoom / 100 * drawn[1]
        move = self.shift / 50 * drawn[2:4]  # the picture goes from -1 to 1
        high, wide = one.shape[:2]
        values = torch.from_numpy(one.transpose(2, 0, 1).astype(np.float32))[None]
        small = 1 - self.blur / 100 * max(drawn[5], 0.0)
        if small < 1:
            size = [max(2, round(side * small)) for side in (high, wide)]
            values = F.interpolate(values, size, mode="bilinear", antialias=True)
        cos, sin = math.cos(angle) / scale, math.sin(angle) / scale
        theta = torch.tensor(
            [[cos, -sin * high / wide, move[0]], [sin * wide / high, cos, move[1]]],
            dtype=torch.float32,
        )
        grid = F.affine_grid(theta[None], [1, values.shape[1], high, wide], align_corners=False)
        made = F.grid_sample(values, grid, padding_mode="border", align_corners=False)[0]
        made = made * (1 + self.light / 100 * drawn[4])
        found = made.round().clamp(0, 255).to(torch.uint8)
        return np.ascontiguousarray(found.permute(1, 2, 0).numpy())
