"""Thousands of tokens: the overview that is kept, and exact tiles from an address."""

import urllib.error
import urllib.request

import numpy as np
import pytest
import torch

import regard
from regard.attention import Causal, attend
from regard.errors import RequestError
from regard.viewer import overview
from regard.viewer.overview import pooled
from regard.viewer.page.html import page as whole
from regard.viewer.page.live import tile
from regard.viewer.seen_file.file import dump, parse


def long(n, heads=2):
    """A view of queries and keys, and the weights by themselves."""
    draw = torch.Generator().manual_seed(n)
    key = torch.randn(1, heads, n, 16, generator=draw)
    query = 2 * key.roll(1, 2) + 0.3 * torch.randn(1, heads, n, 16, generator=draw)
    with regard.watch(tiles=True) as seen:
        attend(query, key, key, mask=Causal(), name="long")
    seen.label(rows=[f"w{i}" for i in range(n)])
    scores = (query[0].double() @ key[0].double().mT) / 4
    scores[:, torch.ones(n, n, dtype=torch.bool).triu(1)] = -torch.inf
    return seen.view(title="long"), scores.softmax(-1).numpy()


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(overview, "HEAD", 1 << 14)
    monkeypatch.setattr(overview, "CELLS", 64)


def slow_pool(weights, f):
    rows, columns = weights.shape
    return np.array(
        [[weights[r : r + f, c : c + f].max() for c in range(0, columns, f)]
         for r in range(0, rows, f)]
    )  # fmt: skip


def test_pooling_is_the_largest_of_each_cell():
    weights = np.random.default_rng(0).random((3, 37, 50)).astype(np.float32)
    for f in (1, 4, 16, 64):
        for head, made in zip(weights, pooled(weights, f), strict=True):
            assert (made == slow_pool(head, f)).all()
    assert (pooled(pooled(weights, 4), 4) == pooled(weights, 16)).all()  # levels of a pyramid


def test_an_overview_is_kept_and_read_back(small_limits):
    view, expected = long(203)
    back = parse(dump(view)).maps[0]
    assert (back.shape, back.pool, back.cells) == ((2, 203, 203), (4, 4), (51, 51))
    for head in range(2):
        cells = slow_pool(expected[head], 4)
        bound = cells.max(1, keepdims=True) / 100 * 1.02
        assert (abs(back.load(head) - cells) <= bound).all()
    with pytest.raises(RequestError, match="only an overview"):
        back.part(0, slice(0, 3), slice(0, 3))
    exact = parse(dump(view, code="u8")).maps[0]  # whoever says how gets all
    assert (exact.pool, exact.weights.shape) == ((1, 1), (2, 203, 203))
    again = parse(dump(parse(dump(view))))
    assert again.maps[0].pool == (4, 4)


def test_what_heads_do_is_measured_on_all_weights(small_limits):
    from regard.viewer.head_measures import measures

    view, expected = long(203)
    _, found = overview.overview(view, view.maps[0])
    direct = measures([(0, expected.astype(np.float32))], (203, 203), [], [], True)
    assert found.keys() == direct.keys()
    for name, values in found.items():
        assert values == pytest.approx(direct[name], abs=2e-3), name
    assert min(found["previous"]) > 0.5


def test_tiles_are_exact():
    view, expected = long(203)
    for f, h, w, r, c in ((1, 20, 30, 100, 90), (2, 16, 16, 190, 0), (4, 60, 60, 0, 0)):
        asked = {"m": 0, "r": r, "c": c, "h": h, "w": w, "f": f}
        part = expected[1, r : r + h * f, c : c + w * f]
        np.testing.assert_allclose(tile(view, asked, 1), slow_pool(part, f), atol=1e-6)
    mean = tile(view, {"m": 0, "r": 7, "c": 0, "h": 1, "w": 203, "f": 1}, None)
    np.testing.assert_allclose(mean[0], expected.mean(0)[7], atol=1e-6)


@pytest.mark.parametrize(
    "lie", [{"m": 9}, {"r": -1}, {"r": 203}, {"c": 500}, {"f": 0}, {"h": 0}, {"h": 999, "w": 999}]
)
def test_tiles_that_are_not_there(lie):
    view, _ = long(203)
    with pytest.raises(RequestError):
        tile(view, {"m": 0, "r": 0, "c": 0, "h": 2, "w": 2, "f": 1} | lie, 0)


def test_only_who_knows_the_address_is_answered(small_limits):
    view, _ = long(203)

    def code(url, host=None):
        request = urllib.request.Request(url, headers={"Host": host} if host else {})
        try:
            return urllib.request.urlopen(request, timeout=10).status
        except urllib.error.HTTPError as error:
            return error.code

    with view.serve() as live:
        good = f"{live.address}tile?m=0&head=0&r=0&c=0&h=4&w=4&f=1"
        assert code(live.address) == code(good) == 200
        assert code(good.replace("f=1", "f=x")) == code(good.replace("m=0&", "")) == 400
        port = live.address.split(":")[2].split("/")[0]
        assert code(f"http://127.0.0.1:{port}/") == 404
        assert code(good, host=f"evil.example:{port}") == 404
        with pytest.raises(RequestError, match=f"port {port}"):
            view.serve(int(port))
    assert b"connect-src" not in whole(view)


@pytest.mark.slow
def test_exact_tiles_in_the_page(small_limits, chromium):
    view, expected = long(203)
    context = chromium.new_context(viewport={"width": 1000, "height": 700})
    tab, wrong = context.new_page(), []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    with view.serve() as live:
        tab.goto(f"{live.address}#head=1&zoom=12")
        tab.wait_for_selector("html[data-drawn]")
        shown = "() => [...file.cache.keys()].filter((k) => k.startsWith('T0.1.1.'))"
        there = f"() => ({shown})().length > 0 && !!file.cache.get(({shown})()[0]).now"
        for _ in range(200):  # wait_for_function asks by eval, which the page forbids
            if tab.evaluate(there):
                break
            tab.wait_for_timeout(50)
        tab.wait_for_timeout(100)
        tab.mouse.click(400, 400)
        tab.wait_for_selector("#row caption:has-text('exactly')")
        row, column = map(int, tab.evaluate("() => state.place").split("."))
        said = tab.inner_text("#tip")
        assert said.startswith(f"w{row} ({row}) → w{column} ({column})")
        first = tab.inner_text("#row table:last-of-type tr:first-of-type th")
        assert first == f"w{expected[1, row].argmax()} ({expected[1, row].argmax()})"
        assert "the largest weight of 4 × 4" in tab.inner_text("#what")
        assert (wrong, tab.evaluate("() => document.documentElement.dataset.failed")) == ([], None)
    context.close()


def test_an_overview_opens_as_a_file(small_limits, chromium, tmp_path):
    view, _ = long(203)
    context = chromium.new_context(offline=True)
    tab, wrong = context.new_page(), []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    for name in ("matrix", "lines", "heads", "curves", "compare"):
        tab.goto("about:blank")
        tab.goto(f"{view.page(tmp_path / 'a.html').as_uri()}#view={name}&row=3")
        tab.wait_for_selector("html[data-drawn]")
        assert tab.evaluate("() => viewNow().id") == name
        assert tab.evaluate("() => document.documentElement.dataset.failed ?? ''") == ""
    assert not wrong
    context.close()


def test_dense_weights_too_large_for_a_page_are_pooled(small_limits):
    weights = np.random.default_rng(0).random((1, 200, 100)).astype(np.float32)
    back = parse(dump(regard.view(weights))).maps[0]
    assert (back.shape, back.cells) == ((1, 200, 100), (50, 25))
    with pytest.raises(RequestError, match="overview of sizes"):
        dump(regard.view(weights - 0.5))
