"""The sentences of a text."""

from collections.abc import Callable, Mapping

from regard.data.text.words import sentences

__all__ = ["SPLITTERS", "sentences_of"]


def _lines(text: str) -> list[str]:
    return text.splitlines()


def _marks(text: str) -> list[str]:
    return [one for line in text.splitlines() for one in sentences(line)]


SPLITTERS: Mapping[str, Callable[[str], list[str]]] = {"lines": _lines, "punctuation": _marks}
"""How a text is cut into sentences: at line breaks; or there and behind marks that end one."""


def sentences_of(text: str, how: str) -> list[str]:
    """The sentences of a text that are not empty, in order.

    Example:
        >>> sentences_of("Good film. Is it? Yes!", "punctuation")
        ['Good film.', 'Is it?', 'Yes!']
    """
    return [own for one in SPLITTERS[how](text) if (own := one.strip())]
