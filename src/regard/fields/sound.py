"""Sounds: log-mel frames of each example, computed when a batch has it."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.addresses import address_of
from regard.data.audio import audio
from regard.data.audio.audio import Sound
from regard.data.audio.log_mel import HOP, differences, frame_count, log_mel
from regard.errors import RequestError
from regard.fields.base import Field, Report
from regard.fields.file_cells import AddressedField, Cache
from regard.protocols import Inputs

__all__ = ["SoundColumn", "SoundField"]

SAMPLE = 500
"""Sounds of the training data whose mean and deviation are taken."""
CACHED = 1 << 29
"""Bytes of frames that are kept; what is beyond is computed again."""


class SoundColumn:
    """Sounds whose frames are computed when a batch has them, and kept as far as they are few.

    Args:
        sounds: where they are.
        field: says how they are read.
        cache: frames that were computed.
    """

    def __init__(
        self, sounds: Sequence[Sound], field: "SoundField", cache: Cache | None = None
    ) -> None:
        self.sounds, self.field = list(sounds), field
        self.cache = cache or Cache(field.room)

    def __len__(self) -> int:
        return len(self.sounds)

    @property
    def addresses(self) -> list[str]:
        """Where each is, for who reads it by itself."""
        return [address_of(one) for one in self.sounds]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Frames of each sound."""
        return np.array([self.field.count(one) for one in self.sounds], np.int64)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Each counts once."""
        return np.ones(len(self), np.int64)

    def take(self, indices: NDArray[np.int64]) -> "SoundColumn":
        """Some of the sounds."""
        return SoundColumn([self.sounds[int(i)] for i in indices], self.field, self.cache)

    def frames(self, index: int) -> Tensor:
        """Log-mel frames of one sound (T, filters + 1), not yet normalized."""
        return self.cache.get(self.sounds[index], self.field.frames)

    def collate(self, indices: NDArray[np.int64]) -> Inputs:
        """Frames (B, T, D) float32, zeros behind the end, and how many."""
        each = [self.field.read_frames(self.frames(int(i))) for i in indices]
        lengths = torch.tensor([len(one) for one in each])
        return Inputs(torch.nn.utils.rnn.pad_sequence(each, batch_first=True), lengths)


class SoundField(AddressedField):
    """A sound: a file, or a member of a tar archive.

    A batch has frames (B, T, D) float32, one for every 10 ms: log-mel powers and the energy, with
    their first and second differences, D = 3 (filters + 1). Each of the D numbers has mean 0 and
    deviation 1 over the training data.

    Args:
        rate: samples a second, to which sounds of another rate are brought.
        filters: of the mel scale.
        target, of: see `Field`.
    """

    kind: ClassVar[str] = "sound"
    room = CACHED

    def __init__(
        self,
        rate: int = 16_000,
        filters: int = 40,
        *,
        target: bool = False,
        of: str | None = None,
    ) -> None:
        super().__init__(target=target, of=of)
        if not audio.SLOWEST <= rate <= audio.FASTEST:
            raise RequestError(
                f"rate: expected {audio.SLOWEST:,} to {audio.FASTEST:,} samples a second, "
                f"got {rate}"
            )
        if filters < 1:
            raise RequestError(f"filters: expected 1 or more, got {filters}")
        self.rate, self.filters = rate, filters
        self.mean: Tensor = torch.zeros(0)
        self.deviation: Tensor = torch.ones(0)

    # -- reading

    def found(self, address: str) -> Sound:
        """Where the sound is, and how long."""
        sound = audio.located(address, self._file)
        values, rate = audio.samples(sound)
        return replace(sound, seconds=len(values) / rate)

    def count(self, sound: Sound) -> int:
        """How many frames a sound has."""
        return frame_count(max(round(sound.seconds * self.rate), 1), self.rate)

    def frames(self, sound: Sound) -> Tensor:
        """Log-mel frames (T, filters + 1)."""
        values, rate = audio.samples(sound)
        return log_mel(audio.resampled(values, rate, self.rate), self.rate, self.filters)

    def read_frames(self, frames: Tensor) -> Tensor:
        """Frames as a model reads them: with differences, normalized."""
        wide = differences(frames)
        return (wide - self.mean) / self.deviation if len(self.mean) else wide

    # -- learning

    def learn(self, values: Sequence[Sound]) -> "SoundField":
        """With the mean and the deviation of each number, of some sounds of the training data."""
        made = copy(self)
        made.mean = torch.zeros(0)
        at = np.unique(np.linspace(0, len(values) - 1, SAMPLE).round().astype(int))
        total, squares, count = torch.zeros(1), torch.zeros(1), 0
        for i in at.tolist():
            wide = made.read_frames(made.frames(values[i])).double()
            total, squares = total + wide.sum(0), squares + wide.square().sum(0)
            count += len(wide)
        mean = total / count
        deviation = (squares / count - mean.square()).clamp(min=1e-4).sqrt()
        made.mean, made.deviation = mean.float(), deviation.float()
        return made

    @property
    def learned(self) -> bool:
        """Whether it knows the training data."""
        return len(self.mean) > 0

    def arguments(self) -> dict[str, int]:
        """`source_dim`: the numbers of a frame."""
        return {"source_dim": 3 * (self.filters + 1)}

    def encode(
        self,
        values: Sequence[Sound],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> SoundColumn:
        """The sounds, not yet read."""
        return SoundColumn(values, self)

    # -- saving

    def state(self) -> dict[str, Any]:
        """Rate, filters, and mean and deviation of each number."""
        return {
            "rate": self.rate,
            "filters": self.filters,
            "seconds": HOP,
            "mean": [round(v, 6) for v in self.mean.tolist()],
            "deviation": [round(v, 6) for v in self.deviation.tolist()],
        }

    def restored(self, state: Mapping[str, Any]) -> "SoundField":
        """With what was saved."""
        made = copy(self)
        if (state["rate"], state["filters"]) != (self.rate, self.filters):
            raise ValueError("its rate or filters are not those of the task")
        made.mean, made.deviation = (torch.tensor(state[k]) for k in ("mean", "deviation"))
        size = self.arguments()["source_dim"]
        if made.mean.shape != (size,) or made.deviation.shape != (size,):
            raise ValueError(f"expected {size} numbers under 'mean' and 'deviation'")
        if not made.mean.isfinite().all() or not (made.deviation > 0).all():
            raise ValueError("expected finite means, and deviations above 0")
        return made
