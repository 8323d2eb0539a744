"""Texts with the borders of words that blanks do not show, for the `tokenizers` library."""

from collections.abc import Iterable, Sequence
from itertools import chain, groupby, islice

from regard.data.text.segmenters import Segmenter, has_no_blanks, share_without_blanks, units
from regard.data.text.vocabulary_kinds import FIRST, SEAM, SEGMENTED
from regard.errors import RequestError

__all__ = ["Seams", "chosen_kind", "own_part", "seamed", "units_of_groups", "word_of_pieces"]

Places = Sequence[tuple[int, int]]

HALF = 0.5
_WITHOUT = ("bpe", "unigram", "characters")

LOOKED_AT = 20_000
"""Texts that a segmenter is chosen by."""


def own_part(
    kind: str, named: str | Segmenter | None, texts: Iterable[str]
) -> tuple[Segmenter | None, Iterable[str]]:
    """The segmenter of a kind of vocabulary, and the texts, which may be read only once.

    Raises:
        RequestError: a kind that has none, or what `Segmenter.of` refuses.
    """
    if named is None and kind != "segmented":
        return None, texts
    if kind not in SEGMENTED:
        raise RequestError(
            f"data.tokenizer.segmenter: expected with a kind among {', '.join(SEGMENTED)}, "
            f"got {kind!r}"
        )
    if isinstance(named, Segmenter):
        return named, texts
    rest = iter(texts)
    first = list(islice(rest, LOOKED_AT))
    return Segmenter.of(named or "auto", first), chain(first, rest)


def chosen_kind(usual: str, texts: Iterable[str]) -> str:
    """The kind that "auto" means: `usual`, or "segmented" in the place of words without blanks.

    Subwords and letters need no blanks. Texts have none where half of their letters are of scripts
    that are written without.

    Example:
        >>> chosen_kind("wordpunct", ["我爱你。"]), chosen_kind("bpe", ["我爱你。"])
        ('segmented', 'bpe')
    """
    if usual in _WITHOUT:
        return usual
    return "segmented" if share_without_blanks(islice(texts, LOOKED_AT)) >= HALF else usual


class Seams:
    """A text with marks at the borders of words.

    Args:
        text: with the marks.
        places: of the marks in the text without them, in order.
    """

    def __init__(self, text: str, places: Sequence[int] = ()) -> None:
        self.text, self.places = text, places

    def to_plain(self, spans: Places) -> Places:
        """Spans of `text` as spans of the text without the marks."""
        if not self.places:
            return spans
        marks = 0
        plain = [0] * (len(self.text) + 1)
        for at, letter in enumerate(self.text):
            plain[at] = at - marks
            marks += letter in _MARKS
        plain[-1] = len(self.text) - marks
        return [(plain[start], plain[end]) for start, end in spans]


_MARKS = frozenset((SEAM, FIRST))
_LOST = str.maketrans(dict.fromkeys(_MARKS, "\ufffd"))  # no characters: no text should have them


def seamed(text: str, segmenter: Segmenter) -> Seams:
    """A text with the borders of its words where no blank shows them; blanks stay.

    Example:
        >>> seamed("使用tar", Segmenter()).text.replace(SEAM, "|").replace(FIRST, "^")
        '^使|用|tar'
    """
    text = text.translate(_LOST)
    if not has_no_blanks(text):
        return Seams(text)
    parts: list[str] = []
    places: list[int] = []
    end = 0
    for start, stop in units(text, segmenter):
        blank = text[end:start]
        parts.append(blank)
        if has_no_blanks(text[start:stop]) or (end and not blank):
            parts.append(SEAM if places or end else FIRST)
            places.append(start)
        parts.append(text[start:stop])
        end = stop
    return Seams("".join([*parts, text[end:]]), places)


def word_of_pieces(text: str, places: Places, segmenter: Segmenter | None) -> list[int]:
    """The word of each piece: that of its last character; a blank counts to the word after it.

    Args:
        text: in NFC.
        places: start and end of each piece.
        segmenter: what tells words where no blank is; None for blanks alone.
    """
    at: list[int] = []
    words = units(text, segmenter)
    for n, (_, end) in enumerate(words):
        at += [n] * (end - len(at))
    at += [max(len(words) - 1, 0)] * (len(text) - len(at))  # blanks at the end
    return [at[max(end - 1, 0)] if at else 0 for _, end in places]


def units_of_groups(words: Sequence[int]) -> list[range]:
    """The units that each run of pieces of one word covers: a piece may cover several.

    Example:
        >>> units_of_groups([0, 0, 3])
        [range(0, 1), range(1, 4)]
    """
    found: list[range] = []
    for word, _ in groupby(words):
        found.append(range(found[-1].stop if found else 0, word + 1))
    return found
