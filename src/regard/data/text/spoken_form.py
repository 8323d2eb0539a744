"""Texts as they are spoken, and as captions are compared: words without case and punctuation."""

import re

__all__ = ["spoken"]

_PUNCTUATION = re.compile(r"[^\w'\s]|_")


def spoken(text: str) -> str:
    """A text in small letters without punctuation, a blank between words.

    Example:
        >>> spoken("Don't  stop -- here.")
        "don't stop here"
    """
    return " ".join(_PUNCTUATION.sub(" ", text.lower()).split())
