"""Sounds as samples: WAV, FLAC, Ogg Vorbis, MP3 and what else libsndfile reads."""

import io
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.addresses import FileError, content, place_of
from regard.errors import RequestError
from regard.system.extras import install

__all__ = ["Sound", "SoundError", "located", "resampled", "samples", "wav"]

Samples = NDArray[np.float32]

SLOWEST, FASTEST = 4_000, 192_000
"""Samples a second."""
LOUDEST, UNDIVIDED = 32_768.0, 16.0
"""Of a sample. Sounds are from -1 to 1; where one is above `UNDIVIDED`, they are numbers of 16 bits
that were not divided."""
LONGEST = 4 * 3600
"""Seconds of a sound; longer ones are refused before they are decoded."""
STREAMED = 0x7FFF0000
"""Bytes of samples that a WAV file announces where its writer did not know how many come."""
HEARD = 1 << 24
"""Bytes of a sound that a page has; longer ones are seen and not heard."""


class SoundError(FileError):
    """What stands at an address is no sound that can be used."""


@dataclass(frozen=True)
class Sound:
    """Where a sound is.

    Args:
        name: the address as it was written.
        place: the file.
        inside: the member of an archive; "": the file itself.
        seconds: how long it is.
    """

    name: str
    place: str
    inside: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return self.name


def located(address: str, file: str = "") -> Sound:
    """Where the sound of an address is; see `addresses.place_of`.

    Raises:
        SoundError: there is no such file.
    """
    try:
        return Sound(address, *place_of(address, file))
    except RequestError as error:
        raise SoundError("no such sound", str(error)) from None


def samples(sound: Sound) -> tuple[Samples, int]:
    """(the samples of a sound from -1 to 1, how many a second); channels are averaged.

    Raises:
        SoundError: it is empty, damaged, too long, or no sound.
    """
    library = _library()
    try:
        held = content(sound.place, sound.inside)
    except (RequestError, OSError) as error:
        raise SoundError("no such sound", str(error)) from None
    if not held:
        raise SoundError("empty sound", "0 bytes")
    try:
        with library.SoundFile(io.BytesIO(_with_size(held))) as opened:
            rate, count = opened.samplerate, len(opened)
            if not SLOWEST <= rate <= FASTEST:
                raise SoundError("strange rate", f"{rate:,} samples a second")
            if count > LONGEST * rate:
                raise SoundError("sound too long", f"more than {LONGEST // 3600} hours")
            found = opened.read(count, dtype="float32", always_2d=True)  # GSM cannot seek
    except (library.LibsndfileError, RuntimeError, ValueError) as error:  # of GSM: ValueError
        kind = "damaged sound" if _begins_as_sound(held) else "no sound"
        said = str(error).strip().removesuffix(".").rpartition(">: ")[2].removeprefix("Error : ")
        raise SoundError(kind, said or "libsndfile cannot read it") from None
    if (there := _cut_off(held)) is not None:
        raise SoundError("damaged sound", "{:,} of {:,} bytes of samples".format(*there))
    if len(found) < count:
        raise SoundError("damaged sound", f"{len(found):,} of {count:,} samples")
    if not len(found):
        raise SoundError("empty sound", "no samples")
    if not np.isfinite(found).all():
        raise SoundError("damaged sound", "samples that are no numbers")
    if (loudest := float(np.abs(found).max())) > LOUDEST:
        raise SoundError("damaged sound", f"a sample of {loudest:.3g}, from -1 to 1 expected")
    if loudest > UNDIVIDED:
        found = found / np.float32(LOUDEST)
    return np.ascontiguousarray(found.mean(1)), rate


def wav(sound: Sound) -> bytes | None:
    """The sound as a WAV file of one channel and 16 bits, which every browser plays and seeks in.

    None for one of more than `HEARD` bytes.

    Raises:
        SoundError: as `samples`.
    """
    values, rate = samples(sound)
    if 2 * len(values) > HEARD:
        return None
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes((np.clip(values, -1, 1) * 32767).round().astype("<i2").tobytes())
    return buffer.getvalue()


def resampled(values: Samples, rate: int, wanted: int) -> Samples:
    """The same sound at another rate, as the trigonometric polynomial through its samples.

    What is above half of the lower rate is cut off. Ends are mirrored, so that they do not ring.

    Example:
        >>> t = np.arange(800, dtype=np.float32) / 8000
        >>> made = resampled(np.sin(2 * np.pi * 440 * t), 8000, 16000)
        >>> bool(np.abs(made[::2] - np.sin(2 * np.pi * 440 * t)).max() < 0.02)
        True
    """
    if rate == wanted or not len(values):
        return values
    up, down = wanted // gcd(rate, wanted), rate // gcd(rate, wanted)
    both = np.concatenate([values, values[::-1]])
    count = len(both) + -len(both) % down  # so that the period has a whole number of samples
    both = np.pad(both, (0, count - len(both)), mode="edge")
    size = count * up // down
    spectrum = np.fft.rfft(both.astype(np.float64))
    made = np.fft.irfft(spectrum[: size // 2 + 1], size) * (size / count)
    length = max(round(len(values) * up / down), 1)
    return np.ascontiguousarray(made[:length], np.float32)


def _library() -> Any:
    try:
        import soundfile  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise RequestError(
            f"sounds are read by soundfile, which is not installed: {install('speech')}"
        ) from None
    return soundfile


def _with_size(held: bytes) -> bytes:
    """A WAV file with all its samples announced: programs that write to a pipe announce none."""
    for at, size in _chunks(held):
        if held[at : at + 4] == b"data" and not size and at + 8 < len(held):
            there = (len(held) - at - 8).to_bytes(4, "little")
            return held[: at + 4] + there + held[at + 8 :]
    return held


def _chunks(held: bytes) -> Iterator[tuple[int, int]]:
    """Where each chunk of a WAV file begins, and how many bytes it announces."""
    at = 12
    while held[:4] == b"RIFF" and held[8:12] == b"WAVE" and at + 8 <= len(held):
        size = int.from_bytes(held[at + 4 : at + 8], "little")
        yield at, size
        at += 8 + size + size % 2


def _cut_off(held: bytes) -> tuple[int, int] | None:
    """Of a WAV file that ends too soon: (bytes of samples that are there, that it announces).

    libsndfile reads what is there and says nothing. Programs that write to a pipe announce 0, or
    nearly as much as the field holds.
    """
    for at, size in _chunks(held):
        there = len(held) - at - 8
        if held[at : at + 4] == b"data":
            return (there, size) if there < size < STREAMED else None
    return None


def _begins_as_sound(held: bytes) -> bool:
    return held[:4] in (b"RIFF", b"fLaC", b"OggS", b"FORM", b"RF64") or held[:3] == b"ID3"
