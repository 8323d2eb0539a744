"""Pages opened in a headless Chromium without a network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

VIEWPORT = {"width": 1200, "height": 800}


class Page:
    """One opened page: what it asked the network for and what went wrong are kept."""

    def __init__(self, context: Any) -> None:
        self.asked: list[str] = []
        self.wrong: list[str] = []
        context.route(lambda url: not url.startswith(("file:", "about:")), self._refuse)
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on(
            "console",
            lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else None,
        )

    def _refuse(self, route: Any) -> None:
        if not route.request.url.startswith(("data:", "blob:")):
            self.asked.append(route.request.url)
        route.abort()

    def open(self, path: Path, fragment: str = "") -> "Page":
        self.page.goto("about:blank")  # else another fragment alone would not load it again
        self.page.goto(f"{path.as_uri()}#{fragment}")
        self.page.wait_for_selector("html[data-drawn],html[data-failed]", timeout=60_000)
        self.page.wait_for_timeout(50)
        return self

    def ask(self, code: str, given: Any = None) -> Any:
        return self.page.evaluate(code, given)

    def go(self, fragment: str) -> None:
        """Changes the address of an open page, as a link does: cheaper than opening it again."""
        self.ask(
            """async (fragment) => {
            const gone = new Promise((done) => addEventListener("hashchange", done, {once: true}));
            location.hash = fragment; await gone; await refresh(true); }""",
            fragment,
        )

    def state(self, name: str) -> Any:
        return self.ask(f"() => state.{name}")

    def settle(self) -> None:
        """Until what was asked for is drawn."""
        self.ask("() => refresh(true)")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def tool(self, name: str) -> None:
        """Opens the menu of tools and presses one."""
        self.page.click("#tools")
        self.page.click(f"#{name}")

    def ink(self) -> int:
        """How many different colours the canvas has: a blank one has 1."""
        return self.ask(
            """() => { const c = document.querySelector('#canvas');
            const copy = new OffscreenCanvas(c.width, c.height).getContext('2d');
            copy.drawImage(c, 0, 0);
            const d = new Uint32Array(copy.getImageData(0, 0, c.width, c.height).data.buffer);
            return new Set(d).size; }"""
        )

    def fine(self) -> bool:
        """Nothing failed, nothing was asked of a network."""
        failed = self.ask("() => document.documentElement.dataset.failed ?? null")
        assert (failed, self.wrong, self.asked) == (None, [], [])
        return True


@pytest.fixture(scope="session")
def tab(chromium: Any) -> Iterator[Page]:
    """The tab of all tests: a new one starts a process, five times the time of opening a page."""
    context = chromium.new_context(offline=True, viewport=VIEWPORT)
    yield Page(context)
    context.close()


@pytest.fixture
def page(tab: Page) -> Page:
    """The tab as a new one: pages keep nothing in the browser."""
    tab.asked.clear()
    tab.wrong.clear()
    tab.page.goto("about:blank")
    tab.page.set_viewport_size(VIEWPORT)
    tab.page.emulate_media(media="null", color_scheme="light")
    tab.page.mouse.move(0, 0)
    return tab
