"""How the weights of one head become bytes in a `.seen` file, and come back to what was stated.

u8    a byte a weight, in half percents of the row's largest: round(200 · w / s), where s is the
      largest, itself rounded up to half precision where it fits; off by ≤ s / 400. Of a head of
      more than `LARGE` weights only every e-th step is used where its mean is above `MEAN` steps
      (near-even weights: noise of which a page would hold gigabits); off by ≤ e · s / 400
i8    the same with a sign, in percents: round(100 · w / s), s the largest size; off by ≤ s / 200
f16   two bytes a weight, IEEE half precision
few   n steps of the row's largest, off by ≤ s / 2n, two weights a byte: `_few`
top   the largest k of a row: their places as differences, a byte a weight as in u8, the kept mass

Every blob is zlib's (deflate with a checksum). Bytes are compressed as runs and by how often they
come (`Z_RLE`): weights repeat no longer texts, and it is 8 times faster than looking for them.
"""

import math
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.viewer.seen_file.few_steps import few_of, from_few, size_of

__all__ = [
    "CODES",
    "HALF_MOST",
    "LARGE",
    "CompressedHead",
    "inflate",
    "keep_top",
    "pack",
    "pack_few",
    "unpack",
    "unpacked_size",
]

LEVELS, SIGNED = 200, 100
"""Steps of a row; fewer than a byte has, for they take a tenth less room and no eye sees more."""
LARGE, MEAN = 1 << 15, 22
"""A large head's mean stays below this many used steps: no numbers of that mean hold more than
log2(e · 22.5) = 5.93 bits each, so that any 144 heads of 512 × 512 fit 38 MB."""
HALF_MOST = 60_000.0
_BLOCK = 5  # zlib's Z_BLOCK, which Python does not name
CODES = ("u8", "i8", "f16", "few", "top")
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class CompressedHead:
    """One head as bytes.

    Args:
        blob: deflated.
        scale: of each row (R,); empty for f16.
        entries: how many weights were kept in all (top), or have a byte of their own (few).
        every: only each n-th step was used (u8 only).
        mass: of each row, the share that was kept (R,) in 1/255, rounded down (top only).
        fine: the steps of weights that have a byte of their own (few only).
        off: the largest difference to what was given, as it was measured (few only).
    """

    blob: bytes
    scale: Floats
    entries: int = 0
    mass: NDArray[np.uint8] | None = None
    every: int = 1
    fine: int = 0
    off: float = 0.0


def deflate(*parts: bytes) -> bytes:
    """As zlib, by runs and frequencies; those of each part are its own."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 15, 9, zlib.Z_RLE)
    done = []
    for part in parts[:-1]:
        done += [packer.compress(part), packer.flush(_BLOCK)]
    return b"".join([*done, packer.compress(parts[-1]), packer.flush()])


def inflate(blob: bytes, size: int, what: str) -> bytes:
    """What was deflated, which must have exactly `size` bytes; never more are allocated.

    Raises:
        RequestError: damaged bytes, or another size.
    """
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(blob, size + 1)
    except zlib.error as error:
        raise RequestError(f"{what} is damaged: {error}") from None
    if len(raw) != size or not unpacker.eof or unpacker.unused_data:
        raise RequestError(f"{what} is damaged: it should have {size} bytes when unpacked")
    return raw


def pack(weights: Floats, code: str, every: int = 1) -> CompressedHead:
    """One head by a code of `CODES` other than `top`.

    Args:
        every: at least each n-th step of u8 is used, which takes less room.

    Shapes:
        weights (R, C)
    """
    if code == "f16":
        return CompressedHead(deflate(weights.astype("<f2").tobytes()), np.zeros(0, np.float32))
    sign, levels = (np.abs(weights), SIGNED) if code == "i8" else (weights, LEVELS)
    scale = _scales(sign)
    safe = np.where(scale > 0, scale, 1).astype(np.float32)
    if code == "u8" and weights.size > LARGE:
        mean = float((weights.mean(1) / safe).mean()) * levels
        every = max(every, math.ceil(mean / MEAN))
    steps = np.minimum(np.rint(weights * (levels / every / safe)[:, None]) * every, levels)
    blob = deflate(steps.astype(np.int8 if code == "i8" else np.uint8).tobytes())
    return CompressedHead(blob, scale, every=every)


def pack_few(weights: Floats, steps: int) -> CompressedHead:
    """One head in this many steps.

    Shapes:
        weights (R, C)
    """
    scale = _scales(weights)
    made = few_of(weights, scale, steps)
    return CompressedHead(deflate(*made.parts), scale, made.large, fine=made.fine, off=made.off)


def _scales(sizes: Floats) -> Floats:
    """The largest of each row, never less, in half precision where all fit."""
    most = sizes.max(1, initial=0.0).astype(np.float32)
    if most.max(initial=0.0) > HALF_MOST:
        return np.asarray(most, dtype=np.float32)
    halves = most.astype(np.float16)
    low = halves.astype(np.float32) < most
    halves[low] = np.nextafter(halves[low], np.float16(np.inf))
    found: Floats = halves.astype(np.float32)
    return found


def keep_top(weights: Floats, k: int | None) -> CompressedHead:
    """One head's k largest weights of each row (all that are not zero where `k` is None).

    Shapes:
        weights (R, C)
    """
    rows, columns = weights.shape
    kept = weights > 0
    if k is not None and k < columns:
        places = np.argpartition(-weights, k - 1, axis=1)[:, :k]
        chosen = np.zeros_like(kept)
        np.put_along_axis(chosen, places, True, axis=1)
        kept &= chosen
    scale = _scales(weights)
    row, column = np.nonzero(kept)
    counts = kept.sum(1)
    first = np.zeros(len(row), bool)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]) if rows else np.zeros(0, int)
    first[starts[counts > 0]] = True
    deltas = np.where(first, column, column - np.concatenate([[0], column[:-1]]))
    safe = np.where(scale > 0, scale, 1)
    values = np.maximum(np.rint(weights[row, column] * LEVELS / safe[row]), 1).astype(np.uint8)
    planes = [(deltas >> (8 * i) & 255).astype(np.uint8).tobytes() for i in range(_wide(columns))]
    raw = b"".join([counts.astype("<u4").tobytes(), *planes, values.tobytes()])
    total = weights.sum(1)
    share = np.where(total > 0, (weights * kept).sum(1) / np.where(total > 0, total, 1), 1.0)
    mass = np.floor(np.clip(share, 0, 1) * 255).astype(np.uint8)
    return CompressedHead(deflate(raw), scale, len(row), mass)


def unpacked_size(code: str, rows: int, columns: int, entries: int) -> int:
    """How many bytes a head's blob has when unpacked."""
    if code == "few":
        return size_of(rows, columns, entries)
    if code == "top":
        return 4 * rows + entries * (_wide(columns) + 1)
    return rows * columns * (2 if code == "f16" else 1)


def unpack(
    blob: bytes,
    code: str,
    shape: tuple[int, int],
    scale: Floats,
    entries: int,
    what: str,
    steps: int = 0,
    fine: int = 0,
) -> Floats:
    """The weights of one head: (R, C).

    Args:
        steps, fine: of `few`.

    Raises:
        RequestError: damaged bytes, or places outside the row.
    """
    rows, columns = shape
    raw = inflate(blob, unpacked_size(code, rows, columns, entries), what)
    if code == "f16":
        return np.frombuffer(raw, "<f2").reshape(shape).astype(np.float32)
    if code == "few":
        return from_few(raw, shape, scale, steps, entries, fine, what)
    if code == "top":
        return _scatter(raw, shape, scale, entries, what)
    levels = np.frombuffer(raw, np.int8 if code == "i8" else np.uint8).reshape(shape)
    found: Floats = levels * (scale / np.float32(SIGNED if code == "i8" else LEVELS))[:, None]
    return found


def _scatter(raw: bytes, shape: tuple[int, int], scale: Floats, entries: int, what: str) -> Floats:
    rows, columns = shape
    counts = np.frombuffer(raw, "<u4", rows).astype(np.int64)
    if int(counts.sum()) != entries:
        raise RequestError(f"{what} is damaged: its rows do not add up to {entries} weights")
    wide = _wide(columns)
    planes = np.frombuffer(raw, np.uint8, wide * entries, 4 * rows).reshape(wide, entries)
    deltas = sum(
        (planes[i].astype(np.int64) << (8 * i) for i in range(wide)), np.zeros(entries, np.int64)
    )
    values = np.frombuffer(raw, np.uint8, entries, 4 * rows + wide * entries)
    row = np.repeat(np.arange(rows), counts)
    running = np.cumsum(deltas)
    before = np.concatenate([[0], running])[np.cumsum(counts) - counts] if rows else running
    column = running - before[row]
    if entries and (column.min() < 0 or column.max() >= columns):
        raise RequestError(f"{what} is damaged: a weight lies outside its row")
    found = np.zeros(shape, np.float32)
    found[row, column] = values * (scale / np.float32(LEVELS))[row]
    return found


def _wide(columns: int) -> int:
    """How many bytes the place of a column takes."""
    return 1 if columns <= 256 else 2 if columns <= 65536 else 3
