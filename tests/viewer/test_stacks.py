"""Several texts below each other, and named stretches where there is little room."""

import numpy as np

import regard
from regard.viewer import Run, drawable
from regard.viewer.drawing import draw
from regard.views import Axis, LabeledSpan, Map, MapPanel, SpansPanel, ValuesPanel, View
from tests.viewer import views

WORDS = ["a", "red", "bird"]


def test_texts_of_one_kind_are_drawn_one_below_the_other():
    """Names are below their stretches, whole, and never on top of each other."""
    words = ("The", "dog", "that", "barked", "ran")
    spans = (LabeledSpan(0, 2, "ARG0", 0.62), LabeledSpan(2, 3, "R-ARG1", 0.46),
             LabeledSpan(3, 4, "V", 0.96), LabeledSpan(4, 5, "ARGM-TMP", 0.5))  # fmt: skip
    panels = [
        SpansPanel(title=f"roles of {words[at]}", words=words, spans=spans, anchor=at)
        for at in (3, 4)
    ]
    view = regard.view(views.soft(2, 3, 3), rows=WORDS, kind="self")
    drawn = draw(view, view.runs[0], panels, width="page")
    drawn.draw_without_rendering()
    told = [text for text in drawn.axes[0].texts if text.get_text()]
    assert [t.get_text() for t in told if "roles" in t.get_text()] == [p.title for p in panels]
    boxes = [text.get_window_extent() for text in told]
    for i, one in enumerate(boxes):
        assert 0 <= one.x0 < one.x1 <= drawn.bbox.width
        assert not any(one.overlaps(other) for other in boxes[:i]), told[i].get_text()
    looked = [MapPanel("text", f"layer {n}", map=0, row=n) for n in (1, 2)]
    drawn = draw(view, view.runs[0], looked, width="page")
    said = [text.get_text() for text in drawn.axes[0].texts if text.get_text()]
    assert [word for word in said if word in WORDS] == WORDS * 2
    assert [word for word in said if word.startswith("layer")] == ["layer 1", "layer 2"]


def test_names_of_stretches_are_whole_on_a_narrow_page(tmp_path, page):
    words = ("The", "dog", "ran", "and", "the", "cat", "that", "I", "saw", "there", "slept")
    spans = tuple(LabeledSpan(i, i + 2, "ARGM-TMP", 0.5) for i in range(0, 10, 2))
    run = Run([], input="in", panels=[SpansPanel(words=words, spans=spans)])
    where = drawable(View([], [], [run])).page(tmp_path / "page.html")
    page.page.set_viewport_size({"width": 260, "height": 400})
    page.page.goto(where.as_uri())
    names = page.ask(
        """() => [...document.querySelectorAll(".spans .first")].map((i) => {
        const r = document.createRange(); r.selectNodeContents(i);
        const b = r.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom]; })"""
    )
    assert len(names) == 5
    for n, (left, right, top, bottom) in enumerate(names):
        assert 0 <= left < right <= 260
        for other in names[:n]:
            apart = right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top
            assert apart


def test_a_page_without_a_picture_is_dark_where_the_reader_wants_it(tmp_path, page):
    run = Run(
        [],
        input="in",
        panels=[ValuesPanel("bars", "answers", labels=("yes", "no"), values=(0.75, 0.25))],
    )
    where = drawable(View([], [], [run])).page(tmp_path / "page.html")
    back = "() => getComputedStyle(document.body).backgroundColor"
    colours = []
    for scheme in ("light", "dark"):
        page.page.emulate_media(color_scheme=scheme)
        page.page.goto(where.as_uri())
        colours.append(page.ask(back))
    assert colours == ["rgb(255, 255, 255)", "rgb(20, 24, 31)"]


def test_numbers_of_looks_do_not_lie_on_each_other(tmp_path, page):
    axes = [Axis(["a", "b", "c"]), Axis([str(i) for i in range(16)], "image", grid=(4, 4))]
    one = Map.of("look", 0, 1, np.full((1, 3, 16), 1 / 16))
    one.extra.update(x=[0.5, 0.5, 0.9], y=[0.5, 0.51, 0.5])
    panels = [MapPanel("image", map=0)]
    view = View(axes, [one], [Run([0], panels=panels)])
    drawn = draw(view, view.runs[0], panels, width="page")
    said = [text.get_text() for text in drawn.axes[0].texts if text.get_text()]
    assert said == ["a", "1", "b", "2", "c", "3", "2"]
    page.open(drawable(view).page(tmp_path / "page.html"))
    page.ask("() => change({ row: 2 })")
    page.settle()
    assert page.fine()
