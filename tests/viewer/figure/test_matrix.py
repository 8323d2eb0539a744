"""Figures, measured: sizes, words, weights, fonts, and nothing outside the paper."""

import logging
import re
import zlib
from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib")

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg

from regard.errors import RequestError
from regard.system.extras import install
from regard.viewer.figure import matrix, sheet
from regard.viewer.figure.matrix import COLUMN, PAGE, Subplot, alignment, check_format, grid
from regard.viewer.palette import shade
from regard.views.picture import Picture

SENTENCES = (
    "Das Fenster wird automatisch geschlossen wenn Sie die Eingabetaste drücken .",
    "The window closes automatically when you press the Enter key .",
)
GERMAN, ENGLISH = (sentence.split() for sentence in SENTENCES)


def make(rows=ENGLISH, columns=GERMAN, seed=0):
    torch.manual_seed(seed)
    return Picture(
        list(rows), list(columns), (torch.randn(len(rows), len(columns)) * 3).softmax(-1)
    )


def overflow(figure):
    """How far any text reaches beyond the paper, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    renderer = FigureCanvasAgg(figure).get_renderer()
    paper, worst = figure.bbox, 0.0
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible():
            box = text.get_window_extent(renderer)
            out = max(paper.x0 - box.x0, box.x1 - paper.x1, paper.y0 - box.y0, box.y1 - paper.y1)
            worst = max(worst, out / figure.dpi)
    return worst


def test_words_and_weights_are_on_the_axes():
    shown = make()
    axes = alignment(shown).axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == GERMAN
    assert [t.get_text() for t in axes.get_yticklabels()] == ENGLISH
    mesh = axes.collections[0]
    drawn = torch.as_tensor(mesh.get_array().reshape(11, 11))
    assert torch.allclose(drawn, shown.weights.double())
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first word is on top
    assert mesh.cmap(1.0)[:3] == pytest.approx([c / 255 for c in shade(1.0)], abs=0.01)
    assert mesh.cmap(0.4)[:3] == pytest.approx([c / 255 for c in shade(0.4)], abs=0.01)


@pytest.mark.parametrize(
    ("rows", "columns", "width"),
    [
        (ENGLISH, GERMAN, None),
        (ENGLISH, GERMAN, "column"),
        (ENGLISH, GERMAN, "page"),
        (["yes"], GERMAN, None),
        (ENGLISH, ["ja"], "column"),
        (["yes"], ["Donaudampfschifffahrtsgesellschaftskapitän"], None),
        (["Donaudampfschifffahrtsgesellschaftskapitän"] * 3, ENGLISH, "column"),
        ([f"word{i}" for i in range(80)], [f"Wort{i}" for i in range(80)], "column"),
        ([f"word{i}" for i in range(80)], [f"Wort{i}" for i in range(80)], None),
    ],
)
def test_nothing_leaves_the_paper(rows, columns, width):
    title = "transformer · layer 5 of 6 · mean of 8 heads · hypothesis 1 of 5 · score −0.41"
    figure = alignment(make(rows, columns), title=title, width=width)
    assert overflow(figure) < 0.02
    wide = {"column": COLUMN, "page": PAGE}.get(width)
    if wide is not None:
        assert figure.get_figwidth() == pytest.approx(wide)
    assert figure.get_figwidth() <= 10.5
    labels = figure.axes[0].get_xticklabels()
    assert [label.get_text() for label in labels] == list(columns)  # no word is left out


@pytest.mark.parametrize("width", [2.0, 2.5, 3.0, 3.35, 4.2])
def test_a_title_is_as_wide_on_paper_as_it_was_measured(width):
    """Hinting made letters of some sizes wider: a title that was made to fit lost its end."""
    title = "transformer · encoder self-attention · layer 3 of 3 · hypothesis 1 of 5 · score −0.24"
    with matplotlib.rc_context(sheet.style()):
        figure, axes = sheet.paper(width, 1.0, title)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        (drawn,) = axes.texts
        box = drawn.get_window_extent(canvas.get_renderer())
    assert box.x1 <= figure.bbox.width - 0.7 * sheet.EDGE * figure.dpi
    if drawn.get_fontsize() < sheet.SMALL:  # it was made smaller, and no smaller than needed
        assert box.width == pytest.approx((width - 2 * sheet.EDGE) * figure.dpi, rel=0.01)


def test_letters_that_break_drawers_do_not(tmp_path):
    odd = [
        "$5",
        "$x$",
        "a_b^2",
        "\\alpha",
        "שלום",
        "مرحبا",
        "你好",
        "हिन्दी",
        "🙂",
        "</s>",
        "%",
        "#&{}",
        "",
    ]
    for ending in ("png", "pdf", "svg"):
        path = tmp_path / f"odd.{ending}"
        figure = alignment(make(odd, odd[::-1]), path, title="$ _ ^ 你好", width="column")
        assert path.stat().st_size > 1000
        assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == odd


def test_fonts_are_embedded_as_outlines(tmp_path):
    alignment(make(), tmp_path / "figure.pdf", title="model", width="column")
    data = (tmp_path / "figure.pdf").read_bytes()
    streams = re.findall(rb"stream\r?\n(.*?)endstream", data, re.S)
    for stream in streams:
        try:
            data += zlib.decompress(stream)
        except zlib.error:
            continue
    assert b"/FontFile2" in data  # TrueType, embedded
    assert b"/Type3" not in data
    box = [float(x) for x in re.search(rb"/MediaBox \[ ?([^\]]*)\]", data).group(1).split()]
    assert box[2] == pytest.approx(COLUMN * 72, abs=0.5)


@pytest.mark.parametrize("ending", ["pdf", "svg", "png"])
def test_the_same_picture_gives_the_same_file(ending, tmp_path):
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        alignment(make(), path, title="model")
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_png_has_the_right_colours(tmp_path):
    import numpy as np
    from matplotlib.image import imread

    shown = Picture(["a", "b"], ["c", "d"], torch.tensor([[1.0, 0.0], [0.4, 0.6]]))
    figure = alignment(shown, tmp_path / "figure.png", bar=False)
    pixels = (imread(tmp_path / "figure.png")[..., :3] * 255).round().astype(int)
    place = figure.axes[0].get_position()
    for i in range(2):
        for j in range(2):
            y = 1 - (place.y1 - (i + 0.5) / 2 * place.height)
            x = place.x0 + (j + 0.5) / 2 * place.width
            found = pixels[int(y * len(pixels)), int(x * len(pixels[0]))]
            assert np.abs(found - shade(float(shown.weights[i, j]))).max() <= 4


def test_values_are_printed_when_asked_for():
    shown = make()
    values = {t.get_text() for t in alignment(shown, values=True).axes[0].texts}
    drawn = [w for row in shown.weights.tolist() for w in row if w >= 0.005]
    assert values - {""} == {f"{w:.2f}".removeprefix("0") for w in drawn}
    assert not alignment(shown).axes[0].texts


def test_a_bar_says_what_dark_is():
    faint = Picture(["a"], ["b", "c", "d"], torch.tensor([[0.04, 0.03, 0.01]]))
    figure = alignment(faint)
    assert len(figure.axes) == 2
    assert [t.get_text() for t in figure.axes[1].get_yticklabels()][-1] == "0.05"
    assert len(alignment(faint, bar=False).axes) == 1


def test_heads_side_by_side_share_words_and_scale(tmp_path):
    shown = [make(seed=i) for i in range(8)]
    panels = [Subplot(f"head {i + 1}", picture) for i, picture in enumerate(shown)]
    figure = grid(panels, tmp_path / "heads.png", title="transformer · layer 2 of 2", width="page")
    assert figure.get_figwidth() == pytest.approx(PAGE)
    assert overflow(figure) < 0.02
    axes = figure.axes[:8]
    for ax, picture in zip(axes, shown, strict=True):
        drawn = torch.as_tensor(ax.collections[0].get_array().reshape(11, 11))
        assert torch.allclose(drawn, picture.weights.double())
        assert ax.collections[0].get_clim() == axes[0].collections[0].get_clim()
    assert [bool(ax.get_xticklabels()) for ax in axes] == [True] * 4 + [False] * 4
    assert [bool(ax.get_yticklabels()) for ax in axes] == [True, False, False, False] * 2
    named = [[t.get_text() for t in ax.texts] for ax in axes]
    assert named == [[f"head {i}"] for i in range(1, 9)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x.html", "are written as .pdf, .png, .svg"),
        ("x.pgn", "did you mean '.png'"),
        ("x", "are written as .pdf, .png, .svg"),
    ],
)
def test_other_formats_are_refused_before_anything_is_drawn(name, said, tmp_path):
    with pytest.raises(RequestError, match=re.escape(said)):
        check_format(tmp_path / name)
    with pytest.raises(RequestError, match=re.escape(said)):
        alignment(make(), tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("width", [0.2, "colum"])
def test_a_width_that_cannot_be(width):
    with pytest.raises(RequestError, match="width"):
        alignment(make(), width=width)


def test_no_panel_is_no_grid():
    with pytest.raises(RequestError, match="at least one panel"):
        grid([])


@pytest.mark.nohook
def test_without_matplotlib_the_extra_is_named(torch_process):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import torch\n"
        "from regard.viewer.figure.matrix import alignment\n"
        "from regard.views.picture import Picture\n"
        "from regard.errors import RequestError\n"
        "try: alignment(Picture(['a'], ['b'], torch.ones(1, 1)))\n"
        "except RequestError as error: print(error)\n"
    )
    done = torch_process.run(code)
    assert install("view") in done.stdout, done.stderr


@pytest.mark.parametrize("width", [None, 2.0])
def test_letters_of_chinese_stand_upright_above_the_columns(width):
    columns = ["我们", "GNU", "公园看看", "。", "กิน", "ガギ"]
    figure = alignment(make(["we", "go"], columns), width=width)
    labels = figure.axes[0].get_xticklabels()
    assert [t.get_text() for t in labels] == [
        "我\n们", "GNU", "公\n园\n看\n看", "。", "กิน", "ガ\nギ",
    ]  # fmt: skip
    assert [t.get_rotation() for t in labels] == [0, 90, 0, 0, 90, 0]
    assert overflow(figure) < 0.02


def test_a_font_that_was_just_installed_is_used(tmp_path, monkeypatch):
    from matplotlib import font_manager, get_data_path

    fonts = font_manager.fontManager
    monkeypatch.setattr(fonts, "ttflist", list(fonts.ttflist))
    fresh = tmp_path / "Fresh.ttf"
    fresh.write_bytes((Path(get_data_path()) / "fonts/ttf/STIXGeneral.ttf").read_bytes())
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    found = [str(fresh), str(tmp_path / "broken.ttf"), fonts.ttflist[0].fname]
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: found)
    monkeypatch.setattr(fonts, "ttflist", [f for f in fonts.ttflist if f.name != "STIXGeneral"])
    monkeypatch.setattr(sheet, "_FONTS", ("A Font of Nobody", "STIXGeneral"))
    sheet.style.cache_clear()
    try:
        assert sheet.style()["font.family"] == ["DejaVu Sans", "STIXGeneral"]
        assert fonts.findfont("STIXGeneral") == str(fresh)
    finally:
        sheet.style.cache_clear()
        fonts._findfont_cached.cache_clear()


def test_weights_below_zero_have_their_own_hue_and_end_of_the_bar():
    signed = Picture(["a", "b"], ["c", "d"], torch.tensor([[0.9, -0.9], [0.1, -0.1]]))
    figure = alignment(signed)
    mesh = figure.axes[0].collections[0]
    assert mesh.get_clim() == (-1, 1)
    FigureCanvasAgg(figure).draw()
    mesh.update_scalarmappable()
    colours = [tuple(round(255 * c) for c in one[:3]) for one in mesh.get_facecolors()]
    for found, weight in zip(colours, (0.9, -0.9, 0.1, -0.1), strict=True):
        assert found == pytest.approx(shade(weight), abs=6)
    ticks = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert ticks[0] == "-1"


@pytest.mark.parametrize("width", [None, 2.0])
def test_titles_of_panels_side_by_side_do_not_meet(width):
    panels = [Subplot(f"levels.{i}.affinity", make(["a"], ["b", "c"])) for i in range(3)]
    figure = grid(panels, width=width)
    renderer = FigureCanvasAgg(figure).get_renderer()
    left, right = [axes.texts[-1].get_window_extent(renderer) for axes in figure.axes[:2]]
    assert left.x1 < right.x0
    assert overflow(figure) < 0.02


def test_matplotlib_does_not_tell_of_weights_of_fonts(caplog):
    with caplog.at_level(logging.WARNING, "matplotlib.font_manager"):
        before = logging.getLogger("matplotlib.font_manager").level
        with matrix._quiet():
            logging.getLogger("matplotlib.font_manager").warning("findfont: Failed to find …")
        assert logging.getLogger("matplotlib.font_manager").level == before
    assert not caplog.records
