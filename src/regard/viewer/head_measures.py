"""Numbers that tell heads apart, so that one of hundreds can be found: sort and filter by them."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MEASURES", "measures", "redundancy", "thumbnails"]

Floats = NDArray[np.float32]

MEASURES = {
    "entropy": ("spread", "how spread, in bits; 0 looks at one place"),
    "sparsity": ("sparsity", "0 looks everywhere alike, 1 at one place (Hoyer)"),
    "distance": ("distance", "how many columns away it looks, on average"),
    "diagonal": ("diagonal", "share within one place of the diagonal"),
    "previous": ("previous", "share on the token before"),
    "next": ("next", "share on the token after"),
    "delimiter": ("delimiters", "share on special tokens and punctuation"),
    "redundancy": ("like another", "cosine with the most similar other head"),
    "links": ("given links", "share on the links that were given"),
}
"""What each is called and what it is, in the order they are offered."""


def measures(
    blocks: Iterable[tuple[int, Floats]],
    shape: tuple[int, int],
    delimiters: list[int],
    links: list[tuple[int, int]],
    own: bool,
) -> dict[str, list[float]]:
    """Of each head, averaged over the rows that look anywhere.

    Args:
        blocks: rows of all heads, each with the place of its first row; together all rows.
        shape: how many rows and columns there are.
        delimiters: columns that are special tokens or punctuation.
        links: known pairs of row and column.
        own: rows and columns are the same places (self-attention).

    Shapes:
        each block (H, r, C)
    """
    rows, columns = shape
    if not rows or not columns:
        return {}
    given: dict[int, list[int]] = {}
    for i, j in links:
        given.setdefault(i, []).append(j)
    sums: dict[str, NDArray[Any]] = {}
    for start, weights in blocks:
        for name, part in _sums(weights, start, rows, delimiters, given, own).items():
            sums[name] = sums[name] + part if name in sums else part
    some = np.maximum(sums.pop("some"), 1)
    counts = {"previous": rows - 1, "next": rows - 1, "links": max(len(given), 1)}
    return {
        name: [round(float(v), 4) for v in value / counts.get(name, some)]
        for name, value in sums.items()
    }


def _sums(
    weights: Floats,
    start: int,
    rows: int,
    delimiters: list[int],
    links: dict[int, list[int]],
    own: bool,
) -> dict[str, NDArray[Any]]:
    """Of a block of rows, (H,) each; "some" counts rows."""
    count, columns = weights.shape[1:]
    size = np.abs(weights)
    total = size.sum(2)  # (H, r)
    share = size / np.where(total > 0, total, 1)[:, :, None]
    place = np.arange(start, start + count)
    at = place.astype(np.float32)
    if not own and rows > 1:
        at = at * ((columns - 1) / (rows - 1))
    apart = np.abs(at[:, None] - np.arange(columns, dtype=np.float32))
    root = np.sqrt(np.float32(columns))  # Hoyer 2004: (√C − ‖w‖₁ / ‖w‖₂) / (√C − 1)
    norm = np.sqrt(np.einsum("hrc,hrc->hr", share, share))
    norm = np.where(norm > 0, norm, 1)
    sparse = np.where(total > 0, (root - 1 / norm) / max(float(root) - 1, 1e-6), 0)
    logs = np.log2(np.maximum(share, np.float32(1e-12)))
    found = {
        "some": (total > 0).sum(1),
        "entropy": -np.einsum("hrc,hrc->h", share, logs),
        "sparsity": sparse.sum(1) if columns > 1 else (total > 0).sum(1).astype(np.float32),
        "distance": np.einsum("hrc,rc->h", share, apart),
        "diagonal": np.einsum("hrc,rc->h", share, (apart <= 1).astype(np.float32)),
    }
    if own and rows == columns and rows > 1:
        for name, shift in (("previous", -1), ("next", 1)):
            there = (place + shift >= 0) & (place + shift < columns)
            found[name] = share[:, np.flatnonzero(there), place[there] + shift].sum(1)
    if delimiters:
        found["delimiter"] = share[:, :, delimiters].sum((1, 2))
    if links:
        pairs = [(i - start, j) for i in links if start <= i < start + count for j in links[i]]
        row, column = np.array(pairs, dtype=int).reshape(-1, 2).T
        found["links"] = share[:, row, column].sum(1)
    return found


def redundancy(heads: list[Floats]) -> tuple[list[float], list[int]]:
    """For each head, how like its most similar other head is (cosine), and which that is.

    Shapes:
        each (R, C), all the same
    """
    if len(heads) < 2:
        return [0.0] * len(heads), [-1] * len(heads)
    flat: Floats = np.stack([head.reshape(-1) for head in heads])
    norm = np.linalg.norm(flat, axis=1)
    flat = (flat / np.where(norm > 0, norm, 1)[:, None]).astype(np.float32)
    like = flat @ flat.T
    np.fill_diagonal(like, -1)
    most = like.argmax(1)
    return [round(float(v), 4) for v in like.max(1)], most.tolist()


def thumbnails(weights: Floats, size: int) -> NDArray[np.uint8]:
    """Every head in at most `size` × `size` cells: the largest weight of each, of the head's own.

    Shapes:
        weights (H, R, C); result (H, ≤ size, ≤ size)
    """
    heads, rows, columns = weights.shape
    pooled = np.abs(weights)
    for axis, length in ((1, rows), (2, columns)):
        if length > size:
            starts = (np.arange(size) * length) // size
            pooled = np.maximum.reduceat(pooled, starts, axis=axis)
    top = pooled.reshape(heads, -1).max(1, initial=0.0)
    scaled = pooled * (255 / np.where(top > 0, top, 1))[:, None, None]
    return np.ceil(scaled).astype(np.uint8)
