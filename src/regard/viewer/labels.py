"""Texts that every surface can draw: what has no glyph, or may not stand in a file, gets a sign.

A zero-width space that a model reads as a token is drawn as `<U+200B>`, a blank alone as `␣`. So
labels are told apart, no character moves a terminal's cursor, and SVG and PDF stay valid.
"""

import unicodedata
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import regex

from regard.views import Axis, Map, Panel, Run, View
from regard.views.panel import LabeledSpan, TreeNode

__all__ = ["language", "upright", "visible", "with_visible_labels"]

BLANK = "␣"
_LINES = "\n\t"
"""Of texts of several lines: they are not labels."""
_JOINING = frozenset("\u200c\u200d")
"""They change how their neighbors look: kept beside letters."""
_NOTHING = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks without ink."""
_TAGS = range(0xE0020, 0xE0080)
_SELECTORS = (range(0xFE00, 0xFE10), range(0x180B, 0x1810), range(0xE0100, 0xE01F0))

One = TypeVar("One")


def visible(text: str, keep: str = "") -> str:
    r"""The text with a sign for each character that cannot be seen or written.

    Args:
        keep: characters that stay as they are.

    Example:
        >>> visible("a\u200bb"), visible("\x1b[2J"), visible(" ")
        ('a<U+200B>b', '<U+001B>[2J', '␣')
    """
    if not text or (text.isascii() and text.isprintable() and not text.isspace()):
        return text
    bare = all(_without_ink(c) for c in text)
    if bare and not set(text) - {" "}:
        return BLANK * len(text)
    made = "".join(c if c in keep or _stays(c, bare) else f"<U+{ord(c):04X}>" for c in text)
    return text if made == text else made  # the same object, so that views are copied where needed


def _without_ink(c: str) -> bool:
    category = unicodedata.category(c)
    return category in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp") or c in _NOTHING or _selects(c)


def _selects(c: str) -> bool:
    return any(ord(c) in some for some in _SELECTORS)


def _stays(c: str, bare: bool) -> bool:
    """Whether a character is drawn as it is; `bare`: no other one of the text has ink."""
    if bare:
        return False
    category = unicodedata.category(c)
    if category == "Cf":
        return c in _JOINING or ord(c) in _TAGS
    return category not in ("Cc", "Cs", "Zl", "Zp") and ord(c) & 0xFFFE != 0xFFFE


def with_visible_labels(one: One) -> One:
    """A view, run or panel whose texts can be drawn; the same object where all can be already."""
    return _seen(one)  # type: ignore[no-any-return]


_OTHERS = {
    Run: ("result", "maps", "folder"),
    Map: ("load", "tile", "extra", "links"),
    Axis: ("image", "audio", "groups", "edges", "sections", "special"),
}
"""Fields without texts to draw."""


def _seen(value: Any, keep: str = "") -> Any:
    if isinstance(value, str):
        return visible(value, keep)
    if isinstance(value, list | tuple):
        made = [_seen(item, keep) for item in value]
        same = all(a is b for a, b in zip(made, value, strict=True))
        return value if same else type(value)(made)
    if isinstance(value, View | Axis | Map | Run | Panel | TreeNode | LabeledSpan):
        assert is_dataclass(value)
        lines = _LINES if isinstance(value, Run | Panel | View) else ""
        skipped = next((names for kind, names in _OTHERS.items() if isinstance(value, kind)), ())
        changed: dict[str, Any] = {}
        for own in fields(value):
            if own.name in skipped:
                continue
            old = getattr(value, own.name)
            named = own.name in ("labels", "words", "cells", "columns")
            new = _seen(old, "" if named else lines)
            if new is not old:
                changed[own.name] = new
        return replace(value, **changed) if changed else value
    return value


_UPRIGHT = regex.compile(
    r"(?:[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f]"
    r"\p{M}*)+"
)


def upright(label: str) -> str | None:
    r"""Letters that are read from top to bottom, one in a line; None for other labels.

    Chinese, Japanese and Korean letters stand upright where words of other scripts are turned.

    Example:
        >>> upright("公园"), upright("park")
        ('公\n园', None)
    """
    if _UPRIGHT.fullmatch(label) is None:
        return None
    return "\n".join(regex.findall(r"\X", label))


_LANGUAGES = (
    ("ja", regex.compile(r"[\p{Hiragana}\p{Katakana}]")),
    ("ko", regex.compile(r"\p{Hangul}")),
    ("zh", regex.compile(r"\p{Han}")),
    ("th", regex.compile(r"\p{Thai}")),
    ("lo", regex.compile(r"\p{Lao}")),
    ("my", regex.compile(r"\p{Myanmar}")),
    ("km", regex.compile(r"\p{Khmer}")),
)


def language(*texts: str) -> str:
    """The `lang` of texts whose script tells it, or "": browsers choose a font's letters by it.

    Example:
        >>> language("我爱你"), language("私は水を飲む", "water"), language("Wasser")
        ('zh', 'ja', '')
    """
    whole = " ".join(texts)
    return next((name for name, script in _LANGUAGES if script.search(whole)), "")
