"""The playground in a headless Chromium that reaches the server of a test and nothing else."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DONE = re.compile("^Done in")


class Playground:
    """One opened page: what it asked of other machines and what went wrong are kept."""

    def __init__(self, context: Any, address: str) -> None:
        self.address, self.context = address, context
        self.elsewhere: list[str] = []
        self.wrong: list[str] = []
        self.sent: list[str] = []
        context.route(lambda url: not url.startswith((address, "data:", "blob:")), self._refuse)
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda request: self.sent.append(request.url))

    def _refuse(self, route: Any) -> None:
        self.elsewhere.append(route.request.url)
        route.abort()

    def _note(self, message: Any) -> None:
        # A status of 4xx or 5xx is noted by the browser itself; tests of errors ask for it.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.wrong.append(message.text)

    def renew(self) -> "Playground":
        """As a new tab, whose start takes a process: pages keep nothing in the browser."""
        self.page.unroute_all()
        self.context.set_offline(False)
        self.page.goto("about:blank")
        self.page.mouse.move(0, 0)
        for told in (self.elsewhere, self.wrong, self.sent):
            told.clear()
        return self

    def open(self, model: str = "", fragment: str = "") -> "Playground":
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/#{fragment}" if fragment else self.address)
        self.find("html[data-ready]").wait_for()
        if model:
            self.page.select_option("#model", model)
        return self

    def find(self, selector: str) -> Any:
        return self.page.locator(selector)

    def text(self, selector: str) -> str:
        return str(self.find(selector).inner_text())

    def until(self, selector: str, text: Any) -> None:
        """Until something has a text."""
        self.find(selector).filter(has_text=text).wait_for(timeout=20_000)

    def write(self, *texts: str) -> None:
        for number, text in enumerate(texts):
            self.page.fill(f"#input{number}", text)

    def ask(self, *texts: str) -> str:
        """The answer to inputs, sent by the keyboard."""
        self.write(*texts)
        self.page.keyboard.press("Control+Enter")
        self.until("#status", DONE)
        return self.text("#output")

    def fine(self) -> bool:
        assert (self.wrong, self.elsewhere) == ([], [])
        return True


@contextmanager
def opened(chromium: Any, address: str, **more: Any) -> Iterator[Playground]:
    options = {"viewport": {"width": 1200, "height": 800}, "reduced_motion": "reduce", **more}
    context = chromium.new_context(**options)
    context.set_default_timeout(20_000)
    yield Playground(context, address)
    context.close()
