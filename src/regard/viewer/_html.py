"""One HTML file with everything in it: style, script and the `.seen` file as text (base64)."""

import base64
import html
import json
from functools import cache
from importlib.resources import files
from typing import Any

from regard.viewer._seen import dump
from regard.viewer._view import WHATS, View

__all__ = ["SCRIPTS", "page", "script", "style"]

SCRIPTS = (
    "read.js", "state.js", "draw.js", "matrix.js", "lines.js", "heads.js", "text.js",
    "compare.js", "tasks.js", "main.js",
)  # fmt: skip
"""In the order they are put together."""


@cache
def script() -> str:
    """The whole script: the files one after another, without indentation and lines of comment."""
    lines = (line.strip() for name in SCRIPTS for line in _file(name).splitlines())
    return "\n".join(['"use strict";', *(x for x in lines if x and not x.startswith("//"))])


@cache
def style() -> str:
    """The style sheet."""
    return _file("page.css")


def page(view: View, **options: Any) -> bytes:
    """The page's bytes; options are those of `View.save`."""
    data = base64.b64encode(dump(view, **options))
    told = json.dumps(WHATS, ensure_ascii=True)
    before, after = _file("page.html").split("@DATA@")
    for name, text in (
        ("@TITLE@", html.escape(view.title)), ("@STYLE@", style()), ("@WHATS@", told),
    ):  # fmt: skip
        before = before.replace(name, text)
    return before.encode() + data + after.replace("@SCRIPT@", script()).encode()


def _file(name: str) -> str:
    return (files("regard.viewer") / "page" / name).read_text(encoding="utf-8")
