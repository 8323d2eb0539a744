"""Weights of a large head in few steps: the code `few` of a `.seen` file (docs/seen.md).

Each weight is one of n steps of its row's largest s, off by ≤ s / 2n, and those of 14.5 steps and
more a byte of their own, off by ≤ s / 400. Those below half a step are what is left of the row's
sum, the same for all of a row, and exactly 0 outside the columns where the row has any weight.

What bounds the room is the entropy of the steps. Seen from the rows above it is a third less than
alone: the column's mean m, in steps of this row, says which of 16 contexts a weight is in, and the
steps of each context are deflated together, two in a byte.

    m ← m + (min(l, 15) · s − m) / 4 after each row, n / C at first
    context of the next row: how many of `EDGES` are ≤ m / s; 0 where s is 0

A byte's two halves have to come out alike in Python and in the page, so that everything that says
where a weight is kept is IEEE double precision in this order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError

__all__ = ["LEAST", "MOST", "Few", "few_of", "from_few", "size_of"]

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Bytes = NDArray[np.uint8]

LEAST, MOST = 8, 64
"""Steps that this code is for; with more, a byte a weight takes as little room."""
LARGE = 15
"""The half of a byte that says: a byte follows."""
FINE = 200
"""Steps of those bytes; n where more than a `CROWD`-th of the weights is large (near-even heads,
of which a page would hold noise)."""
CROWD = 16
EDGES = np.array(
    [1 / 32, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 3 / 2, 2, 3, 4, 6, 10]
)
"""In steps; exact in binary."""
CONTEXTS = len(EDGES) + 1


@dataclass(frozen=True)
class Few:
    """One head, before it is deflated.

    Args:
        parts: how many weights each context has (16 × u32), a byte a row (what its small weights
            are, in 1/255 of half a step), where each row's weights begin, and where they end (the
            difference from the row above, i32, in four planes of bytes each), min(l, 15) of each
            weight by context, two in a byte, the first in its larger half, then the bytes of
            large ones, row by row; cut where deflate should count again how often bytes come.
        large: how many are large.
        fine: the steps of large ones.
        off: the largest difference to what was given.
    """

    parts: list[bytes]
    large: int
    fine: int
    off: float


def few_of(weights: Floats, scale: Floats, steps: int) -> Few:
    """One head in this many steps.

    Args:
        scale: the largest of each row, or a little more (R,).

    Shapes:
        weights (R, C), none negative
    """
    columns = weights.shape[1]
    s = scale.astype(np.float64)
    safe = np.where(s > 0, s, 1.0)[:, None]
    share = weights / safe
    half = np.minimum(np.rint(share * steps), LARGE).astype(np.uint8)
    big = half == LARGE
    fine = steps if int(big.sum()) * CROWD > weights.size else FINE
    large = np.minimum(np.rint(share[big] * fine), fine).astype(np.uint8)
    some = weights > 0
    first = np.where(some.any(1), some.argmax(1), 0)
    last = np.where(some.any(1), columns - some[:, ::-1].argmax(1), 0)
    shown = half / np.float64(steps)
    shown[big] = large / np.float64(fine)
    low = (half == 0) & _inside(first, last, columns)
    left = (share.sum(1) - shown.sum(1)) / np.maximum(low.sum(1), 1)
    small = np.clip(np.rint(left * (510 * steps)), 0, 255).astype(np.uint8)
    shown += np.where(low, (small / np.float64(510 * steps))[:, None], 0.0)
    off = float(np.abs(shown * s[:, None] - weights).max(initial=0.0))
    contexts = _contexts(half, s, steps).reshape(-1)
    halves = half.reshape(-1)[np.argsort(contexts, kind="stable")]
    halves = np.append(halves, np.zeros(len(halves) % 2, np.uint8))
    counts = np.bincount(contexts, minlength=CONTEXTS)
    head = [counts.astype("<u4"), small, _planes(first), _planes(last)]
    packed = np.split(halves[0::2] << 4 | halves[1::2], np.cumsum(counts[:-1]) // 2)
    parts = [b"".join(part.tobytes() for part in head), *(part.tobytes() for part in packed)]
    return Few([*parts, large.tobytes()], len(large), fine, off)


def from_few(
    raw: bytes, shape: tuple[int, int], scale: Floats, steps: int, large: int, fine: int, what: str
) -> Floats:
    """The weights of one head: (R, C).

    Args:
        raw: as many bytes as `size_of` says.

    Raises:
        RequestError: the bytes do not say what they should.
    """
    rows, columns = shape
    ends = np.cumsum(np.frombuffer(raw, "<u4", CONTEXTS).astype(np.int64))
    at = 4 * CONTEXTS
    small = np.frombuffer(raw, np.uint8, rows, at)
    first, last = (_unplane(raw, rows, at + rows + 4 * rows * i) for i in (0, 1))
    packed = np.frombuffer(raw, np.uint8, -(-rows * columns // 2), at + 9 * rows)
    halves = np.stack([packed >> 4, packed & 15], -1).reshape(-1)[: rows * columns]
    if ends[-1] != rows * columns:
        raise RequestError(f"{what} is damaged: its steps are not as many as its weights")
    place = np.append(0, ends[:-1])
    s = scale.astype(np.float64)
    half = np.zeros(shape, np.uint8)
    mean = np.full(columns, steps / max(columns, 1))
    for r in range(rows):
        now = _context(mean, s[r : r + 1])
        count = np.bincount(now, minlength=CONTEXTS)
        if (place + count > ends).any():
            raise RequestError(f"{what} is damaged: a context has fewer steps than weights")
        begin = np.repeat(place - (np.cumsum(count) - count), count)
        half[r, np.argsort(now, kind="stable")] = halves[np.arange(columns) + begin]
        place = place + count
        mean += (half[r] * s[r] - mean) / 4
    big = half == LARGE
    if int(big.sum()) != large:
        raise RequestError(f"{what} is damaged: it has not {large} large weights")
    shown = half / np.float64(steps)
    shown[big] = np.frombuffer(raw, np.uint8, large, len(raw) - large) / np.float64(fine)
    low = (half == 0) & _inside(first, last, columns)
    shown += np.where(low, (small / np.float64(510 * steps))[:, None], 0.0)
    return np.asarray(shown * s[:, None], dtype=np.float32)


def size_of(rows: int, columns: int, large: int) -> int:
    """How many bytes a head has before it is deflated."""
    return 4 * CONTEXTS + 9 * rows + -(-rows * columns // 2) + large


def _contexts(half: Bytes, scale: Doubles, steps: int) -> Bytes:
    """Of every weight, from the rows above it: (R, C)."""
    rows, columns = half.shape
    seen = half * scale[:, None]
    means = np.empty((rows, columns))
    mean = np.full(columns, steps / max(columns, 1))
    for r in range(rows):
        means[r] = mean
        mean += (seen[r] - mean) / 4
    return _context(means, scale[:, None])


def _context(mean: Doubles, scale: Doubles) -> Bytes:
    ratio = np.divide(mean, scale, out=np.zeros_like(mean), where=scale > 0)
    return np.searchsorted(EDGES, ratio, side="right").astype(np.uint8)


def _inside(first: NDArray[np.int64], last: NDArray[np.int64], columns: int) -> NDArray[np.bool_]:
    c = np.arange(columns)
    return (c >= first[:, None]) & (c < last[:, None])


def _planes(places: NDArray[np.int64]) -> Bytes:
    """Differences as u32, byte by byte: mostly the same."""
    deltas = np.diff(places, prepend=0).astype("<i4")
    return deltas.view(np.uint8).reshape(-1, 4).T


def _unplane(raw: bytes, rows: int, at: int) -> NDArray[np.int64]:
    planes = np.frombuffer(raw, np.uint8, 4 * rows, at).reshape(4, rows)
    deltas = np.ascontiguousarray(planes.T).view("<i4").reshape(-1)
    return np.cumsum(deltas.astype(np.int64))
