r"""What a word, a letter and the end of a sentence are, in every script.

A letter has its marks (vowel signs, points, accents) and the joiners behind it; an apostrophe of
any kind between two letters is a part of the word. `\w` of `re` has neither: it takes the vowel
signs of Hindi and Thai for punctuation.

Source: Unicode Standard Annex 29, "Unicode text segmentation", sections 4 and 5.
"""

import regex

from regard.data.text.normal_form import composed

__all__ = [
    "INNER",
    "LETTER",
    "is_mark",
    "is_word_character",
    "sentences",
    "spoken",
    "unicode_words",
]

APOSTROPHES = "'\u2018\u2019\uff07"
"""Written as one for another: straight, typographic (either side), full width."""

# A letter or digit with its marks; a zero-width joiner counts where something follows it.
LETTER = r"[\p{L}\p{N}](?:\p{M}|[\u200c\u200d](?=[\p{L}\p{M}]))*"
# Inside a word also: Armenian apostrophe, geresh and gershayim, Catalan's middle dot.
INNER = rf"[{APOSTROPHES}\u055a\u05f3\u05f4\u00b7]"

# Scripts without blanks: a letter with its marks is a word. So is an emoji.
_ALONE = (
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f\u3040-\u30ff"
    r"\p{Han}\U0001f000-\U0001faff]"
)
_ROUGE = regex.compile(rf"(?V1)[{_ALONE}--[\p{{M}}\p{{P}}]]\p{{M}}*|(?:(?!{_ALONE}){LETTER})+")

_BETWEEN = rf"(?<=[\p{{L}}\p{{N}}\p{{M}}]){INNER}(?=[\p{{L}}\p{{N}}])"
_SPOKEN = regex.compile(rf"{_BETWEEN}|'|{LETTER}|(?P<other>\S)")
_MARK = regex.compile(r"[^\p{L}\p{N}\s]*")

# Behind ".", "!" and "?" a blank has to follow, since "3.5" and "x.y" are no ends; behind the full
# stops of other scripts nothing has to.
_END = regex.compile(
    r"""(?V1)(?<=[.!?…])["'\p{Pe}\p{Pf}]*\s+"""
    r"""|(?<=[\p{Sentence_Terminal}--[.!?]])(?<!\p{Nd}\uff0e(?=\p{Nd}))"""
    r"""(?![\p{Sentence_Terminal}…])["'\p{Pe}\p{Pf}]*\s*"""
)


def spoken(text: str) -> str:
    """A text in small letters without punctuation, a blank between words.

    Example:
        >>> spoken("Don\u2019t  stop -- here.")
        "don't stop here"
    """
    small = composed(composed(text).lower())
    return " ".join(_SPOKEN.sub(_said, small).split())


def _said(found: "regex.Match[str]") -> str:
    if found["other"]:
        return " "
    return "'" if found[0] in APOSTROPHES else found[0]


def unicode_words(text: str) -> list[str]:
    """Words of letters and digits of any script, in small letters.

    Where a script has no blanks between words (Chinese, Japanese, Thai, Lao, Burmese, Khmer) each
    letter stands alone with its marks; so do emojis.

    Example:
        >>> unicode_words("GNU/Linux 3.11: 你好 🙂")
        ['gnu', 'linux', '3', '11', '你', '好', '🙂']
    """
    return [found for found in _ROUGE.findall(composed(text).lower()) if found]


def is_word_character(letter: str) -> bool:
    """Whether a character is a part of a word: a letter, a digit, or a mark of one."""
    return bool(_LETTERS.fullmatch(letter))


_LETTERS = regex.compile(r"[\p{L}\p{N}\p{M}\u200c\u200d]+")


def is_mark(text: str) -> bool:
    """Whether there is no letter and no digit in a text."""
    return _MARK.fullmatch(text) is not None


def sentences(line: str) -> list[str]:
    """The sentences of a line, blanks behind them included; the last is what has no end, or "".

    Example:
        >>> sentences("Good. 3.5 of 5! 好。很好。")
        ['Good. ', '3.5 of 5! ', '好。', '很好。', '']
    """
    found, start = [], 0
    for end in _END.finditer(line):
        found.append(line[start : end.end()])
        start = end.end()
    return [*found, line[start:]]
