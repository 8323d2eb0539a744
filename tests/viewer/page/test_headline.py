"""The answer as the headline, and rules of a page's layout that can be computed."""

from itertools import product

import numpy as np
import pytest

from regard import view
from regard.viewer import Axis, DrawableView, Map, Run, read
from regard.viewer.page.headline import MOST, headline_html, plain_title
from regard.viewer.page.html import page as whole
from regard.views import (
    LabeledSpan,
    MapPanel,
    SpansPanel,
    TablePanel,
    TreeNode,
    TreePanel,
    ValuesPanel,
)
from tests.viewer import views

WORDS = ["She", "gave", "him", "a", "book"]
GAVE = SpansPanel(
    title="roles of gave",
    words=tuple(WORDS),
    spans=(LabeledSpan(0, 1, "ARG0", 0.9), LabeledSpan(3, 5, "ARG1", 0.8)),
    anchor=1,
)
TREE = TreePanel(root=TreeNode("S", (TreeNode("NP", (TreeNode("She"),)), TreeNode("gave"))))
SURE = ValuesPanel("bars", "probabilities", labels=("pos", "neg"), values=(0.789, 0.211))
WHY = TablePanel(columns=("attention", "change"), cells=(("a" * 40, "−8.332"),) * 30)


def answered(output="", *panels, text="She gave him a book", words=None) -> DrawableView:
    """A view of one run with panels beside the picture of its attention."""
    words = words or WORDS
    made = view(views.soft(2, len(words), len(words)), rows=words, kind="self", title="roles")
    map_panel = MapPanel("matrix", map=0)
    run = Run([0], input=text, output=output, model="roles", panels=[*panels, map_panel])
    return DrawableView(made.axes, made.maps, [run], "roles")


def headline(output="", *panels, text="x"):
    return headline_html([Run([0], input=text, output=output, panels=list(panels))])


def test_a_label_has_its_probability():
    assert '<p class="answer" dir="auto">pos <small>78.9 %</small></p>' in headline("pos", SURE)
    assert "%" not in headline("other", SURE)


def test_a_text_is_itself_and_escaped():
    told = headline("The <b>window</b>", text="Das Fenster")
    assert '<p class="given" dir="auto">Das Fenster</p>' in told
    assert ">The &lt;b&gt;window&lt;/b&gt;</p>" in told
    assert len(headline("w " * 5000)) < MOST + 200


def test_labels_stand_behind_their_words_and_of_overlapping_ones_the_first():
    overlapping = SpansPanel(
        words=("a", "b", "c"), spans=(LabeledSpan(1, 3, "X"), LabeledSpan(0, 2, "Y"))
    )
    told = headline("", overlapping)
    assert '">a b</mark><sub>\u00a0Y</sub> c</p>' in told
    assert "X" not in told


def test_a_tree_is_one_line_of_brackets():
    assert "(S (NP She) gave)" in headline("(S (NP XX )NP XX )S", TREE)


def test_titles_have_no_bars():
    text = "A dog runs. ||| An animal."
    assert plain_title(f"sick · {text}") == "sick · A dog runs. · An animal."
    made = answered("entailment", text=text)
    drawn = whole(DrawableView(made.axes, made.maps, made.runs, f"sick · {text}")).decode()
    assert "<title>sick · A dog runs. · An animal.</title>" in drawn
    assert "|||" not in headline("entailment", text=text)


@pytest.mark.parametrize(
    ("panel", "text"),
    [(GAVE, "ARG1"), (TREE, "NP"), (WHY, "−8.332")],
)
def test_labels_trees_and_effects_get_the_stage(panel, text, tmp_path, page):
    page.open(answered("O O O", panel).page(tmp_path / "x.html"))
    assert page.ask("() => viewNow().id") == "result"
    assert text in page.page.inner_text("#leaf")
    assert not page.page.is_visible("#panels .panel")  # said once
    page.page.click("#views button:has-text('Matrix')")
    page.settle()
    assert page.page.is_visible("#panels .panel")
    assert page.ink() > 4
    assert page.fine()


def test_pictures_beside_a_table_stay_on_the_stage(tmp_path, page):
    made = answered("pos")
    run = made.runs[0]
    run.panels.append(WHY)  # behind the picture
    page.open(made.page(tmp_path / "x.html"))
    assert page.ask("() => viewNow().id") == "matrix"


def test_escape_closes_what_is_open_and_then_the_choice(tmp_path, page):
    page.open(views.translation().page(tmp_path / "x.html"), "row=1")
    page.page.keyboard.press("?")
    assert page.page.is_visible("#keys")
    page.page.keyboard.press("d")  # keys of the page behind it rest
    page.page.keyboard.press("Escape")
    assert (page.page.is_visible("#keys"), page.state("row"), page.state("theme")) == (False, 1, "")
    page.page.click("#tools")
    assert page.page.is_visible("#share")
    page.page.keyboard.press("Escape")
    assert (page.page.is_visible("#share"), page.state("row")) == (False, 1)
    page.press("Escape")
    assert page.state("row") == -1
    assert page.fine()


@pytest.mark.parametrize(("places", "least"), [(2, 100), (6, 60), (12, 36)])
def test_a_matrix_is_as_large_as_the_stage(places, least, tmp_path, page):
    words = [f"w{i}" for i in range(places)]
    page.open(answered(words=words).page(tmp_path / "x.html"))
    assert page.ask("() => viewNow().g.cell") >= least
    assert page.ask(
        "() => viewNow().g.above + viewNow().p.R * viewNow().g.cell <= document.querySelector("
        "'#stage').clientHeight"
    )


GAPS = """() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(
    v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0.05);
  const ground = node => {
    for (let n = node; n; n = n.parentElement) {
      const back = rgb(getComputedStyle(n).backgroundColor);
      if (back.length === 3 || back[3] > 0) return back;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.checkVisibility()) continue;
    if (["SCRIPT", "STYLE", "NOSCRIPT"].includes(node.tagName)) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(ground(node))];
    const ratio = Math.max(a, b) / Math.min(a, b);
    if (ratio < 4.5) found.push([walker.currentNode.data.trim(), ratio]);
  }
  return found;
}"""
OVER = """() => [document.documentElement.scrollWidth - innerWidth,
  document.querySelector('header').scrollHeight - 50]"""
PAGES = {
    "translation": lambda: views.translation(),
    "roles": lambda: answered("O B O O B", GAVE),
    "label": lambda: answered("pos", SURE),
    "hops": lambda: views.kinds()["hops"],
    "pointer": lambda: views.kinds()["pointer"],
}


CHOICES = (
    "{}", "{view: 'text'}", "{view: 'heads'}", "{view: 'lines', head: 0}", "{view: 'compare'}",
    "{view: 'text', table: 1, row: 0}",
)  # fmt: skip


SCREENS = ((1280, "light"), (900, "dark"), (390, "light"), (390, "dark"))


@pytest.mark.parametrize(
    ("name", "turn", "first"),
    [
        pytest.param(name, turn, first, marks=() if n % 4 == 2 * first + turn else pytest.mark.slow)
        for n, name in enumerate(PAGES)
        for turn, first in product((0, 1), (0, 1))
    ],
)
def test_texts_can_be_read_and_nothing_is_wider_than_the_page(name, turn, first, tmp_path, page):
    """Contrast of level AA, no sideways scrolling, and on a phone one row of header.

    Each choice on a screen and on a phone, in light and in dark; the next one, or the same of the
    next page, with both the other way round. A page meets two screens, the next but one the others.
    """
    page.open(PAGES[name]().page(tmp_path / "x.html"))
    for number, (wide, scheme) in [*enumerate(SCREENS)][first::2]:
        page.page.set_viewport_size({"width": wide, "height": 780})
        page.page.emulate_media(color_scheme=scheme)
        for at, choice in enumerate(CHOICES):
            if (number in (0, 3)) != ((at + turn) % 2 == 0):
                continue
            page.ask(f"() => change({choice})")
            assert page.ask(GAPS) == [], (wide, scheme, choice)
            sideways, more = page.ask(OVER)
            assert sideways <= 0
            assert more <= 0 or wide > 760
    assert page.fine()


AXE = {("translation", 0, "light"), ("roles", 1, "dark")}
"""Pages, which half of the choices on them, and in what light, that `make test` looks at."""


@pytest.mark.parametrize(
    ("name", "turn", "scheme"),
    [
        pytest.param(*case, marks=() if case in AXE else pytest.mark.slow)
        for case in product(PAGES, (0, 1), ("light", "dark"))
    ],
)
def test_axe_finds_nothing(name, turn, scheme, tmp_path, page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core").Axe()
    page.open(PAGES[name]().page(tmp_path / "x.html"))
    page.page.emulate_media(color_scheme=scheme)
    for choice in CHOICES[turn::2] if scheme == "light" else CHOICES[turn - 2 :: 2]:
        page.ask(f"() => change({choice})")
        found = axe.run(page.page)
        assert found.violations_count == 0, (choice, found.generate_report())


def test_nodes_have_the_colors_of_their_classes_and_labels_do_not_overlap(tmp_path, page):
    draw, count = np.random.default_rng(1), 60
    edges = [(i, int(draw.integers(max(i // 3, 1)))) for i in range(1, count)]
    weights = np.zeros((1, count, count), np.float32)
    for i, j in edges:
        weights[:, i, j] = weights[:, j, i] = 0.1 + draw.random()
    classes = [("Theory", "Networks", "")[i % 3] for i in range(count)]
    names = [f"paper {i}" for i in range(count)]
    nodes = Axis(names, "nodes", edges=edges, classes=classes)
    made = view(weights, rows=nodes, kind="edges")
    kept = read(made.save(tmp_path / "x.seen"))
    assert kept.axes[0].classes == classes
    page.open(kept.page(tmp_path / "x.html"))
    boxes = page.ask("() => viewNow().labelled")
    assert 10 < len(boxes) < count
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    colors = page.ask(
        """() => { const c = document.querySelector('#canvas'), pen = c.getContext('2d');
        const { data } = pen.getImageData(0, 0, c.width, c.height);
        return viewNow().g.map(([x, y]) => {
          const at = 4 * (Math.round(y) * c.width + Math.round(x - 9));
          return [...data.slice(at, at + 3)];
        }); }"""
    )
    own = {name: {tuple(c) for c, k in zip(colors, classes, strict=True) if k == name}
           for name in ("Theory", "Networks")}  # fmt: skip
    assert (0, 114, 178) in own["Networks"]  # the first color, of the first name
    assert (230, 159, 0) in own["Theory"]
    assert (230, 159, 0) not in own["Networks"]
    assert page.fine()


@pytest.mark.parametrize(
    ("what", "label"),
    [("pooled", "select a word"), ("weights", "average attention; select a word")],
)
def test_numbers_that_are_no_attention_are_not_called_so(what, label, tmp_path, page):
    axes = [Axis(["label"], "steps"), Axis(WORDS)]
    weights = np.full((1, 1, len(WORDS)), 0.2, np.float32)
    shares = Map.of("pooled", 0, 1, weights, kind="pooled", what=what)
    run = Run([0], panels=[MapPanel("text", map=0)])
    page.open(DrawableView(axes, [shares], [run]).page(tmp_path / "x.html"))
    titles = page.page.locator("#stage h2").all_inner_texts()
    assert label in titles
    assert ("average attention" in " ".join(titles)) == (what == "weights")
    assert ("not attention" in page.page.inner_text("#what")) == (what == "pooled")
