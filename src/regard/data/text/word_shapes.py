"""What a word that was never seen looks like: its case, digits and ending, as a symbol of its own.

    walking -> ?low:ing     Obama -> ?cap:     NATO -> ?all:     1,200 -> ?num     a-b -> ?low-:

A parser reads rare and unknown words as these, so that it learns what unknown words do.

Source: Petrov et al. (2006) and the lexicons of parsers before them; the endings are ours.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

__all__ = ["RARE", "is_shape", "shape", "with_shapes"]

RARE = 3
"""Words seen less often than this are read as their shape."""

_ENDINGS = tuple(
    """
    ability ation ition ities ments ions able ible ings less ment ness ship sion tion ance ence
    ally ical ages ants ents ists ful ing ion ism ist ity ive ize ous ant ent est age ers ors ies
    als ics ase ate ine ish ily ary ory al an ed en er es ic ly or ss us is th a e o s y
    """.split()
)
_SHAPE = re.compile(r"\?(?:num|mark|(?:all|cap|low|mix)-?#?:[a-z]*)")
_NUMBER = re.compile(r"[+-]?[\d.,:/%-]*\d[\d.,:/%-]*")


def shape(word: str) -> str:
    """The symbol of a word that is not known.

    Example:
        >>> shape("walking"), shape("Obama"), shape("1,200"), shape("p53-null"), shape(":-)")
        ('?low:ing', '?cap:a', '?num', '?low-#:', '?mark')
    """
    if _NUMBER.fullmatch(word):
        return "?num"
    letters = [letter for letter in word if letter.isalpha()]
    if not letters:
        return "?mark"
    if len(letters) > 1 and all(letter.isupper() for letter in letters):
        case = "all"
    else:
        case = "cap" if word[0].isupper() else "low" if word.islower() else "mix"
    kept = ("-" if "-" in word[1:-1] else "") + ("#" if any(map(str.isdigit, word)) else "")
    small = word.lower()
    ending = next((e for e in _ENDINGS if small.endswith(e) and len(small) > len(e) + 1), "")
    return f"?{case}{kept}:{'' if case == 'all' else ending}"


def is_shape(symbol: str) -> bool:
    """Whether a symbol is one that `shape` gives."""
    return _SHAPE.fullmatch(symbol) is not None


def with_shapes(texts: Iterable[str], *, lowercase: bool) -> Iterator[str]:
    """Texts whose rare words are their shapes: what a vocabulary with shapes is learned from."""
    rows = [text.split() for text in texts]
    counts = Counter(word.lower() if lowercase else word for row in rows for word in row)
    for row in rows:
        known = (counts[word.lower() if lowercase else word] >= RARE for word in row)
        yield " ".join(w if k else shape(w) for w, k in zip(row, known, strict=True))
