"""The page in a browser, from a file, with every network blocked: opened, clicked, keyed."""

import base64
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import regard
from regard import viewer
from regard.viewer.content import title_of
from regard.viewer.page.html import page as whole
from regard.viewer.page.opening import pictures_of
from regard.views import MapPanel
from tests.viewer import views

GENERAL = ["matrix", "lines", "heads", "text", "curves", "compare"]


@pytest.fixture(scope="module")
def translation(tmp_path_factory):
    return views.translation().page(tmp_path_factory.mktemp("page") / "translation.html")


def test_it_is_one_file_that_asks_for_nothing():
    text = whole(views.translation()).decode()
    text = text.replace('"http://www.w3.org/2000/svg"', "")  # a name, which nothing fetches
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text)
    assert "http:" not in text
    assert "https:" not in text
    assert "@" + "DATA@" not in text
    assert "default-src 'none'" in text


def attention(kind, heads, places):
    """As in benchmarks/page.py."""
    draw = np.random.default_rng(0)
    shape = (1, heads, places, places)
    if kind == "uniform":
        found = draw.random(shape, dtype=np.float32)
    else:
        found = np.exp(
            draw.standard_normal(shape, dtype=np.float32) * (4 if kind == "peaked" else 1)
        )
    return regard.view(found / found.sum(-1, keepdims=True), rows=[f"w{i}" for i in range(places)])


@pytest.mark.parametrize(
    ("kind", "places", "top_k", "most"),
    [
        ("peaked", 128, None, 2.6), ("flat", 128, None, 2.6), ("peaked", 512, None, 7.0),
        ("flat", 512, None, 38.0), ("peaked", 512, 16, 3.5), ("flat", 512, 16, 3.5),
    ],
)  # fmt: skip
def test_pages_of_twelve_layers_of_twelve_heads_are_small(kind, places, top_k, most):
    """Measured on eight heads and four; what all have in common is counted once."""
    eight, four = (len(whole(attention(kind, n, places), top_k=top_k)) for n in (8, 4))
    assert (four + 35 * (eight - four)) / 1e6 <= most


def test_a_title_cannot_become_markup(tmp_path, page):
    bad = regard.view(np.eye(2), rows=["</script><b>", "<img src=x>"], title="<b>x</b></title>")
    page.open(bad.page(tmp_path / "a.html"), "row=0&table=1")
    assert page.ask("() => document.querySelectorAll('b, img').length") == 0
    assert page.fine()


BYTES = """async (head) => {
const all = new Uint8Array(Float32Array.from(await file.weights(0, head)).buffer), texts = [];
for (let i = 0; i < all.length; i += 8192)
  texts.push(String.fromCharCode(...all.subarray(i, i + 8192)));
return btoa(texts.join('')); }"""
"""The weights of a head: a list of numbers takes ten times as long."""


def weights_in(page, head):
    return np.frombuffer(base64.b64decode(page.ask(BYTES, head)), np.float32)


def test_weights_in_the_page_are_those_of_the_file(tmp_path, page):
    signed = views.DRAW.standard_normal((2, 5, 6)).astype(np.float32)
    wide = views.soft(2, 7, 700, sharp=4.0)
    for weights, options in (
        (views.soft(3, 5, 6), {}), (views.soft(2, 4, 6), {"code": "f16"}), (signed, {}),
        (wide, {"top_k": 9}), (views.soft(1, 190, 180), {"precision": 200}),
        (views.soft(1, 190, 180, sharp=4.0), {"precision": 25}),
        (np.tril(views.soft(1, 180, 190, sharp=0.2)), {"precision": 12}),
    ):  # fmt: skip
        view = regard.view(weights, kind="cross")
        view.save(tmp_path / "a.seen", **options)
        mine = viewer.read(tmp_path / "a.seen").maps[0].weights
        page.open(view.page(tmp_path / "a.html", **options))
        for head in range(len(weights)):
            shown = weights_in(page, head)
            np.testing.assert_allclose(np.reshape(shown, mine[head].shape), mine[head], atol=1e-6)
        mean = weights_in(page, "mean")
        np.testing.assert_allclose(np.reshape(mean, mine[0].shape), mine.mean(0), atol=1e-6)
        assert page.fine()
    said = page.ask("() => document.getElementById('what').textContent")
    assert "in 12 steps of each row's largest, off by at most 0.0" in said


def test_words_are_joined_as_in_figures(translation, page):
    page.open(translation, "words=1")
    rows = page.ask("async () => (await picture(0, 0)).rows.labels")
    assert rows == ["The", "window", "is", "closed", ".", "</s>"]
    sums = page.ask(
        """async () => { const p = await picture(0, 0);
        const row = (r) => p.w.slice(r * p.C, (r + 1) * p.C).reduce((a, b) => a + b);
        return p.rows.labels.map((_, r) => row(r)); }"""
    )
    assert sums == pytest.approx([1] * 6, abs=0.02)
    page.press("w")
    assert page.ask("async () => (await picture(0, 0)).rows.labels") == views.ENGLISH
    assert page.fine()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_opens(theme, translation, page):
    for name in GENERAL:
        to = page.go if page.page.url.startswith("file:") else partial(page.open, translation)
        to(f"view={name}&theme={theme}&row=1")
        assert page.ask("() => viewNow().id") == name
        assert page.ask("() => document.documentElement.dataset.theme") == theme
        if name in ("matrix", "lines", "curves"):
            assert page.ink() > 4
        else:
            assert page.ask("() => document.querySelector('#leaf').children.length") > 0
        assert page.fine()


@pytest.mark.parametrize("name", list(views.kinds()))
def test_views_for_other_kinds_of_data(name, tmp_path, page):
    view = views.kinds()[name]
    page.open(view.page(tmp_path / "a.html"), f"view={name}" if name in ("text", "arcs") else "")
    assert page.ask("() => viewNow().id") == name
    run = view.runs[0]
    there = pictures_of(view, run, view.maps[run.maps[0]])
    assert sorted(page.ask("() => viewsNow().map((one) => one.id)")) == sorted(there)
    page.press("ArrowDown", "v", "d")
    page.page.mouse.click(400, 400)
    page.settle()
    assert page.fine()


def test_clicking_a_cell_chooses_its_row_and_column(translation, page):
    page.open(translation)
    x, y = page.ask(
        """() => { const box = document.querySelector('#stage').getBoundingClientRect();
        for (let y = 0; y < 400; y++) for (let x = 0; x < 600; x++) {
            const at = viewNow().at(x, y);
            if (at?.row === 1 && at.col === 2) return [box.x + x + 3, box.y + y + 3]; } }"""
    )
    page.page.mouse.move(x, y)
    assert "window → wird" in page.page.inner_text("#tip")
    page.page.mouse.click(x, y)
    page.settle()
    assert (page.state("row"), page.state("col")) == (1, 2)
    said = page.page.inner_text("#row")
    assert "“window” attends to" in said
    assert "attention to “wird”" in said
    assert "row=1" in page.page.url
    assert page.fine()


def test_keys_lead_everywhere(translation, page):
    page.open(translation)
    page.press("ArrowDown", "ArrowDown", "ArrowRight")
    assert (page.state("row"), page.state("col")) == (1, 0)
    page.press("]", "]")
    assert page.state("head") == 1
    page.press("[")
    assert page.state("head") == 0
    page.press("}")
    assert page.ask("() => mapNow().layer") == 2
    page.press("m", "v", "+", "+")
    assert (page.state("head"), page.state("values"), page.state("zoom")) == ("mean", 1, 2)
    page.press("0", "h")
    assert (page.state("zoom"), page.state("run")) == (0, 1)
    for number in range(1, page.ask("() => viewsNow().length") + 1):
        page.press(str(number))
        assert page.ask("() => viewNow().id") == page.ask(f"() => viewsNow()[{number - 1}].id")
    page.press("Escape")
    assert page.state("row") == -1
    page.page.keyboard.press("?")
    assert page.page.is_visible("#keys")
    page.page.keyboard.press("Escape")
    assert page.fine()


def test_the_address_is_the_view(translation, page):
    page.open(translation, "run=1&at=1&head=2&view=lines&row=3&words=0&theme=dark")
    assert page.ask("() => [state.run, state.at, state.head, viewNow().id, state.row]") == [
        1, 1, 2, "lines", 3,
    ]  # fmt: skip
    assert page.ask("() => document.documentElement.dataset.theme") == "dark"
    address = page.page.url
    page.press("]")
    assert page.page.url != address
    assert "head=3" in page.page.url
    page.ask("() => { location.hash = 'view=text' }")
    page.page.wait_for_timeout(100)
    assert page.ask("() => viewNow().id") == "text"
    page.open(translation, "run=99&at=77&head=55&view=nothing&row=abc&x=1")
    assert page.fine()


def test_hypotheses_are_switched_and_compared(translation, page):
    page.open(translation, "words=0")
    page.page.click("#beam button >> nth=1")
    page.settle()
    assert page.state("run") == 1
    tree = page.page.inner_text("#beam [role=tree]").split()
    assert tree.count("The") == tree.count("window") == 1  # what both begin with
    assert {"closed", "shut"} < set(tree)
    page.page.click("#beam [role=treeitem] [role=treeitem]:first-of-type .step:has-text('closed')")
    page.settle()
    assert (page.state("run"), page.state("row")) == (0, 3)
    page.page.click("#beam button >> nth=1")
    page.press("w")
    page.page.click("#views button:has-text('Compare')")
    page.settle()
    assert page.ask("() => document.querySelectorAll('#leaf canvas').length") == 3
    told = page.page.inner_text("#leaf")
    assert "weight lies elsewhere" in told
    assert "places are compared" in told
    page.page.select_option("#leaf select[aria-label='b: attention']", label="encoder 1")
    page.settle()
    assert "No difference can be drawn" in page.page.inner_text("#leaf")
    assert page.fine()


def test_the_difference_of_a_head_with_itself_is_nothing(translation, page):
    page.open(translation, "view=compare&a=0.0.1&b=0.0.1")
    assert "On average 0 % of a row" in page.page.inner_text("#leaf")
    assert page.fine()


def test_heads_are_sorted_filtered_and_pinned(translation, page):
    page.open(translation, "view=heads&sort=-diagonal")
    values = page.ask(
        "() => [...document.querySelectorAll('.tiles small')].map((n) => parseFloat(n.textContent))"
    )
    assert len(values) == 24
    assert values == sorted(values, reverse=True)
    page.page.fill("#filter", "kind:cross layer:2")
    page.page.press("#filter", "Enter")
    page.settle()
    assert page.ask("() => document.querySelectorAll('.tiles .tile').length") == 4
    page.page.click(".tiles .tile >> nth=1")
    page.settle()
    assert page.ask("() => [viewNow().id, mapNow().kind, mapNow().layer]") == ["matrix", "cross", 2]
    page.press("p")
    assert page.ask("() => document.querySelectorAll('#tray li').length") == 1
    page.press("]")
    page.page.click("#tray button:has-text('compare')")
    page.settle()
    assert page.ask("() => viewNow().id") == "compare"
    page.page.click("#tray button[aria-label='Take it out']")
    page.settle()
    assert page.ask("() => document.querySelectorAll('#tray li').length") == 0
    assert page.fine()


def test_who_looks_at_this_token(translation, page):
    page.open(translation, "view=text")
    page.page.click(".block:nth-of-type(2) .word:has-text('Fenster')")
    page.settle()
    assert page.state("col") == 1
    assert "attention to “Fenster”" in page.page.inner_text("#leaf")
    shaded = page.ask("() => document.querySelectorAll('.block:first-of-type .word[style]').length")
    assert shaded == 6
    assert page.fine()


def test_lines_take_several_heads(translation, page):
    page.open(translation, "view=lines")
    assert page.ask("() => headsOn()") == [0, 1, 2, 3]
    page.page.click("#heads button:has-text('2')")
    page.settle()
    assert page.ask("() => headsOn()") == [1]
    page.page.click("#heads button:has-text('4')", modifiers=["Shift"])
    page.settle()
    assert page.ask("() => headsOn()") == [1, 3]
    assert "on=1.3" in page.page.url
    assert page.fine()


def test_copied_commands_and_python_say_the_same(translation, page):
    page.open(translation, "run=1&at=1&head=2")
    page.tool("copy-command")
    copied = "() => document.documentElement.dataset.copied"
    page.page.wait_for_timeout(100)
    assert page.ask(copied) == (
        "regard look de-en-small 'Das Fenster wird geschlossen.' --layer 2 --head 3 --hypothesis 2"
    )
    page.tool("copy-python")
    page.page.wait_for_timeout(100)
    assert page.ask(copied) == (
        'regard.tasks.generation.look.look(regard.load("de-en-small"), '
        '"Das Fenster wird geschlossen.", hypothesis=2).picture(2, 3, kind="cross")'
    )
    page.tool("copy-link")
    page.page.wait_for_timeout(100)
    assert page.ask(copied).endswith("translation.html#run=1&at=1&head=2")


def test_a_table_for_screen_readers(translation, page):
    page.open(translation, "head=0")
    page.press("t")
    cells = page.ask("() => document.querySelectorAll('#whole td').length")
    assert cells == 6 * 6 + 1  # the words, and the empty corner
    assert page.ask("() => document.querySelectorAll('#whole th[scope=row]').length") == 6
    for query in (
        "#stage[aria-label]",
        "#views[role=tablist]",
        "#row[aria-live]",
        "#said[role=status]",
    ):
        assert page.ask(f"() => !!document.querySelector('{query}')")
    nameless = """() => [...document.querySelectorAll('button, select, input')].filter(
        (n) => !n.textContent.trim() && !n.ariaLabel && !n.labels?.length).length"""
    assert page.ask(nameless) == 0
    assert page.fine()


def test_it_says_what_is_shown_and_that_it_is_no_explanation(tmp_path, translation, page):
    page.open(translation)
    assert "not yet why" in page.page.inner_text("#what")
    norms = regard.view(np.eye(3), what="norms")
    page.open(norms.page(tmp_path / "n.html"))
    assert "not what mattered" in page.page.inner_text("#what")
    few = regard.view(views.soft(2, 5, 40), kind="cross")
    page.open(few.page(tmp_path / "k.html", top_k=3), "head=1&row=2")
    assert "the largest 3 of each row" in page.page.inner_text("#what")
    assert re.search(r"kept: \d+(\.\d)? % of this row", page.page.inner_text("#row"))


def test_right_to_left_runs_from_the_right(tmp_path, page):
    rtl = regard.view(views.soft(8, 6), rows=views.CHINESE, columns=views.ARABIC, kind="cross")
    page.open(rtl.page(tmp_path / "a.html"), "row=0&col=0")
    assert page.ask("async () => (await picture(0, 0)).cols.rtl") is True
    page.press("ArrowLeft")  # the next word
    assert page.state("col") == 1
    page.open(tmp_path / "a.html", "view=text")
    assert page.ask("() => document.querySelectorAll('.words[dir=rtl]').length") == 1
    assert page.fine()


def test_long_texts_scroll_and_keep_their_labels(tmp_path, page):
    long = regard.view(views.soft(1, 900, 900), rows=[f"word{i}" for i in range(900)], kind="self")
    page.open(long.page(tmp_path / "a.html"))
    page.press("+", "+", "+", "+", "+", "+", "+", "+", "+", "+", "+", "+")
    page.ask("() => { document.querySelector('#stage').scrollTo(3000, 3000) }")
    page.page.wait_for_timeout(200)
    assert page.ask("() => viewNow().o.x") > 1000
    assert page.ink() > 4
    page.press("ArrowDown")
    assert page.ask("() => document.querySelector('#stage').scrollTop") == 0  # row 0 is shown
    assert page.fine()


def test_print_and_png(translation, page):
    page.open(translation)
    page.page.emulate_media(media="print")
    assert not page.page.is_visible("#share")
    page.page.emulate_media(media="screen")
    with page.page.expect_download() as download:
        page.tool("save-png")
    assert download.value.suggested_filename == "a translation.png"
    assert page.fine()


SAVED = {
    "matrix": "<text", "lines": "<path", "curves": "<path", "text": "<foreignObject",
    "compare": "<img", "heads": "<img",
}  # fmt: skip


def test_views_are_saved_as_drawings(translation, page, tmp_path):
    from xml.etree import ElementTree

    from PIL import Image

    page.open(translation)
    for name, tag in SAVED.items():
        page.go(f"view={name}&row=1")
        for ending in ("svg", "png"):
            with page.page.expect_download() as download:
                page.tool(f"save-{ending}")
            download.value.save_as(tmp_path / f"{name}.{ending}")
        drawn = (tmp_path / f"{name}.svg").read_text()
        ElementTree.fromstring(drawn)
        assert tag in drawn, name
        for word in ("window", "Fenster") if name != "heads" else ():
            assert word in drawn or name == "compare"
        colours = Image.open(tmp_path / f"{name}.png").convert("RGB").getcolors(1 << 24)
        assert len(colours) > 8, name
        page.settle()
        assert page.fine()


def test_printing_draws_lines_and_words(translation, page):
    page.open(translation, "view=lines")
    page.ask("() => { globalThis.print = () => { globalThis.printed = document.body.innerHTML; } }")
    page.tool("print")
    for _ in range(100):
        if page.ask("() => !!globalThis.printed"):
            break
        page.page.wait_for_timeout(50)
    assert re.search(r"<svg.*<text[^>]*>window</text>", page.ask("() => printed"), re.S)
    page.settle()
    assert page.ink() > 4  # and back
    assert page.fine()


def test_a_damaged_page_says_so(tmp_path, page):
    text = views.translation().page(tmp_path / "a.html").read_text()
    start = text.index('id="seen"') + 500
    (tmp_path / "b.html").write_text(text[:start] + "AAAA" + text[start + 4 :])
    page.open(tmp_path / "b.html")
    assert "could not be drawn" in page.page.inner_text("#leaf")


def test_another_file_can_be_dropped_on_it(tmp_path, translation, page):
    other = regard.view(np.eye(3), title="another").save(tmp_path / "o.seen")
    page.open(translation)
    page.ask(
        f"""async () => {{ const bytes = Uint8Array.from({list(other.read_bytes())});
        const files = new DataTransfer();
        files.items.add(new globalThis.File([bytes], 'o.seen'));
        dispatchEvent(new DragEvent('drop', {{ dataTransfer: files, cancelable: true }})); }}"""
    )
    page.page.wait_for_timeout(200)
    assert page.page.inner_text("#title") == "another"


def test_in_a_notebook_it_is_a_frame(tmp_path, page):
    frame = views.translation()._repr_html_()
    (tmp_path / "book.html").write_text(f"<!DOCTYPE html><html data-drawn='1'>{frame}")
    page.open(tmp_path / "book.html")
    inside = page.page.frames[1]
    inside.wait_for_selector("html[data-drawn]", timeout=60_000)
    assert inside.inner_text("#title") == "a translation"
    inside.click("#views button:has-text('Lines')")
    assert page.fine()


def test_a_command_says_what_was_asked_for_and_nothing_else(tmp_path, page):
    """An output that is the model's own is no --target; kinds of several words are quoted."""
    view = regard.view(views.soft(2, 3, 3), rows=["a", "b", "c"], kind="self of b")
    copied = "() => document.documentElement.dataset.copied"
    for target, more in (("", ""), ("A B", " --target 'A B'")):
        run = replace(
            view.runs[0], folder="roles", input="a b c", output="O O O", score=-1.0, target=target
        )
        own = viewer.read(replace(view, runs=[run]).save(tmp_path / "own.seen"))
        assert own.runs[0].target == target
        assert ("forced output" in title_of(own, run, MapPanel("matrix", map=0))) == bool(target)
        page.open(own.page(tmp_path / "own.html"))
        page.tool("copy-command")
        page.page.wait_for_timeout(100)
        said = f"regard look roles 'a b c' --kind 'self of b' --layer 1 --head mean{more}"
        assert page.ask(copied) == said
        page.tool("copy-python")
        page.page.wait_for_timeout(100)
        assert page.ask(copied).startswith("regard.tasks.loaded_model.view_of(regard.load(")


def test_chinese_is_told_as_chinese_and_stands_upright(tmp_path, page):
    columns = ["我们", "公园看书", "GNU"]
    view = regard.view(np.eye(3), rows=["we", "see", "GNU"], columns=columns)
    assert whole(view).count(b' lang="zh"') == 6
    plain = regard.view(np.eye(3), rows=["we", "see", "GNU"], columns=["wir", "sehen", "GNU"])
    assert whole(plain).count(b" lang=") == 1  # of the page itself
    view.page(tmp_path / "x.html")
    page.open(tmp_path / "x.html")
    drawn = page.ask("""async () => {
        const seen = [], real = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
          const { b, e, f } = this.getTransform();
          seen.push([text, b === 0, e, f]); return real.call(this, text, ...at);
        };
        await viewNow().draw();
        CanvasRenderingContext2D.prototype.fillText = real;
        return seen;
    }""")
    across = {text: (x, y) for text, straight, x, y in drawn if straight}
    places = [[across[letter] for letter in word] for word in columns[:2]]
    for letters in places:  # of one word below each other, in its order, at its column
        assert len({x for x, _ in letters}) == 1
        assert [y for _, y in letters] == sorted(y for _, y in letters)
    assert places[0][0][0] < places[1][0][0]
    assert ("GNU", False) in [(text, straight) for text, straight, *_ in drawn]
