"""Pictures read by a network that others trained: regions, computed when a batch has them."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.images.backbones import Backbone
from regard.data.images.images import PictureSource
from regard.errors import RequestError
from regard.fields.base import Field, Report
from regard.fields.image import ImageColumn, ImageField
from regard.protocols import Inputs

__all__ = ["RegionColumn", "RegionField"]


class RegionColumn(ImageColumn):
    """Pictures whose regions are computed, or read from disk, when a batch has them."""

    field: "RegionField"

    def collate(self, indices: NDArray[np.int64]) -> Inputs:
        """Regions (B, L, D), float32.

        Each picture goes through the network by itself: its regions never depend on others.
        """
        each = [self.field.backbone.regions(self.pixels(int(i))) for i in indices]
        return Inputs(torch.from_numpy(np.stack(each)))


class RegionField(ImageField):
    """A picture as `ImageField` reads it, and a batch of regions (B, L, D) of a frozen network.

    The network stays in its own file: a model folder holds its SHA-256, and another file is
    refused.

    Args:
        backbone: the network.
        size, channels, fit, vary: see `ImageField`.
    """

    kind: ClassVar[str] = "regions"

    def __init__(
        self, backbone: Backbone, size: int | Sequence[int] = 224, **settings: Any
    ) -> None:
        super().__init__(size, backbone.channels, normalize=False, **settings)
        self.backbone, self.digest, self.dim = backbone, "", 0

    def learn(self, values: Sequence[Any]) -> "RegionField":
        """With the file's SHA-256, and the numbers of a region.

        Raises:
            RequestError: the file cannot be used with such pictures.
        """
        made = copy(self)
        made.digest = self.backbone.digest
        empty = np.zeros((*self.size, self.channels), np.uint8)
        made.dim = replace(self.backbone, cache="").regions(empty).shape[1]
        return made

    @property
    def learned(self) -> bool:
        """Whether the network is known."""
        return bool(self.digest)

    def arguments(self) -> dict[str, int]:
        """`in_channels`: the numbers of a region."""
        return {"in_channels": self.dim}

    def encode(
        self,
        values: Sequence[PictureSource],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> RegionColumn:
        """The pictures, not yet read.

        Raises:
            RequestError: the network's file is gone, or is another one than in training.
        """
        if self.backbone.digest != self.digest:
            raise RequestError(
                f"task.backbone.path: {self.backbone.path} is not the network of the training "
                f"(SHA-256 {self.digest[:16]}…); name that one: "
                "--set 'task.backbone={path: FILE}'"
            )
        return RegionColumn(values, self)

    # -- saving

    def state(self) -> dict[str, Any]:
        """What tells the network, and the numbers of a region."""
        return {"sha256": self.digest, "dim": self.dim}

    def restored(self, state: Mapping[str, Any]) -> "RegionField":
        """With what was saved."""
        made = copy(self)
        digest, dim = state["sha256"], state["dim"]
        if not isinstance(digest, str) or not isinstance(dim, int) or not digest or dim < 1:
            raise ValueError("expected a text under 'sha256', a number of 1 or more under 'dim'")
        made.digest, made.dim = digest, dim
        return made
