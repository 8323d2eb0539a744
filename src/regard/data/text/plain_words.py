"""The words of plain texts as kind "wordpunct" cuts them, and their places."""

from collections.abc import Iterable
from functools import cache

from regard.data.text.tokenizer import Tokenizer

__all__ = ["plain_words", "word_places"]


def plain_words(texts: Iterable[str]) -> list[list[str]]:
    """The words of texts in small letters, punctuation apart, as kind "wordpunct" cuts them."""
    plain = _plain()
    return [plain.words_of(text) for text in texts]


def word_places(text: str) -> list[tuple[int, int]]:
    """Where the words of a text stand that kind "wordpunct" cuts: start and end in characters.

    Example:
        >>> word_places("It's 5 mg.")
        [(0, 2), (2, 4), (5, 6), (7, 9), (9, 10)]
    """
    return list(_plain().encode(text).offsets)


@cache
def _plain() -> "Tokenizer":
    return Tokenizer.train([], "wordpunct", lowercase=True)
