"""One HTML file with everything in it: style, script and the `.seen` file as text (base64)."""

import base64
import html
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from regard.viewer.head_measures import MEASURES
from regard.viewer.labels import language, with_visible_labels
from regard.viewer.page.headline import headline_html, plain_title
from regard.viewer.page.panels import on_stage, panels_html
from regard.viewer.page.scripts import SOUND, STEPS, script
from regard.viewer.seen_file.file import dump
from regard.views import WHATS, View

__all__ = ["page", "style"]

PRECISION = 25
"""Steps of each row's largest that pages keep of large heads: 12 × 12 heads of 512 × 512 weights of
a trained model take at most 7 MB so."""

KEYS = {
    "← ↑ ↓ →": "move the chosen row and column",
    "[ ]": "the head before, after",
    "{ }": "the attention before, after",
    "m": "mean of all heads",
    "1 … 9": "the n-th view",
    "h": "the next hypothesis or run",
    "w": "words or pieces",
    "v": "numbers in cells",
    "p": "keep this head in the tray",
    "+ −": "larger, smaller",
    "0": "as large as fits",
    "t": "a table of all numbers",
    "d": "light or dark",
    "Esc": "close what is open, else select nothing",
    "?": "these keys",
}


@cache
def style() -> str:
    """The style sheet, without blanks that mean nothing."""
    return re.sub(r"\s*([{};,>])\s*|(?<=:)\s+|\s*\n\s*", r"\1", _file("page.css"))


def page(
    view: View, *, live: bool = False, state: Mapping[str, Any] | None = None, **options: Any
) -> bytes:
    """The page's bytes.

    Args:
        live: it may ask the address it came from for exact tiles; else it may ask nothing.
        state: what it opens with; see `viewer.page.opening`.
        options: those of `DrawableView.save`.
    """
    view = with_visible_labels(view)
    if not view.maps:
        return _plain(view)
    view = replace(view, runs=[run for run in view.runs if run.maps])  # others have no picture
    data = base64.b64encode(dump(view, **({"precision": PRECISION} | options)))
    texts = {"WHATS": WHATS, "MEASURES": MEASURES, "KEYS": KEYS, "LIVE": live, "OPEN": state or {}}
    before, after = _file("page.html").split("@DATA@")
    sound = any(axis.kind == "audio" for axis in view.axes)
    if sound:
        before = before.replace("img-src data: blob:", "img-src data: blob:; media-src blob:")
    if live:
        before = before.replace("default-src 'none';", "default-src 'none'; connect-src 'self';")
    for name, text in (
        ("@STYLE@", style()),
        ("@TEXTS@", json.dumps(texts)),
        ("@TITLE@", html.escape(plain_title(view.title))),
        ("@LANG@", _lang(view)),
        ("@HEADLINES@", headline_html(view.runs)),
        ("@PANELS@", panels_html(view.runs)),
    ):
        before = before.replace(name, text)
    more = [SOUND] if sound else []
    more += [STEPS] if any(run.step is not None for run in view.runs) else []
    return before.encode() + data + after.replace("@SCRIPT@", script(*more)).encode()


def _plain(view: View) -> bytes:
    """A page of a view that has bars, tables and trees alone: nothing in it is to be drawn."""
    heads = (headline_html([run], answers=not on_stage(run)) for run in view.runs)
    blocks = "".join(
        f"<div{_lang(view)}>{head}{panels_html([run])}</div>"
        for head, run in zip(heads, view.runs, strict=True)
    )
    head, _ = _file("page.html").split("<body>")
    for name, text in (("@STYLE@", style()), ("@TITLE@", html.escape(plain_title(view.title)))):
        head = head.replace(name, text)
    title = html.escape(plain_title(view.title))
    body = f'<body class="plain"><aside><h1>{title}</h1>{blocks}</aside></body>'
    return f"{head}{body}</html>\n".encode()


def _lang(view: View) -> str:
    """The attribute of what holds texts, where their script tells the language."""
    texts = [text for run in view.runs for text in (run.input, run.output)]
    found = language(*texts)
    return f' lang="{found}"' if found else ""


def _file(name: str) -> str:
    return (files("regard.viewer") / "page" / name).read_text(encoding="utf-8")
