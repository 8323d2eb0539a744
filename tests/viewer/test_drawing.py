"""Every view as a figure: golden pixels, words, widths, fonts, and what cannot be drawn."""

import io
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.image import imread, imsave

import regard
from regard.errors import RequestError
from regard.viewer import Axis, DrawableView, Map, Run
from regard.viewer.figure.matrix import COLUMN, PAGE
from regard.viewer.panels.graph import places
from regard.viewer.panels.kind import MapKind
from regard.viewer.panels.registry import PANEL_KINDS
from tests.viewer.figure.test_matrix import overflow

GOLDEN = Path(__file__).parents[1] / "golden" / "figures"
ENGLISH = ["▁The", "▁win", "dow", "▁is", "▁closed", ".", "</s>"]
GERMAN = ["▁Das", "▁Fen", "ster", "▁wird", "▁ge", "schlossen", ".", "</s>"]
WORDS = ["a", "red", "bird", "in", "a", "tree"]


def soft(*shape, seed=0):
    e = np.exp(2.5 * np.random.default_rng(seed).standard_normal(shape))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def made():
    """A view for each drawing, and how it is asked for."""
    two = regard.view(
        {"cross": list(soft(2, 4, 7, 8)), "decoder": list(soft(2, 4, 7, 7))},
        rows=ENGLISH, columns=GERMAN,
    )  # fmt: skip
    pixels = io.BytesIO()
    y, x = np.mgrid[0:1:28j, 0:1:28j]
    imsave(pixels, np.stack([x, y, 1 - x], -1))
    grid = Axis([str(i) for i in range(49)], "image", grid=(7, 7), image=pixels.getvalue())
    frames = Axis([str(i) for i in range(60)], "audio", seconds=0.01, image=pixels.getvalue())
    edges = [(i, i // 2) for i in range(1, 12)]
    joined = np.zeros((1, 12, 12), np.float32)
    for i, j in edges:
        joined[0, i, j], joined[0, j, i] = 0.3 + 0.05 * i, 0.2
    document = Axis(["it", "was", "good", ".", "but", "then", "it", "rained", "."], sections=[0, 4])
    trail = {"x": [0.1, 0.4, 0.5, 0.6, 0.7, 0.9], "y": [0.2, 0.2, 0.6, 0.4, 0.5, 0.8]}
    facts = [Axis(["where?"]), Axis(["Mary left", "John came", "it rained"], "memory")]
    hops = [Map.of("m", 0, 1, soft(1, 1, 3, seed=k), scope={"hop": k}) for k in range(3)]
    copies = {"generate": [0.1, 0.9, 0.5, 0.0, 1.0, 0.2]}
    return {
        "matrix": (two, {"row": 2, "values": True}),
        "heads": (two, {"head": None}),
        "lines": (two, {"head": [1, 3], "row": 2}),
        "arcs": (two, {"attention": "decoder.1", "head": 2}),
        "text": (regard.view(soft(1, 9), rows=["stars"], columns=document), {}),
        "curves": (two, {"row": 1}),
        "compare": (two, {"head": 1, "other": (0, 0, 2), "values": True}),
        "hops": (DrawableView(facts, hops, [Run([0, 1, 2])]), {}),
        "pointer": (regard.view(soft(6, 8), rows=WORDS, columns=[*"abcdefgh"], extra=copies), {}),
        "features": (regard.view(soft(24, 6, 6), rows=WORDS, kind="features"), {"row": 3}),
        "image": (regard.view(soft(6, 49), rows=WORDS, columns=grid, extra=trail), {}),
        "sound": (regard.view(soft(6, 60), rows=WORDS, columns=frames), {}),
        "graph": (regard.view(joined, rows=Axis([str(i) for i in range(12)], "nodes", edges=edges),
                              kind="edges"), {}),
    }  # fmt: skip


MADE = made()


def rastered(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=60)
    file.seek(0)
    return imread(file)[..., :3]


@pytest.mark.parametrize("name", MADE)
def test_golden_pixels(name):
    """`python tests/viewer/test_drawing.py` makes them again; look at what changed."""
    view, asked = MADE[name]
    found, golden = rastered(view.figure(show=name, **asked)), imread(GOLDEN / f"{name}.png")
    assert found.shape == golden[..., :3].shape
    far = np.abs(found - golden[..., :3])
    assert far.mean() < 0.01
    assert (far.max(-1) > 0.25).mean() < 0.01


def test_golden_pixels_would_see_a_change():
    view, asked = MADE["lines"]
    golden = imread(GOLDEN / "lines.png")[..., :3]
    other = rastered(view.figure(show="lines", **asked | {"row": 3}))
    assert (np.abs(other - golden).max(-1) > 0.25).mean() > 0.01


WIDTHS = {"column": COLUMN, "page": PAGE}


@pytest.mark.parametrize(
    ("name", "width"),
    [
        pytest.param(name, width, marks=() if (n + m) % 2 == 0 else pytest.mark.slow)
        for n, name in enumerate(MADE)
        for m, width in enumerate(WIDTHS)
    ],
)
def test_every_view_in_every_format_and_width(name, width, tmp_path):
    view, asked = MADE[name]
    figure = view.figure(tmp_path / "a.svg", show=name, width=width, **asked)
    assert figure.get_figwidth() == pytest.approx(WIDTHS[width])
    assert name == "curves" or overflow(figure) < 0.03  # laid out by matplotlib, ticks and all
    view.figure(tmp_path / "a.pdf", show=name, **asked)
    data = (tmp_path / "a.pdf").read_bytes()
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", data, re.S):
        try:
            data += zlib.decompress(stream)
        except zlib.error:
            continue
    assert b"/FontFile2" in data
    assert b"/Type3" not in data


def test_values_are_written_when_asked_for():
    view, _ = MADE["compare"]
    shown = [t.get_text() for t in view.figure(show="text", row=1, values=True).axes[0].texts]
    weights = view.maps[0].load(0)
    mean = np.mean([view.maps[0].load(h) for h in range(4)], 0)[0]
    assert f"{mean[0]:.2f}"[1:] in shown
    assert "geschlossen" in shown  # words are joined
    pieces = view.figure(show="lines", head=1, words=False).axes[0].texts
    assert {t.get_text() for t in pieces} >= set(GERMAN)
    drawn = view.figure(show="lines", head=1, row=1).axes[0].collections[0]
    assert len(drawn.get_segments()) == (np.abs(_joined(weights)[0]) > 0.03).sum()


def _joined(weights):
    columns = np.stack([weights[:, g].sum(1) for g in ([0], [1, 2], [3], [4, 5], [6], [7])], 1)
    return np.stack([columns[g].mean(0) for g in ([0], [1, 2], [3], [4], [5], [6])])


def test_the_difference_is_signed():
    view, _ = MADE["compare"]
    axes = view.figure(show="compare", head=1, other=(0, 0, 2)).axes[0]
    one, two, apart = (c.get_array().reshape(6, 6) for c in axes.collections)
    np.testing.assert_allclose(apart, one - two, atol=1e-6)
    np.testing.assert_allclose(one, _joined(view.maps[0].load(0)), atol=1e-6)
    blue = axes.collections[2].cmap(1.0)
    assert blue[2] > blue[0]
    assert axes.collections[2].cmap(0.5)[:3] == pytest.approx((1, 1, 1), abs=0.02)
    other = view.figure(show="compare", head=1, other=(0, 2, 1), words=False).axes[0]
    assert len(other.collections) == 2  # of 7 × 8 and 7 × 7 there is no difference


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("lines", {"show": "line"}, "did you mean 'lines'"),
        ("lines", {"show": "arcs"}, "choose a self-attention"),
        ("lines", {"show": "image"}, "wants a grid"),
        ("lines", {"show": "graph"}, "look at one another"),
        ("lines", {"head": 5}, "1 to 4"),
        ("lines", {"row": 0}, "no row 0"),
        ("lines", {"row": 7}, "1 to 6"),
        ("lines", {"run": 1}, "no run 1"),
        ("lines", {"attention": "cros.1"}, "did you mean 'cross.1'"),
        ("lines", {"attention": 9}, "no attention 9"),
        ("hops", {"show": "compare", "other": (0, 1, 9)}, "no head 9"),
    ],
)
def test_what_cannot_be_drawn(name, asked, said, tmp_path):
    with pytest.raises(RequestError, match=re.escape(said)):
        MADE[name][0].figure(tmp_path / "a.png", **asked)
    assert not list(tmp_path.iterdir())


def test_joined_nodes_are_near():
    edges = np.array([(i, i + 1) for i in range(9)])
    at = places(10, edges)
    near = np.linalg.norm(at[edges[:, 0]] - at[edges[:, 1]], axis=1).mean()
    every = np.linalg.norm(at[:, None] - at, axis=-1).mean()
    assert near < every / 2
    assert (at == places(10, edges)).all()
    assert (at.min(), at.max()) == (0, 1)


def test_all_are_here():
    of_maps = {name for name, kind in PANEL_KINDS.items() if isinstance(kind, MapKind)}
    assert set(MADE) == of_maps - {"neighbors"}  # whose heads stand side by side: test_panels


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, (view, asked) in MADE.items():
        imsave(GOLDEN / f"{name}.png", rastered(view.figure(show=name, **asked)))


@pytest.mark.parametrize(
    ("wide", "high", "grid", "across"),
    [(384, 32, (1, 12), 1), (64, 64, (7, 7), 4), (96, 32, (1, 3), 4), (200, 32, (1, 6), 2)],
)
def test_wide_pictures_have_fewer_beside_them(wide, high, grid, across):
    """The frames of a clip, side by side, fill the width of a figure."""
    pixels, count = io.BytesIO(), grid[0] * grid[1]
    imsave(pixels, np.zeros((high, wide, 3)))
    places = Axis([str(i) for i in range(count)], "image", grid=grid, image=pixels.getvalue())
    words = Axis(["a", "cake", "moves", "down"])
    maps = [Map.of("frames", 0, 1, np.full((1, 4, count), 1 / count, np.float32))]
    view = DrawableView([words, places], maps, [Run([0])])
    figure = view.figure(show="image", width="page")
    lefts = {round(float(one.get_extent()[0]), 3) for one in figure.axes[0].images}
    assert len(lefts) == across
