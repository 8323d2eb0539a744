"""Predicates of plain texts: a text without marks is one example for each of its predicates.

    She gave him a book.     is asked as     She gave him a book . ||| 1
                             and answered    [ARG0 She] [V gave] [ARG2 him] [ARG1 a book] .

A plain text is cut as tokenizers of kind "wordpunct" cut it, and keeps its capitals. A text in
which a mark or an ending stands by itself (" .", " n't") is taken as cut already: blanks alone
divide it. So is every text with marks, as their numbers count its words.
"""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from regard.data.annotations.predicate_finder import PredicateFinder
from regard.data.annotations.tagged_text import RolesText, bracketed
from regard.data.text.cells import BETWEEN, Bad
from regard.data.text.tokenizer import Tokenizer
from regard.runtime.answer import PlainPrediction

__all__ = ["AskedText", "apart", "asked_texts", "merged_roles", "places_of", "words_of"]

_CUT = re.compile(
    r"(?:^|\s)(?:[.,;:?!]+|``|''|n['\u2019]t|['\u2019](?:s|re|ve|ll|d|m))(?=\s|$)", re.IGNORECASE
)
"""What stands by itself only where a text was cut before."""

ENDS = frozenset(".!?。！？｡؟।…")
"""Words that end a sentence."""
WHOLE = 120
"""Words of a plain text that every predicate reads whole; in a longer one it reads its sentence."""
MANY = 50_000
"""Words times predicates of one text above which its user is told what that costs."""
log = logging.getLogger(__name__)

_NOTHING = (
    f"expected 2 inputs, text {BETWEEN} predicate; got 1, and the model folder has no "
    "field.predicates.json, which finds predicates"
)


@dataclass(frozen=True)
class AskedText:
    """An input as it was written.

    Args:
        plain: it has no marks.
        words: of a plain text.
        places: of the predicates that were found in it.
        refused: why it cannot be asked, "" if it can.
    """

    text: str
    plain: bool = False
    words: Sequence[str] = ()
    places: Sequence[int] = ()
    refused: str = ""

    @property
    def examples(self) -> list[str]:
        """What it comes to: texts with a mark."""
        if not self.plain:
            return [self.text]
        made = []
        for place in self.places:
            first, last = self.window(place)
            made.append(f"{' '.join(self.words[first:last])} {BETWEEN} {place - first}")
        return made

    def window(self, place: int) -> tuple[int, int]:
        """The first word that a predicate reads, and the one after its last.

        The whole text of up to `WHOLE` words; else its sentence, and of a sentence that is longer
        than that the `WHOLE` words around the predicate.
        """
        first, last = 0, len(self.words)
        if last <= WHOLE:
            return first, last
        ends = [i + 1 for i, word in enumerate(self.words) if word in ENDS]
        first = max((end for end in ends if end <= place), default=0)
        last = min((end for end in ends if end > place), default=last)
        if last - first > WHOLE:
            first = min(max(first, place - WHOLE // 2), last - WHOLE)
            last = first + WHOLE
        return first, last


def asked_texts(texts: Sequence[str], finder: PredicateFinder | None) -> list[AskedText]:
    """The inputs, with the predicates of each text that has no marks.

    Args:
        finder: what finds them; without one plain texts are refused.
    """
    made = []
    for text in texts:
        if not text.strip() or BETWEEN in text or "\t" in text:
            made.append(AskedText(text))
        elif finder is None:
            made.append(AskedText(text, True, refused=_NOTHING))
        else:
            words = words_of(text)
            places = finder.find(words)
            own = AskedText(text, True, words, places)
            read = sum(last - first for first, last in map(own.window, places))
            if len(words) > WHOLE:
                log.warning(
                    "a text of %s words has %s predicates, and each reads its sentence (at "
                    "most %d words)%s",
                    f"{len(words):,}",
                    f"{len(places):,}",
                    WHOLE,
                    ": this takes minutes" if read > MANY else "",
                )
            made.append(own)
    return made


def places_of(cell: str, text: str | None) -> list[int]:
    """The numbers of words in a cell, from 0: those that are marked.

    Args:
        text: the words that they are of; None: not known.

    Raises:
        Bad: there is none, or no such word.
    """
    if not cell.strip():
        raise Bad("empty")
    try:
        found = [int(number) for number in cell.split()]
    except ValueError:
        raise Bad("no number of a word", repr(cell.strip())) from None
    words = max(found) + 1 if text is None else len(text.split())
    for number in found:
        if not 0 <= number < words:
            raise Bad("no such word", f"{number} of {words} words, counted from 0")
    return found


def words_of(text: str) -> list[str]:
    """The words of a plain text, marks apart; of one that is cut already what blanks divide.

    Example:
        >>> words_of("She didn't, Mr. X."), words_of("Mr. X left .")
        (['She', 'did', "n't", ',', 'Mr', '.', 'X', '.'], ['Mr.', 'X', 'left', '.'])
    """
    return text.split() if _CUT.search(text) else _cutter().words_of(text)


def apart(text: str) -> str:
    """A sentence with blanks around punctuation and endings; one that is cut already as it is.

    Example:
        >>> apart("He didn't go."), apart("Mr. X left .")
        ("He did n't go .", 'Mr. X left .')
    """
    words = " ".join(words_of(text)).split()
    return text if words == text.split() else " ".join(words)


def merged_roles(
    own: AskedText,
    parts: Sequence[PlainPrediction],
    scheme: str,
    made: Callable[..., RolesText] = RolesText,
    unmade: Callable[..., PlainPrediction] = PlainPrediction,
) -> PlainPrediction:
    """The roles of a plain text from the predictions of its examples.

    Args:
        scheme: of the tags.
        made: the class of the result.
        unmade: that of a text that is refused.
    """
    refused = own.refused or next((one.refused for one in parts if one.refused), "")
    if refused:
        return unmade(own.text, "", refused=refused)
    parts = [_whole(own, *both) for both in zip(own.places, parts, strict=True)]
    lines = [bracketed(own.words, one.output.split(), scheme) for one in parts]
    scores = [one.score for one in parts if one.score is not None]
    return made(
        own.text,
        " | ".join(lines),
        sum(scores) if scores else None,
        alternatives=list(parts),
        words=own.words,
        predicates=own.places,
    )


def _whole(own: AskedText, place: int, part: PlainPrediction) -> PlainPrediction:
    """The prediction of one predicate with a tag for each word of the text.

    Words that it did not read are outside of all roles, and tags have no scores then.
    """
    first, last = own.window(place)
    if last - first == len(own.words):
        return part
    tags = ["O"] * first + part.output.split() + ["O"] * (len(own.words) - last)
    return replace(part, output=" ".join(tags), tokens=[], token_scores=[])


@cache
def _cutter() -> Tokenizer:
    return Tokenizer.train([], "wordpunct")
