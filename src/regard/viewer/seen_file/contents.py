"""The contents of a `.seen` file as a view: every count is checked against the bytes there."""

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.viewer._drawable import DrawableView
from regard.viewer.seen_file.codec import CODES, Floats, inflate, unpack, unpacked_size
from regard.viewer.seen_file.few_steps import LEAST as COARSEST
from regard.viewer.seen_file.few_steps import MOST as FINEST
from regard.viewer.seen_file.panels import panel_of
from regard.views import WHATS, Axis, Map, Run

__all__ = ["RATIO", "view_of"]

RATIO = 1040  # deflate makes nothing smaller than 1 : 1032


def view_of(head: Any, body: memoryview) -> DrawableView:
    """The view that a checked header describes; weights are read when a head is asked for.

    Raises:
        RequestError: a count or a place that the bytes do not bear out.
    """
    sides = []
    for row in head.rows("sides"):
        sides.append(
            Axis(
                row.strings("pieces"),
                row.text("kind"),
                row.nested("groups"),
                row.strings("texts"),
                row.whole("special"),
                row.pair("grid"),
                _file_of(row, "image", body),
                row.number("seconds"),
                row.pairs("edges"),
                row.whole("sections"),
                _file_of(row, "audio", body),
                row.strings("classes"),
            )
        )
    maps = [_map(row, body) for row in head.rows("maps")]
    runs = [
        Run(
            row.whole("maps"),
            row.text("label"),
            row.text("input"),
            row.text("output"),
            row.text("model"),
            row.text("folder"),
            row.number("score"),
            row.count("number"),
            row.count("of"),
            row.text("title"),
            [panel_of(one) for one in row.rows("panels")],
            step=None if row.get("step") is None else row.count("step"),
            target=row.text("target"),
        )
        for row in head.rows("runs")
    ]
    return DrawableView(sides, maps, runs, head.text("title"), head.text("source"))


def _file_of(row: Any, name: str, body: memoryview) -> bytes | None:
    """The bytes of a picture or a sound, where the side has them."""
    if row.get(name) is None:
        return None
    start, size = row.place(name, len(body))
    return bytes(body[start : start + size])


def _map(row: Any, body: memoryview) -> Map:
    shape = heads, *_ = row.shape("shape")
    pool = row.pair("pool") or (1, 1)
    row.claim(all(1 <= f < 1 << 20 for f in pool), "pool")
    rows, columns = -(-shape[1] // pool[0]), -(-shape[2] // pool[1])
    code, name = row.one_of("code", CODES), row.text("name")
    places = row.places("blobs", len(body), heads)
    entries = row.whole("entries") or [0] * heads
    row.claim(len(entries) == heads and all(e >= 0 for e in entries), "entries")
    for place, kept in zip(places, entries, strict=True):
        size = unpacked_size(code, rows, columns, kept)
        row.claim(kept <= rows * columns and size <= place[1] * RATIO + 64, "shape")
        # A kept head may be far larger than its bytes; an honest one never beyond this.
        row.claim(rows * columns <= 1 << 31, "shape")
    scale = [0, 0] if code == "f16" else row.place("scale", len(body))
    steps = row.count("steps"), row.whole("fine") or [0] * heads
    if code == "few":
        row.claim(COARSEST <= steps[0] <= FINEST, "steps")
        row.claim(len(steps[1]) == heads and all(1 <= f <= 255 for f in steps[1]), "fine")
    wide = "f2" if code == "f16" else row.one_of("scales", ("f2", "f4"))
    row.claim(code == "f16" or int(wide[1]) * heads * rows <= scale[1] * RATIO + 64, "scale")
    return Map(
        name,
        row.count("rows"),
        row.count("columns"),
        shape,
        _loader(body, places, scale, wide, code, (heads, rows, columns), entries, name, steps),
        row.text("kind"),
        row.count("layer"),
        row.one_of("what", tuple(WHATS)),
        row.strings("heads"),
        row.counts("scope"),
        row.numbers("extra"),
        row.pairs("links"),
        pool=pool,
    )


def _loader(
    body: memoryview,
    places: list[list[int]],
    scale: list[int],
    wide: str,
    code: str,
    shape: tuple[int, int, int],
    entries: list[int],
    name: str,
    steps: tuple[int, list[int]],
) -> Callable[[int], Floats]:
    heads, rows, columns = shape

    def load(head: int) -> Floats:
        if not 0 <= head < heads:
            raise IndexError(head)
        scales = np.zeros(0, np.float32)
        if code != "f16":
            at, length = scale
            raw = inflate(
                bytes(body[at : at + length]), int(wide[1]) * heads * rows, f"{name}: the scale"
            )
            scales = np.frombuffer(raw, "<" + wide).reshape(heads, rows)[head].astype(np.float32)
        at, length = places[head]
        blob = bytes(body[at : at + length])
        return unpack(
            blob,
            code,
            (rows, columns),
            scales,
            entries[head],
            f"{name}, head {head + 1}",
            steps[0],
            steps[1][head],
        )

    return load
