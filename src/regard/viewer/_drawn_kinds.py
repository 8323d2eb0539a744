"""Images, sound, graphs, pointers and features on paper."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.viewer._drawn import EDGE, SMALL, SOFT, paper, shaded, write
from regard.viewer._page import _width
from regard.viewer._shown import Shown
from regard.viewer.palette import INK, MARK, STOPS, ink_on

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["features", "graph", "image", "pointer", "sound"]

NODES = 300
COPIED = "#e69f00"
CLOSE = 0.07  # inches: numbers of looks that are nearer would lie on each other


def _blues() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("regard", STOPS)


def pointer(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """For each output word how much is made and how much is copied, and from where."""
    from matplotlib.patches import Rectangle

    made_up = shown.extra.get("generate")
    step = 0.19
    left = max(*(_width(w, 8.0) for w in shown.rows), _width("output", SMALL)) + 2 * EDGE
    bar = 0.3 * width
    made, axes = paper(width, step * (len(shown.rows) + 1) + EDGE, title)
    write(axes, EDGE, step / 2, "output", SMALL, color=SOFT)
    write(axes, left + bar + 0.1, step / 2, "points at", SMALL, color=SOFT)
    x = left
    for name, colour in (*((("made", shaded(0.8)),) if made_up else ()), ("copied", COPIED)):
        axes.add_patch(Rectangle((x, step / 2 - 0.04), 0.08, 0.08, color=colour, lw=0))
        write(axes, x + 0.12, step / 2, name, SMALL, color=SOFT)
        x += 0.2 + _width(name, SMALL)
    for i, word in enumerate(shown.rows):
        y = step * (i + 1.5)
        share = made_up[i] if made_up else 0.0
        write(axes, EDGE, y, word, color=MARK if i == row else INK)
        axes.add_patch(Rectangle((left, y - 0.06), bar * share, 0.12, color=shaded(0.8), lw=0))
        axes.add_patch(
            Rectangle((left + bar * share, y - 0.06), bar * (1 - share), 0.12, color=COPIED,
                      lw=0)
        )  # fmt: skip
        weights = shown.weights[0][i]
        best = [c for c in np.argsort(-weights, kind="stable")[:3] if weights[c] > 0.01]
        told = " · ".join(f"{shown.columns[c]} {weights[c]:.2f}" for c in best)
        x = left + bar + 0.1
        write(axes, x, y, told, SMALL, room=width - x - EDGE)
    return made


def features(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """A row's weights for each feature, from top to bottom."""
    at = shown.widest if row is None else row
    strip = np.stack([w[at] for w in shown.weights])  # (features, places)
    above = max(_width(w, 8.0) for w in shown.columns) + EDGE
    high = float(np.clip(0.03 * len(strip), 0.8, 4))
    made, axes = paper(width, above + high + 0.25, title)
    x = np.linspace(EDGE, width - EDGE, strip.shape[1] + 1)
    axes.pcolormesh(x, above + np.linspace(0, high, len(strip) + 1), strip, vmin=0,
                    vmax=shown.top, cmap=_blues(), rasterized=strip.size > 20_000)  # fmt: skip
    for i, word in enumerate(shown.columns):
        style: dict[str, Any] = {"color": MARK} if i == at and shown.own else {}
        write(axes, (x[i] + x[i + 1]) / 2, above - 0.03, word, rotation=90, ha="center",
              va="bottom", **style)  # fmt: skip
    told = f"“{shown.rows[at]}”, {len(strip)} features; white 0, dark {shown.top:g}"
    write(axes, EDGE, above + high + 0.12, told, SMALL, color=SOFT, room=width - 2 * EDGE)
    return made


def image(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """An image for each word (or for one), veiled where it does not look; a glimpse's trail.

    Raises:
        RequestError: what is looked at has no grid.
    """
    grid = shown.axis.grid
    if grid is None:
        raise RequestError("an image wants a grid of regions: Axis(..., grid=(rows, columns))")
    photo = _photo(shown)
    ratio = grid[0] / grid[1] if photo is None else photo.shape[0] / photo.shape[1]
    some = range(len(shown.rows)) if row is None else [row]
    across = min(len(some), 6 if width > 4 else 3)
    wide = (width - EDGE) / across - EDGE
    high = wide * ratio
    down = -(-len(some) // across)
    made, axes = paper(width, down * (high + 0.24), title)
    trail = [np.array(shown.extra[k]) for k in ("x", "y") if k in shown.extra]
    for n, i in enumerate(some):
        x, y = EDGE + n % across * (wide + EDGE), n // across * (high + 0.24)
        box = (x, x + wide, y + 0.18 + high, y + 0.18)
        write(axes, x, y + 0.09, shown.rows[i], room=wide)
        look = shown.weights[0][i].reshape(grid)
        part = look / max(float(look.max()), 1e-9)
        smooth: dict[str, Any] = {"extent": box, "aspect": "auto"}
        if photo is None:
            axes.imshow(look, cmap=_blues(), vmin=0, interpolation="nearest", **smooth)
        else:
            axes.imshow(photo, **smooth)
            veil = np.zeros((*grid, 4))
            veil[..., 3] = 0.72 * (1 - part)
            alike = grid == photo.shape[:2]  # a weight for each pixel
            axes.imshow(veil, interpolation="nearest" if values or alike else "bilinear", **smooth)
        if photo is not None and grid == photo.shape[:2]:
            _frame(axes, look, box)
        if len(trail) == 2:
            px, py = x + trail[0][: i + 1] * wide, y + 0.18 + trail[1][: i + 1] * high
            axes.plot(px, py, color=MARK, linewidth=1)
            said: list[tuple[float, float]] = []  # no number lies on another; the last one is told
            for number, at in reversed(list(enumerate(zip(px, py, strict=True), 1))):
                axes.plot(*at, color=MARK, marker="o", markersize=5 if number <= i else 7)
                if all(np.hypot(at[0] - a, at[1] - b) > CLOSE for a, b in said):
                    write(
                        axes, at[0], at[1], str(number), 4.5, ha="center", color="white", zorder=4
                    )
                    said.append(at)
    axes.set(xlim=(0, width), ylim=(down * (high + 0.24), axes.get_ylim()[1]))
    return made


def _frame(axes: Any, look: NDArray[Any], box: tuple[float, float, float, float]) -> None:
    """A line around the pixels that are looked at."""
    from matplotlib.patches import Rectangle

    rows, columns = np.nonzero(look)
    if not len(rows) or len(rows) == look.size:  # nothing, or everything
        return
    (high, wide), (left, right, low, top) = look.shape, box
    across, down = (right - left) / wide, (low - top) / high
    corner = left + columns.min() * across, top + rows.min() * down
    size = (np.ptp(columns) + 1) * across, (np.ptp(rows) + 1) * down
    axes.add_patch(Rectangle(corner, *size, fill=False, color=MARK, linewidth=0.6))


def _photo(shown: Shown) -> NDArray[Any] | None:
    from matplotlib.image import imread
    from PIL import Image

    if shown.axis.image is None:
        return None
    if shown.axis.image[:4] == b"\x89PNG":
        found: NDArray[Any] = imread(io.BytesIO(shown.axis.image))
        return np.repeat(found[..., None], 3, -1) if found.ndim == 2 else found
    return np.asarray(Image.open(io.BytesIO(shown.axis.image)).convert("RGB"))


def sound(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """Frames of sound below their spectrogram, and the path of the largest weights."""
    photo, weights = _photo(shown), shown.weights[0]
    left = max(_width(w, 8.0) for w in shown.rows) + 2 * EDGE
    above, step = 0.0 if photo is None else 0.9, 0.16
    high = step * len(shown.rows)
    made, axes = paper(width, above + EDGE + high + 0.3, title)
    right = width - EDGE - 0.1
    if photo is not None:
        axes.imshow(photo, extent=(left, right, above, 0.02), aspect="auto")
    y, x = above + EDGE, np.linspace(left, right, weights.shape[1] + 1)
    axes.pcolormesh(x, y + step * np.arange(len(shown.rows) + 1), weights, vmin=0, vmax=shown.top,
                    cmap=_blues(), rasterized=weights.size > 20_000)  # fmt: skip
    best = weights.argmax(1)
    axes.plot((x[best] + x[best + 1]) / 2, y + step * (np.arange(len(best)) + 0.5), color=MARK,
              linewidth=1)  # fmt: skip
    for i, word in enumerate(shown.rows):
        style: dict[str, Any] = {"color": MARK} if i == row else {}
        write(axes, left - EDGE, y + step * (i + 0.5), word, ha="right", **style)
    long = weights.shape[1] * (shown.axis.seconds or 1)
    for part in np.linspace(0, 1, 5):
        said = (
            f"{part * long:.{1 if long >= 2 else 2}f} s"
            if shown.axis.seconds
            else f"{part * long:.0f}"
        )
        write(axes, left + part * (right - left), y + high + 0.12, said, 6.0, ha="center",
              color=SOFT)  # fmt: skip
    axes.set(xlim=(0, width), ylim=(above + EDGE + high + 0.3, axes.get_ylim()[1]))
    return made


def graph(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """Nodes and edges as wide as their weights; those of one node alone where a row is given.

    Raises:
        RequestError: rows and columns are not the same nodes, or too many.
    """
    weights, count = shown.weights[0], len(shown.columns)
    if not shown.own or count > NODES:
        raise RequestError(f"a graph is of at most {NODES} nodes that look at one another")
    np.fill_diagonal(joined := weights > 0.001, False)
    given = shown.axis.edges or list(zip(*np.nonzero(joined), strict=True))
    place = places(count, np.array(given, dtype=int).reshape(-1, 2))
    made, axes = paper(width, width * 0.85, title)
    x, y = 0.25 + place[:, 0] * (width - 0.5), 0.2 + place[:, 1] * (width * 0.85 - 0.4)
    order = sorted(zip(*np.nonzero(joined), strict=True), key=lambda e: float(weights[e]))
    for r, c in order:
        if row is not None and r != row:
            continue
        strength = float(weights[r, c]) / shown.top
        arrow = {"arrowstyle": "-", "connectionstyle": "arc3,rad=0.12", "shrinkA": 0, "shrinkB": 0}
        style = {"color": shaded(0.25 + 0.75 * strength), "lw": 0.3 + 3 * strength}
        axes.annotate("", (x[c], y[c]), (x[r], y[r]), arrowprops=arrow | style)
    small = count > 60
    for i, label in enumerate(shown.columns):
        v = float(weights[i, i] if row is None else weights[row, i])
        edge = MARK if i == row else INK
        axes.plot(x[i], y[i], "o", markersize=3 if small else 10, color=shaded(v, shown.top),
                  markeredgecolor=edge, markeredgewidth=0.5, zorder=3)  # fmt: skip
        if not small:
            write(axes, x[i], y[i], label, 5.0, ha="center", zorder=4,
                  color=ink_on(v, shown.top))  # fmt: skip
    return made


def places(count: int, edges: NDArray[Any], rounds: int = 120) -> NDArray[Any]:
    """Places in the unit square: pushed apart, pulled along the edges; always the same."""
    turn, out = np.arange(count) * 2.39996, np.sqrt((np.arange(count) + 0.5) / count) / 2
    at = np.stack([out * np.cos(turn), out * np.sin(turn)], 1)
    k = 0.7 / np.sqrt(max(count, 1))
    for t in range(rounds):
        away = at[:, None] - at
        far = (away**2).sum(-1, keepdims=True) + 1e-5
        force = (away * (k * k / far)).sum(1)
        if len(edges):
            pull = at[edges[:, 0]] - at[edges[:, 1]]
            pull *= np.linalg.norm(pull, axis=1, keepdims=True) / k
            np.add.at(force, edges[:, 0], -pull)
            np.add.at(force, edges[:, 1], pull)
        size = np.linalg.norm(force, axis=1, keepdims=True) + 1e-12
        at = at + force / size * np.minimum(size, 0.06 * (1 - t / rounds))
    low, high = at.min(0, initial=0.0), at.max(0, initial=0.0)
    found: NDArray[Any] = (at - low) / np.where(high > low, high - low, 1)
    return found
