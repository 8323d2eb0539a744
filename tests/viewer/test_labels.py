"""Labels without glyphs are drawn as signs, on every surface."""

import io
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from rich.console import Console

import regard
from regard.viewer import read
from regard.viewer.labels import visible, with_visible_labels
from regard.views import Run, SpansPanel, TablePanel, TreeNode, TreePanel, ValuesPanel, View
from regard.views.panel import LabeledSpan
from tests.viewer import views
from tests.viewer.browser import page

__all__ = ["page"]

ODD = {
    "\u200b": "<U+200B>", "\u200d": "<U+200D>", "\xad": "<U+00AD>", "\ufeff": "<U+FEFF>",
    "\ud83d": "<U+D83D>", "\0": "<U+0000>", "\x1b[31m": "<U+001B>[31m", "\u2800": "<U+2800>",
    "\ufe0f": "<U+FE0F>", "\u202e": "<U+202E>", "\ufffe": "<U+FFFE>", "a\nb": "a<U+000A>b",
    "  ": "␣␣", "Kaf\xadfee": "Kaf<U+00AD>fee", "\xa0": "<U+00A0>", "\u2028": "<U+2028>",
}  # fmt: skip
SAME = [
    "", "a b", "10\xa0000", "नमस्\u200dते", "می\u200cخواهم", "👩\u200d🚀", "❤\ufe0f", "é", "e\u0301",
    "你好", "🏴\U000e0067\U000e0062\U000e007f", "\u0301", "▁", "Ġ", "<U+200B>", "$x$", "-->",
]  # fmt: skip


def odd():
    """A view whose every text is odd."""
    words = [*ODD]
    weights = np.eye(len(words), dtype=np.float32)[None] / 2
    made = regard.view(weights, rows=words, columns=words, title="title\0")
    text = "in\x1b\ud83d\nput"
    run = Run(
        made.runs[0].maps, input=text, output=text, label="\u200b", model="m\0", title="\x1b",
        panels=[
            *made.runs[0].panels,
            ValuesPanel("bars", labels=tuple(words), values=(0.5,) * len(words)),
            ValuesPanel("shaded", labels=tuple(words), values=(0.5,) * len(words), note="\0"),
            TablePanel(columns=("\u200b", "\0"), cells=(("\x1b", "\ud83d"),)),
            TreePanel(root=TreeNode("\0", (TreeNode("\u200b"), TreeNode("\ud83d")))),
            SpansPanel(words=tuple(words), spans=(LabeledSpan(0, 2, "\x1b", 0.5),)),
        ],
    )  # fmt: skip
    return type(made)(made.axes, made.maps, [run], "title\0")


def test_what_has_no_glyph_gets_a_sign_and_the_rest_stays():
    assert {text: visible(text) for text in ODD} == ODD
    assert [visible(text) for text in SAME] == SAME
    assert [visible(sign) for sign in ODD.values()] == [*ODD.values()]
    plain = views.translation()
    assert with_visible_labels(plain) is plain
    view: View = with_visible_labels(odd())
    assert list(view.axes[0].pieces) == [*ODD.values()]
    assert view.runs[0].input == "in<U+001B><U+D83D>\nput"


def test_figures_are_valid_and_have_the_signs(tmp_path):
    view = odd()
    for show in ("matrix", "lines", "text"):
        svg = view.figure(tmp_path / f"{show}.svg", show=show)
        ElementTree.parse(tmp_path / f"{show}.svg")
        assert svg is not None
    written = (tmp_path / "matrix.svg").read_text("utf-8")
    assert all(sign in written for sign in ("U+200B", "U+D83D", "U+0000", "U+00AD"))
    for ending in ("png", "pdf"):
        assert view.figure(tmp_path / f"a.{ending}").get_axes()
        assert (tmp_path / f"a.{ending}").stat().st_size > 1000
    from regard.viewer.drawing import draw

    for panel in view.runs[0].panels:
        draw(view, view.runs[0], [panel], tmp_path / "panel.svg")
        ElementTree.parse(tmp_path / "panel.svg")


def test_terminals_and_files_have_the_signs(tmp_path):
    view = odd()
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(view.text(width=200, colour=False))
    text = console.export_text()
    assert "\x1b" not in text
    assert "<U+200B>" in text
    text.encode()
    again = read(view.save(tmp_path / "odd.seen"))
    pieces = [label if label != "\ud83d" else "<U+D83D>" for label in ODD]
    assert again.axes[0].pieces == pieces  # as they are, but for what UTF-8 cannot write


@pytest.mark.timeout(120)
def test_pages_have_the_signs(tmp_path, page):
    page.open(odd().page(tmp_path / "odd.html"))
    assert page.ask("() => file.sides[0].pieces") == [*ODD.values()]
    assert page.fine()
