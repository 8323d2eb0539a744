"""The playground: the page at `/`, one file that asks nobody but this server.

Its script and its style are allowed by their hashes alone. The viewer's pages, whose scripts are
inside them, are shown in a frame of another origin (`FRAME`), which may ask nobody.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["SCRIPTS", "frame", "frame_headers", "headers", "page"]

SCRIPTS = ("base.js", "ask.js", "talk.js", "answer.js", "words.js", "main.js")
"""In the order they are put together."""

COMMON = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page(models: Sequence[Mapping[str, Any]] | None) -> str:
    """The page.

    Args:
        models: as `/models` gives them; None: only who has a key may know, and the page asks.
    """
    before, after = _file("page.html").split("@MODELS@")
    known = json.dumps(models, ensure_ascii=False).replace("<", "\\u003c")
    return before.replace("@STYLE@", _style()) + known + after.replace("@SCRIPT@", _script())


def headers() -> dict[str, str]:
    """Those of the page: what it may load and ask."""
    policy = (
        f"default-src 'none'; script-src {_hash(_script())}; style-src {_hash(_style())}; "
        "connect-src 'self'; img-src blob: data:; media-src blob:; frame-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {**COMMON, "Content-Security-Policy": policy}


def frame() -> str:
    """An empty page that becomes the one which the page around it sends."""
    return _file("frame.html")


def frame_headers() -> dict[str, str]:
    """Those of the frame: scripts inside it, no network, an origin of its own."""
    policy = (
        "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    )
    return {**COMMON, "Content-Security-Policy": policy}


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _script() -> str:
    return "\n".join(map(_file, SCRIPTS))


@cache
def _style() -> str:
    return _file("page.css")


@cache
def _file(name: str) -> str:
    return (files("regard.serve") / "page" / name).read_text(encoding="utf-8")
