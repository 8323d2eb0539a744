"""Whatever a task gives: every kind of panel is drawn on each surface, and kept in a file."""

import re
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

import regard
from regard import viewer
from regard.errors import RequestError
from regard.tasks import Prediction, Task
from regard.viewer import DrawableView, Run, drawable
from regard.viewer.content import Shown
from regard.viewer.drawing import draw
from regard.viewer.panels.registry import PANEL_KINDS
from regard.viewer.rendering import render
from regard.viewer.selection import choose, run_of, values_of
from regard.views import (
    KINDS,
    Axis,
    LabeledSpan,
    MapPanel,
    SpansPanel,
    TablePanel,
    TreeNode,
    TreePanel,
    ValuesPanel,
    View,
    ViewOptions,
)
from tests.viewer import views

WORDS = ["a", "red", "bird"]
TREE = TreeNode("S", (TreeNode("NP", (TreeNode("she"),)), TreeNode("VP", (TreeNode("sings"),))))
SPANS = (LabeledSpan(0, 1, "A0", 0.5), LabeledSpan(0, 2, "A1"), LabeledSpan(1, 2, "V"))
VALUES = {
    "spans": SpansPanel(title="roles", words=("she", "sings"), spans=SPANS, anchor=1),
    "bars": ValuesPanel("bars", "answers", labels=("yes", "no"), values=(0.75, 0.25)),
    "shaded": ValuesPanel("shaded", labels=("she", "sings"), values=(0.9, 0.1), note="so there"),
    "table": TablePanel(columns=("HEAD", "CHANGE"), cells=(("1", "+0.5"), ("2", "−0.25"))),
    "tree": TreePanel(title="the tree", root=TREE),
}
SAYS = {
    "spans": ["roles", "she", "sings", "A0 0.50"],
    "bars": ["answers", "0.750", "yes", "no"],
    "shaded": ["she", "sings", "so there"],
    "table": ["HEAD", "CHANGE", "−0.25"],
    "tree": ["S", "NP she", "VP sings"],
    "features": ["24 features"],
    "pointer": ["copied", "points at"],
    "hops": ["hop 1", "hop 3", "Mary left"],
    "neighbors": ["neighbor", "mean", "h2"],
    "curves": ["spread, bits", "coverage"],
    "lines": ["red →"],
}


def plain() -> DrawableView:
    return regard.view(views.soft(2, 3, 3), rows=WORDS, kind="self", title="made up")


def made(kind: str) -> DrawableView:
    """A view that has one panel, of this kind."""
    given = views.kinds()
    like = {"neighbors": "graph"}.get(kind, kind)
    view = given.get(like) or plain()
    m = view.runs[0].maps[0]
    panel = VALUES.get(kind) or MapPanel(
        kind, map=m, row=2 if kind == "neighbors" else None,
        other=(m, 2) if kind == "compare" else None,
        heads=(1,) if kind == "compare" else (),
    )  # fmt: skip
    run = replace(view.runs[0], panels=[panel], input="in", output="out", model="toy")
    return replace(view, runs=[run])


def test_every_kind_can_be_made():
    assert set(PANEL_KINDS) == set(KINDS)
    assert {made(kind).runs[0].panels[0].kind for kind in KINDS} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_terminal_draws_it(kind):
    view = made(kind)
    for colour in (True, False):
        text = view.text(colour=colour, values=not colour, width=80)
        assert len(text.plain) > 10
        assert bool(text.spans) or not colour or kind in ("table", "tree")
        for said in SAYS.get(kind, ()):
            assert said in text.plain, (kind, said)


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_draws_it(kind, tmp_path):
    view = made(kind)
    path = tmp_path / "a.png"
    draw(view, view.runs[0], view.runs[0].panels, path, width="column")
    pixels = imread(path)
    # One number a pixel: to sort rows of four takes a second.
    levels = np.rint(pixels * 255).astype(np.int64)
    colors = sum(levels[..., n] << 8 * n for n in range(levels.shape[-1]))
    assert len(np.unique(colors)) > 3
    assert pixels.shape[1] > 300


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_keeps_it(kind, tmp_path):
    view = made(kind)
    back = viewer.read(view.save(tmp_path / "a.seen"))
    assert back.runs == view.runs


def test_a_page_draws_each(tmp_path, page):
    """All on one page, a run each: to open one takes most of the time."""
    several = reduce(add, map(made, KINDS))
    assert len(several.runs) == len(KINDS)
    page.open(several.page(tmp_path / "a.html"))
    for number, kind in enumerate(KINDS):
        page.go(f"run={number}")
        assert page.state("run") == number
        if kind in VALUES:
            place = "#leaf" if kind in ("table", "tree", "spans") else "#panels"
            told = page.page.inner_text(place)
            for said in {"bars": ["yes", "0.75"], "table": ["−0.25"]}.get(kind, ["she", "sings"]):
                assert said in told
        elif kind != "matrix":
            wanted = {"neighbors": "graph"}.get(kind, kind)
            assert page.ask("() => viewNow().id") == wanted
        assert page.fine()


def test_panels_of_the_chosen_run_alone_are_on_the_page(tmp_path, page):
    view = made("bars")
    other = ValuesPanel("bars", "others", labels=("maybe",), values=(1.0,))
    two = view + replace(view, runs=[replace(view.runs[0], panels=[other])])
    page.open(two.page(tmp_path / "a.html"))
    shown = "() => document.querySelector('#panels').innerText"
    assert "yes" in page.ask(shown)
    assert "maybe" not in page.ask(shown)
    page.page.select_option("#run", "1")
    page.settle()
    assert "maybe" in page.ask(shown)
    assert "yes" not in page.ask(shown)


def test_a_view_without_a_map_has_a_page_too(tmp_path, page):
    run = Run([], input="<in>", output="out", panels=[VALUES["bars"], VALUES["tree"]])
    path = DrawableView([], [], [run], "no maps").page(tmp_path / "a.html")
    page.page.goto(path.as_uri())
    told = page.ask("() => document.body.innerText")
    for said in ("no maps", "<in>", "answers", "sings"):
        assert said in told
    assert page.wrong == []


def test_hostile_labels_are_text(tmp_path, page):
    bad = "<img src=x onerror=alert(1)>\x1b[31m"
    panels = [
        ValuesPanel("bars", bad, bad, labels=(bad,), values=(1.0,)),
        ValuesPanel("shaded", labels=(bad,), values=(1.0,)),
        TablePanel(columns=(bad,), cells=((bad,),)),
        TreePanel(root=TreeNode(bad, (TreeNode(bad),))),
    ]
    view = plain()
    view = replace(view, runs=[replace(view.runs[0], panels=panels)])
    assert "\x1b" not in view.text(colour=False).plain.replace(bad, "")
    page.open(view.page(tmp_path / "a.html"))
    assert page.ask("() => document.images.length") == 0
    assert page.fine()


# -- numbers


def test_neighbors_are_those_of_the_matrix():
    view = made("neighbors")
    weights = view.maps[0].weights
    lines = view.text(colour=False).plain.splitlines()
    rows = [line.split() for line in lines if re.match(r"\s*(itself|n\d+)\s", line)]
    mean = weights[:, 1].mean(0)
    joined = np.flatnonzero(mean).tolist() or []
    order = sorted({*joined, 0}, key=lambda c: (-mean[c], c))
    assert [row[0] for row in rows] == ["itself" if c == 1 else f"n{c}" for c in order]
    for row, c in zip(rows, order, strict=True):
        numbers = [mean[c], *weights[:, 1, c]]
        assert [float(x) for x in row[1:]] == pytest.approx(numbers, abs=6e-4)


def test_lines_name_the_largest():
    view = made("lines")
    mean = view.maps[0].weights.mean(0)
    for word, line, row in zip(WORDS, view.text(colour=False).plain.splitlines()[1:], mean,
                               strict=True):  # fmt: skip
        name, told = line.split("→")
        assert name.strip() == word
        first, number = told.split()[:2]
        assert first == WORDS[int(row.argmax())]
        assert float(number) == pytest.approx(row.max(), abs=0.006)


def test_selected_rows_and_columns():
    view = plain()
    panel = MapPanel("matrix", map=0, heads=(2,), rows=(2, 0), columns=(1,))
    found = values_of(view, view.runs[0], [panel])
    assert (found["rows"], found["columns"]) == (["bird", "a"], ["red"])
    assert np.array(found["pictures"][0]["weights"]) == pytest.approx(
        view.maps[0].weights[1][[2, 0]][:, [1]], abs=1e-5
    )
    for bad in (MapPanel("matrix", map=0, rows=(9,)), MapPanel("matrix", map=0, heads=(5,))):
        with pytest.raises(RequestError, match=r"not there|no head 5"):
            render(view, view.runs[0], [bad])


# -- what may be asked


def beam() -> DrawableView:
    return views.translation()


def test_nothing_asked_gives_what_the_run_comes_with():
    view = made("bars")
    assert choose(view) == view.runs[0].panels
    (usual,) = choose(beam())
    assert (usual.kind, usual.map) == ("matrix", 1)  # the last layer of cross


def test_layers_heads_and_rows():
    view = beam()
    panels = choose(view, layer="all", head="all")
    assert [(p.map, p.heads) for p in panels] == [(m, (h,)) for m in (0, 1) for h in (1, 2, 3, 4)]
    (lines,) = choose(view, show="lines", head="1,3", kind="encoder", layer="1", row=2)
    assert (lines.map, lines.heads, lines.row) == (4, (1, 3), 2)
    (two,) = choose(view, show="compare", head="2,3")
    assert (two.map, two.heads, two.other) == (1, (2,), (1, 3))
    (runs,) = choose(view, 1, show="compare")
    assert runs.other[0] == view.runs[0].maps[1]
    assert run_of(view, 2) == 1


def test_the_beam_is_a_tree():
    (panel,) = choose(beam(), show="tree")
    assert [node.label for node in panel.root.children] == ["The"]
    text = render(beam(), beam().runs[0], [panel], colour=False).plain
    assert "├─ closed . </s> (1: −0.20)" in text
    assert "└─ shut . </s> (2: −0.40)" in text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"show": "line"}, "did you mean 'lines'"),
        ({"show": "bars"}, "no bars to show of this input; there is"),
        ({"kind": "crosss"}, "did you mean 'cross'"),
        ({"layer": "9"}, "there is: 1, 2"),
        ({"layer": "x"}, "a number from 1 up, or all"),
        ({"head": "a"}, "numbers from 1 up"),
        ({"row": 99}, "no step 99: the picture has rows 1 to 6"),
        ({"show": "hops", "layer": "1"}, "layer: the picture 'hops' has every layer"),
        ({"show": "features", "head": "1"}, "head: the picture 'features' has every head"),
    ],
)
def test_what_cannot_be_chosen_is_said(asked, said):
    with pytest.raises(RequestError, match=said):
        choose(beam(), **asked)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "x"}, "target: no view of the task 'toy' looks at an output that is given"),
        ({"measure": "norms"}, "measure: no view of the task 'toy' shows"),
        ({"why": True}, "why: no view of the task 'toy' tells"),
        ({"hypotheses": 2}, "hypothesis: no view of the task 'toy' follows"),
    ],
)
def test_an_option_that_a_task_cannot_use_is_refused(options, said):
    with pytest.raises(RequestError, match=said):
        ViewOptions(**options).only(task="toy")
    ViewOptions(**options).only(*options, task="toy")
    ViewOptions(hypotheses=1, folder="x").only(task="toy")


def test_panels_that_mean_nothing_are_refused():
    with pytest.raises(RequestError, match="did you mean 'matrix'"):
        MapPanel("matrx")
    with pytest.raises(RequestError, match="ValuesPanel is of the kind 'matrix'"):
        ValuesPanel("matrix")
    with pytest.raises(RequestError, match="a value for each of 1 labels, got 0"):
        ValuesPanel("bars", labels=("a",))
    with pytest.raises(RequestError, match="rows of 1 cells"):
        TablePanel(columns=("a",), cells=(("b", "c"),))
    with pytest.raises(RequestError, match="a stretch of 2 words, got 1 to 3"):
        SpansPanel(words=("a", "b"), spans=(LabeledSpan(1, 3, "X"),))
    with pytest.raises(RequestError, match="a word of 1, got anchor 1"):
        SpansPanel(words=("a",), anchor=1)
    view = plain()
    with pytest.raises(RequestError, match="a panel shows map 7"):
        View(view.axes, view.maps, [Run([0], panels=[MapPanel("matrix", map=7)])])
    with pytest.raises(RequestError, match="there is nothing to draw"):
        draw(view, view.runs[0], [])


# -- a task of one's own


class Shout(Task):
    """A task that says nothing of its view."""

    name = "shout"
    metric = "accuracy"
    loss = outputs = score = None  # type: ignore[assignment]

    def fields(self):
        from regard.fields import TextField

        return {"source": TextField("words", end=False)}

    def predict(self, model, texts, decoder, tokenizers, **more):
        import torch

        for text in texts:
            model(torch.randn(1, len(text.split()), 8))
        return [Prediction(text, text.upper(), -0.5) for text in texts]


def shouting():
    """A loaded model of that task, as far as views want one."""
    import torch
    from torch import nn

    from regard.attention import MultiHead
    from regard.data.text.tokenizer import Tokenizer
    from regard.fields.sets import as_fields
    from regard.folder.reading import Loaded

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.look = MultiHead(8, 2, role="encoder")

        def forward(self, x):
            return self.look(x, x).context

    torch.manual_seed(0)
    words = Tokenizer.train(["she sings well"] * 2, kind="words", vocab_size=20)
    config = {"model": {"name": "reads"}, "decode": {}}
    fields = as_fields({"source": words}, Shout().fields())
    return Loaded(Reads().eval(), Shout(), fields, None, config, Path("nowhere"))


def test_a_task_that_says_nothing_is_shown_all_the_same(tmp_path):
    loaded = shouting()
    view = drawable(loaded.task.view(loaded, ["she sings", "well"]))
    assert [view.maps[m].kind for m in view.runs[0].maps] == ["encoder"]
    assert view.axes[view.maps[0].rows].pieces == ["she", "sings"]
    text = view.text(colour=False).plain
    assert "reads · encoder self-attention · mean of 2 heads" in text
    assert "SHE SINGS" in text
    assert "0.607" in text  # exp(-0.5)
    assert view.page(tmp_path / "a.html").stat().st_size > 10_000
    assert view.figure(tmp_path / "a.png") is not None
    with pytest.raises(RequestError, match="measure: no view of the task 'shout'"):
        loaded.task.view(loaded, ["she"], ViewOptions(measure="norms"))
    with pytest.raises(RequestError, match="input is empty"):
        loaded.task.view(loaded, [" "])


def test_the_command_knows_no_task():
    """No task by its name, and no class of one, in what draws views."""
    from regard import tasks
    from tests.repo.tree import SOURCE

    command = [SOURCE / "cli" / "look.py", SOURCE / "cli" / "_surfaces.py"]
    for path in [*command, *(SOURCE / "viewer").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert "isinstance(loaded.task" not in text
        for name in tasks.TASKS:
            assert path not in command or f'"{name}"' not in text, (path, name)
            assert f"regard.tasks.{name}" not in text, (path, name)


def test_a_strip_of_features_is_of_the_word_that_looks_widest():
    """Forward attention has nothing before the first word; that row is empty."""
    weights = [np.tril(np.ones((3, 3)), -1), np.zeros((3, 3))]
    words = ["a", "b", "c"]
    axis = Axis(tuple(words))
    seen = Shown(words, words, weights, ["1", "2"], axis, axis)
    assert seen.widest == 2
    assert replace(seen, weights=[np.zeros((3, 3))]).widest == 0
