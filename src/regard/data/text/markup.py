"""What stays as it is in a text that a model rewrites: where it stands, and what stands for it.

A *placeholder* (an address, `{name}`, `%s`) is a word of the sentence that the model must not
change: it reads a stand-in, a short word that it copies. A *tag* (`<b>`) is no word: it is cut out,
and put around the output words that come from the words it was around.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import regex

from regard.data.text.words import is_mark, is_word_character
from regard.errors import RequestError, nearest

__all__ = ["KINDS", "Kept", "Span", "Stand", "cut_out", "finder", "gap", "put_in", "rendered"]

_URLS = r"(?:https?|ftp)://[^\s<>\"]*[^\s<>\".,;:!?)'\]]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_BRACES = r"\$\{[^{}]*\}|\{\{[^{}]*\}\}|\{[^{}\s]*\}|\$[A-Z_][A-Z0-9_]*\b"
_PRINTF = (
    r"%\([A-Za-z_]\w*\)[#0+-]*\d*(?:\.\d+)?[A-Za-z]"
    r"|(?<!\d)%(?:\d+\$)?[#0+-]*\d*(?:\.\d+)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGaAcspn](?![A-Za-z])"
    r"|%\d+\b"
)
# What stands in quotation marks may have a ">".
_INSIDE = r"""(?:\s(?:[^<>"']|"[^"]*"|'[^']*')*|\s[^<>]*)?"""
_TAGS = rf"</?[A-Za-z][\w:.-]*{_INSIDE}/?>"

KINDS = {"urls": _URLS, "placeholders": f"{_BRACES}|{_PRINTF}", "tags": _TAGS}
"""What a kind finds; "all" are all of them."""

_TAG = re.compile(rf"<(/?)([A-Za-z][\w:.-]*){_INSIDE}(/?)>")
_WORD = re.compile(r"\S+")
_BEFORE = "(\"'«‹„“‘[{¿¡"
_BEHIND = ".,;:!?)\"'»›“”’]}…"
_PARTS = re.compile(rf"^([{re.escape(_BEFORE)}]*)(.*?)([{re.escape(_BEHIND)}]*)$", re.DOTALL)

Find = Callable[[str], Iterator[re.Match[str]]]


def finder(asked: Sequence[str]) -> Find:
    """What finds all that is kept in a text.

    Args:
        asked: names of `KINDS`, "all", or regular expressions.

    Raises:
        RequestError: one that is neither.
    """
    patterns: list[str] = []
    for one in asked:
        if one == "all":
            patterns += KINDS.values()
        elif one in KINDS:
            patterns.append(KINDS[one])
        elif re.fullmatch(r"[a-z]+", one):  # a slip in a name, rather than a word to keep
            raise RequestError(f"keep: no kind {one!r}: {nearest(one, [*KINDS, 'all'])}")
        else:
            try:
                re.compile(one)
            except re.error as error:
                raise RequestError(
                    f"keep: expected {', '.join(KINDS)}, all or a regular expression, got {one!r}"
                    f" ({error})"
                ) from None
            patterns.append(one)
    every = re.compile("|".join(f"(?:{one})" for one in dict.fromkeys(patterns)))
    return lambda text: (match for match in every.finditer(text) if match[0])


@dataclass(frozen=True)
class Stand:
    """A placeholder and what stands for it.

    Args:
        sign: the stand-in.
        original: as it is in the text.
        before, behind: whether it touches a letter or digit there.
    """

    sign: str
    original: str
    before: bool = False
    behind: bool = False

    @property
    def pattern(self) -> regex.Pattern[str]:
        """The stand-in as a word of its own."""
        return regex.compile(rf"(?<![\w\p{{M}}]){regex.escape(self.sign)}(?![\w\p{{M}}])")

    def times(self, text: str) -> int:
        """How often it is in a text."""
        return len(self.pattern.findall(text))


@dataclass(frozen=True)
class Span:
    """A tag, or a pair of tags with what is inside.

    Args:
        start, end: what is inside, as places in the text without tags; equal for a single tag.
        opening, closing: the tags; `closing` is "" for a single one.
        spaces: whether there was white space before and behind a single one.
    """

    start: int
    end: int
    opening: str
    closing: str = ""
    spaces: tuple[bool, bool] = (False, False)
    inside: list["Span"] = field(default_factory=list)


@dataclass(frozen=True)
class Kept:
    """A text as the model reads it, and what was in it."""

    text: str
    stands: Sequence[Stand]
    spans: Sequence[Span]

    @property
    def words(self) -> list[tuple[int, int]]:
        """Where its words begin and end."""
        return [match.span() for match in _WORD.finditer(self.text)]


def cut_out(text: str, find: Find, sign: Callable[[int], str]) -> Kept:
    """A text with stand-ins for placeholders, and without tags.

    Args:
        find: see `finder`.
        sign: the stand-in of a number; see `signs`.

    Example:
        >>> kept = cut_out("Lies <b>{name}</b>!", finder(["all"]), lambda n: f"#{n}")
        >>> kept.text, kept.stands[0].original, kept.spans[0].opening
        ('Lies #1!', '{name}', '<b>')
    """
    found = [*find(text)]
    pairs = _pairs([match[0] for match in found])
    made, at, number = "", 0, 0
    stands: list[Stand] = []
    starts: dict[int, int] = {}
    root: list[Span] = []
    open_: list[list[Span]] = [root]
    for i, match in enumerate(found):
        made += text[at : match.start()]
        at = match.end()
        behind = text[at : at + 1]
        if i in pairs:  # opens
            starts[i] = len(made)
            open_.append([])
        elif i in pairs.values():
            first = next(one for one, other in pairs.items() if other == i)
            inside = open_.pop()
            open_[-1].append(
                Span(starts[first], len(made), found[first][0], match[0], (False,) * 2, inside)
            )
        elif _TAG.fullmatch(match[0]):
            spaces = not made or made[-1].isspace(), not behind or behind.isspace()
            if not any(spaces):
                made += " "  # what is before and behind it are two words
            open_[-1].append(Span(len(made), len(made), match[0], "", spaces))
        else:
            number += 1
            while sign(number) in text:
                number += 1
            touched = is_word_character(made[-1:]), is_word_character(behind) or behind == "_"
            stands.append(Stand(sign(number), match[0], *touched))
            made += " " * touched[0] + sign(number) + " " * touched[1]
    return Kept(made + text[at:], stands, root)


def _pairs(found: Sequence[str]) -> dict[int, int]:
    """The number of each opening tag that has a closing one, and the number of that."""
    pairs: dict[int, int] = {}
    waiting: list[tuple[int, str]] = []
    for i, one in enumerate(found):
        tag = _TAG.fullmatch(one)
        if tag is None or tag[3]:
            continue
        if not tag[1]:
            waiting.append((i, tag[2]))
            continue
        names = [name for _, name in waiting]
        if tag[2] in names:  # what was opened since then has no end: a single tag
            place = len(names) - 1 - names[::-1].index(tag[2])
            pairs[waiting[place][0]] = i
            del waiting[place:]
    return pairs


def put_in(text: str, stands: Sequence[Stand]) -> str:
    """A text with placeholders where their stand-ins are; one that is there again is left out."""
    for one in stands:
        pattern = one.pattern
        first = pattern.search(text)
        if first is None:
            continue
        head, rest = text[: first.start()], text[first.end() :]
        rest = regex.sub(rf" ?{pattern.pattern}", "", rest)
        if one.before and len(head) > 1 and head[-1] == " " and is_word_character(head[-2]):
            head = head[:-1]
        if one.behind and len(rest) > 1 and rest[0] == " " and is_word_character(rest[1]):
            rest = rest[1:]
        text = f"{head}\0{rest}"
        text = text.replace("\0", f"\1{stands.index(one)}\1")  # others may look like stand-ins
    return re.sub("\1(\\d+)\1", lambda m: stands[int(m[1])].original, text)


# -- tags in an output


@dataclass(frozen=True)
class _Unit:
    """A part of an output word: the marks before it, itself, or the marks behind it."""

    text: str
    word: int
    space: bool


@dataclass(frozen=True)
class _Placed:
    """A span with the units of the output it is around: from `first` to before `end`."""

    span: Span
    first: int
    end: int
    inside: list["_Placed"]


def rendered(output: str, kept: Kept, links: Sequence[int | None]) -> str:
    """An output with the tags of its input, each once, and nested as they were.

    A pair goes around the run of words with the most that come from inside it and the fewest that
    do not, within what it was inside of, and apart from its neighbors.

    Args:
        links: for each word of the output the word of `kept.text` that it comes from.

    Example:
        >>> kept = cut_out("Das <b>rote</b> Haus.", finder(["tags"]), str)
        >>> rendered("La maison rouge.", kept, [0, 2, 1])
        'La maison <b>rouge</b>.'
    """
    units = [
        _Unit(part, i, not at)
        for i, word in enumerate(output.split())
        for at, part in enumerate(filter(None, _PARTS.match(word).groups()))  # type: ignore[union-attr]
    ]
    placed = _places(kept.spans, kept, links, units, 0, len(units))
    return _drawn(placed, units, 0, len(units)).strip(" ")


def gap(offset: int, words: Sequence[tuple[int, int]], links: Sequence[int | None]) -> int:
    """The output word before which something belongs that stands at a place of the input.

    Args:
        offset: of the input.
        words: where its words begin and end.
        links: of each output word to an input word.
    """
    behind = next((i for i, (start, _) in enumerate(words) if start >= offset), None)
    if behind is not None and behind in links:
        return links.index(behind)
    before = len(words) - 1 if behind is None else behind - 1
    if before in links:
        return len(links) - [*links][::-1].index(before)
    return len(links) if behind is None else round(behind * len(links) / max(len(words), 1))


def _places(
    spans: Sequence[Span],
    kept: Kept,
    links: Sequence[int | None],
    units: Sequence[_Unit],
    first: int,
    end: int,
) -> list[_Placed]:
    """Where spans go, between two places of the output."""
    words, placed = kept.words, list[_Placed]()
    free = [True] * len(units)
    for span in spans:
        own = {i for i, (a, b) in enumerate(words) if a < span.end and b > span.start}
        if not own:
            word = gap(span.start, words, links)
            at = next((u for u in range(first, end) if units[u].word >= word), end)
            for other in placed:  # not inside of a neighbor
                at = other.end if other.first < at < other.end else at
            placed.append(_Placed(span, at, at, _places(span.inside, kept, links, units, at, at)))
            continue
        text = kept.text[span.start : span.end].strip()
        whole = text[0] in _BEFORE, text[-1] in _BEHIND
        a, b = _best(own, links, units, free, first, end)
        a, b = _trimmed(units, a, b, whole)
        for u in range(a, b):
            free[u] = False
        placed.append(_Placed(span, a, b, _places(span.inside, kept, links, units, a, b)))
    return placed


def _best(
    own: set[int],
    links: Sequence[int | None],
    units: Sequence[_Unit],
    free: Sequence[bool],
    first: int,
    end: int,
) -> tuple[int, int]:
    """The run of whole words with the best count; where no word comes from inside, a likely one."""
    found, best = (end, end), 0
    run, began = 0, first
    for u in range(first, end):
        if not free[u]:
            run, began = 0, u + 1
            continue
        if not units[u].space:
            if run == best and found[1] == u and best:
                found = (found[0], u + 1)
            continue
        if run <= 0:
            run, began = 0, u
        run += 1 if units[u].word < len(links) and links[units[u].word] in own else -1
        if run > best:
            best, found = run, (began, u + 1)
    if best or first == end:
        return found
    likely = round(sum(own) / len(own) / max(1, len(own | {*filter(None, links)})) * (end - first))
    options = [u for u in range(first, end) if free[u] and units[u].space]
    if not options:
        return found
    at = min(options, key=lambda u: abs(u - first - likely))
    last = next((u for u in range(at + 1, end) if units[u].space or not free[u]), end)
    return at, last


def _trimmed(
    units: Sequence[_Unit], first: int, end: int, whole: tuple[bool, bool]
) -> tuple[int, int]:
    """Without the marks at either side, where the tag did not have them inside."""
    size = len(units)
    while not whole[0] and end - first > 1 and is_mark(units[first].text):
        first += 1
    while not whole[1] and end - first > 1 and is_mark(units[end - 1].text):
        end -= 1
    return min(first, size), min(end, size)


def _drawn(placed: Sequence[_Placed], units: Sequence[_Unit], first: int, end: int) -> str:
    """Units with what is placed among them, without a space at the beginning."""
    out, at = "", first
    spaces = {first: False}  # before a unit, where it is not as the unit has it

    def go_on(until: int) -> None:
        nonlocal out, at
        for u in range(at, until):
            space = spaces.get(u, units[u].space)
            out += " " * (space and not out.endswith(" ")) + units[u].text
        at = max(at, until)

    for one in sorted(placed, key=lambda p: (p.first, p.end)):
        go_on(one.first)
        between = one.first == len(units) or units[one.first].space
        if one.first < one.end:
            space = spaces.get(one.first, between)
            out += " " * (space and not out.endswith(" ")) + one.span.opening
            out += _drawn(one.inside, units, one.first, one.end) + one.span.closing
            at = one.end
        else:
            before, behind = one.span.spaces if not one.span.closing else (True, True)
            inside = _drawn(one.inside, units, one.first, one.first)
            out += " " * (between and before and bool(out) and not out.endswith(" "))
            out += one.span.opening + inside + one.span.closing
            spaces[one.first] = between and behind
    go_on(end)
    return out
