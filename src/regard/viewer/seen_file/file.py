"""The `.seen` file: a header that says what there is, then the weights (docs/seen.md has it all).

    8 bytes   89 53 45 45 4E 0A 01 00    "SEEN", a line end, version 1
    u32, u32  bytes of the header as it is in the file, and unpacked; little endian
    u32       CRC-32 of everything that follows
    header    JSON, deflated by zlib
    blobs     where the header says, counted from the end of the header

Nothing in a file is trusted: every count is checked against the bytes that are there before memory
is taken, and every blob has a checksum.
"""

import json
import re
import struct
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import RequestError
from regard.system.plain_json import read_json
from regard.viewer._drawable import DrawableView
from regard.viewer.head_measures import measures, redundancy, thumbnails
from regard.viewer.labels import visible
from regard.viewer.overview import overview, wants_overview
from regard.viewer.seen_file.codec import (
    HALF_MOST,
    LARGE,
    CompressedHead,
    Floats,
    deflate,
    inflate,
    keep_top,
    pack,
    pack_few,
)
from regard.viewer.seen_file.contents import RATIO, view_of
from regard.viewer.seen_file.few_steps import LEAST as COARSEST
from regard.viewer.seen_file.few_steps import MOST as FINEST
from regard.viewer.seen_file.panels import row_of
from regard.views import View

__all__ = ["MAGIC", "dump", "parse", "read"]

MAGIC = b"\x89SEEN\n\x01\x00"
START = len(MAGIC) + 12
THUMB = 32
"""Cells of the overview's pictures each way, kept for heads of more weights than `LARGE`."""
PRECISE = 200
"""The precision of code u8."""
OVERVIEW = 4
"""Of an overview's weights only every n-th step is used: off by at most s / 100."""
_MOST = 1 << 28  # bytes of a header, unpacked


def dump(
    view: View, *, code: str | None = None, top_k: int | None = None, precision: int = PRECISE
) -> bytes:
    """The file's bytes.

    Args:
        precision: steps of each row's largest in heads of more than `LARGE` weights.

    Raises:
        RequestError: weights that are no numbers, a code that is not had, or no such precision.
    """
    if code is not None and code not in ("u8", "f16"):
        raise RequestError(f'code: expected "u8" or "f16", got {code!r}')
    if top_k is not None and top_k < 1:
        raise RequestError(f"top_k: expected a number from 1 up, got {top_k}")
    if not (COARSEST <= precision <= FINEST or precision == PRECISE):
        raise RequestError(
            f"precision: expected {COARSEST} to {FINEST} steps of each row's largest, or "
            f"{PRECISE}, got {precision}"
        )
    found: dict[int, dict[str, list[float]]] = {}
    maps_now = list(view.maps)
    for m, one in enumerate(view.maps):
        if code is None and top_k is None and wants_overview(view, one):
            maps_now[m], found[m] = overview(view, one)
    view = replace(view, maps=maps_now)
    blobs = _Blobs()
    sides = []
    for side in view.axes:
        row = side.as_json()
        if side.image is not None:
            row["image"] = blobs.add(side.image)
        if side.audio is not None:
            row["audio"] = blobs.add(side.audio)
        sides.append(row)
    with ThreadPoolExecutor(2) as pool:  # zlib works without the interpreter's lock
        packed = pool.map(
            lambda m: _pack_map(view, m, code, top_k, precision), range(len(view.maps))
        )
        maps = [row | _place(row.pop("_packed"), row.pop("_thumbs"), blobs) for row in packed]
    for m, known in found.items():
        maps[m]["measures"] = known
    for group in _alike(view, maps):
        _add_redundancy(view, maps, group)
    head = {
        "title": view.title,
        "source": view.source,
        "sides": sides,
        "maps": maps,
        "runs": [row_of(run, view.maps) for run in view.runs],
    }
    return assemble(head, blobs.parts)


def assemble(head: dict[str, Any], blobs: Sequence[bytes | memoryview]) -> bytes:
    """A file of a header and what it speaks of."""
    try:
        text = json.dumps(head, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise RequestError("scores and numbers beside the rows must be finite to be kept") from None
    # Half a surrogate pair is no text: UTF-8 cannot write it.
    raw = re.sub("[\ud800-\udfff]", lambda half: visible(half[0]), text).encode()
    small = zlib.compress(raw, 9)
    check = zlib.crc32(small)
    for blob in blobs:
        check = zlib.crc32(blob, check)
    return b"".join([MAGIC, struct.pack("<III", len(small), len(raw), check), small, *blobs])


class _Blobs:
    """Bytes one after another, and where each begins."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, blob: bytes) -> list[int]:
        self.parts.append(blob)
        self.size += len(blob)
        return [self.size - len(blob), len(blob)]


def _pack_map(
    view: View, m: int, code: str | None, top_k: int | None, precision: int
) -> dict[str, Any]:
    one = view.maps[m]
    weights = one.weights
    if not np.isfinite(weights).all():
        raise RequestError(f"{one.name}: weights to be kept must be finite numbers")
    negative = bool((weights < 0).any())
    rows, columns = one.cells
    if top_k is not None and not negative and top_k < columns:
        chosen = "top"
    elif one.kind == "edges" and not negative:
        chosen, top_k = "top", None
    else:
        chosen = code or ("i8" if negative else "u8")
        if chosen == "u8" and not code and precision < PRECISE and rows * columns > LARGE:
            chosen = "few" if one.pool == (1, 1) else chosen
    every = 1 if one.pool == (1, 1) else OVERVIEW
    heads = [
        keep_top(w, top_k)
        if chosen == "top"
        else pack_few(w, precision)
        if chosen == "few"
        else pack(w, chosen, every)
        for w in weights
    ]
    own = one.rows == one.columns
    large = chosen != "top" and rows * columns > LARGE
    whole = one.pool == (1, 1)
    side = view.axes[one.columns]
    row = {
        "name": one.name,
        "kind": one.kind,
        "layer": one.layer,
        "what": one.what,
        "rows": one.rows,
        "columns": one.columns,
        "shape": list(one.shape),
        "code": chosen,
        "max": [float(f"{w.max(initial=0.0):.6g}") for w in np.abs(weights)],
        "measures": measures([(0, weights)], (rows, columns), side.delimiters, one.links, own)
        if whole
        else {},
        "_packed": heads,
        "_thumbs": thumbnails(weights, THUMB) if large else None,
    }
    for name in ("heads", "scope", "extra", "links"):
        if value := getattr(one, name):
            row[name] = value
    if chosen == "top":
        row["k"] = top_k or 0
    elif chosen == "few":
        row["steps"], row["fine"] = precision, [head.fine for head in heads]
        row["off"] = float(f"{max((head.off for head in heads), default=0.0):.3g}")
    elif max((head.every for head in heads), default=1) > 1:
        row["every"] = [head.every for head in heads]
    if not whole:
        row["pool"] = list(one.pool)
    return row


def _place(heads: list[CompressedHead], thumbs: Any, blobs: _Blobs) -> dict[str, Any]:
    made: dict[str, Any] = {"blobs": [blobs.add(head.blob) for head in heads]}
    scales = np.concatenate([head.scale for head in heads] or [np.zeros(0, np.float32)])
    if len(scales):
        made["scales"] = "f2" if scales.max(initial=0.0) <= HALF_MOST else "f4"
        made["scale"] = blobs.add(deflate(scales.astype("<" + made["scales"]).tobytes()))
    if heads and (heads[0].mass is not None or heads[0].fine):
        made["entries"] = [head.entries for head in heads]
    if heads and heads[0].mass is not None:
        mass = np.concatenate([head.mass for head in heads if head.mass is not None])
        made["mass"] = blobs.add(deflate(mass.tobytes()))
    if thumbs is not None:
        made["thumbs"] = [*thumbs.shape[1:], *blobs.add(deflate(thumbs.tobytes()))]
    return made


def _alike(view: View, maps: list[dict[str, Any]]) -> list[list[int]]:
    """Maps of one run whose heads can be compared: the same sides."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for run in view.runs:
        for m in run.maps:
            same = groups.setdefault((maps[m]["rows"], maps[m]["columns"]), [])
            if m not in same:
                same.append(m)
    return list(groups.values())


def _add_redundancy(view: View, maps: list[dict[str, Any]], group: list[int]) -> None:
    pairs = [(m, h) for m in group for h in range(view.maps[m].shape[0])]
    if not 2 <= len(pairs) <= 1024:
        return
    small = [_coarse(view.maps[m].load(h)) for m, h in pairs]
    like, most = redundancy(small)
    for m in group:
        here = [i for i, (which, _) in enumerate(pairs) if which == m]
        maps[m]["measures"]["redundancy"] = [like[i] for i in here]
        maps[m]["twin"] = [list(pairs[most[i]]) for i in here]


def _coarse(weights: Floats) -> Floats:
    """At most 128 × 128 sums: two heads that differ there differ."""
    for axis in (0, 1):
        length = weights.shape[axis]
        if length > 128:
            weights = np.add.reduceat(weights, (np.arange(128) * length) // 128, axis=axis)
    return weights


def read(path: str | Path) -> DrawableView:
    """Read a `.seen` file. Weights are unpacked when they are asked for.

    Raises:
        RequestError: no such file, not a `.seen` file, or a damaged one.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror or error}") from None
    try:
        return parse(content)
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from None


def parse(content: bytes) -> DrawableView:
    """A view of a file's bytes.

    Raises:
        RequestError: not the bytes of a `.seen` file.
    """
    from regard.viewer.checked import Checked

    if content[:6] != MAGIC[:6]:
        raise RequestError("this is not a .seen file: it does not begin as one")
    if content[:8] != MAGIC or len(content) < START:
        raise RequestError(f"this .seen file is of version {content[6:8].hex()}; known: 0100")
    packed, size, check = struct.unpack_from("<III", content, 8)
    if packed > len(content) - START or size > min(packed * RATIO + 64, _MOST):
        raise RequestError("the header says it is larger than the file allows: cut off or damaged")
    if zlib.crc32(memoryview(content)[START:]) != check:
        raise RequestError("the file is damaged or cut off: its check sum is another")
    raw = inflate(content[START : START + packed], size, "the header")
    try:
        head = read_json(raw.decode())
    except ValueError:
        raise RequestError("the header is damaged: not JSON") from None
    body = memoryview(content)[START + packed :]
    return view_of(Checked(head, "the header"), body)
