"""Words of languages that are written without blanks, found by kept libraries behind extras.

Chinese is cut by rjieba, Japanese by SudachiPy, Thai by PyThaiNLP; what none of them was chosen for
is cut into letters with their marks (Lao, Burmese and Khmer always). `docs/languages.md` has what
was measured of each. A tokenizer keeps names and versions beside its vocabulary.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

import regex

from regard.errors import RequestError, nearest
from regard.system.extras import install

__all__ = [
    "LETTERS",
    "SEGMENTERS",
    "Segmenter",
    "has_no_blanks",
    "share_without_blanks",
    "units",
    "written_with_blanks",
]

log = logging.getLogger(__name__)

LETTERS = "letters"
"""What a recipe names as `segmenter` for letters with their marks, whatever is installed."""

_KANA = r"\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_CJK = rf"\p{{Han}}{_KANA}"
_THAI = r"\u0e01-\u0e3a\u0e40-\u0e4e"
_OTHERS = (
    r"\u0e81-\u0ec6\u0ec8-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u109d\u1780-\u17d3\u17d7\u17dc"
    r"\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"
)
_ALONE = f"{_CJK}{_THAI}{_OTHERS}"
# Punctuation of these scripts, which stands in no word of any.
_POINTS = r"\u3000-\u3003\u3008-\u3020\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff3d\uff5b-\uff65"

_ANY = regex.compile(rf"(?V1)[{_ALONE}{_POINTS}--\s]")
_LETTER = regex.compile(rf"[{_ALONE}]")
_EVERY = regex.compile(r"\p{L}")
_KANAS = regex.compile(rf"[{_KANA}]")
_CJKS = regex.compile(rf"[{_CJK}]")
_THAIS = regex.compile(rf"[{_THAI}]")
_CLUSTER = regex.compile(r"(?:[\u0e40-\u0e44\u0ec0-\u0ec4])?.[\p{M}\u0e33\u0eb3\u200c\u200d]*")
_WORD = regex.compile(r"\S+")
# Of a word with such letters: runs of one script, what is between its first and last letter or
# digit of another, and each kind of mark for itself.
_PARTS = regex.compile(
    rf"(?V1)(?P<cjk>(?:[{_CJK}]\p{{M}}*)+)|(?P<thai>[{_THAI}]+)|(?P<letters>[{_OTHERS}]+)"
    rf"|[[\p{{L}}\p{{N}}]--[{_ALONE}]](?:[\S--[{_ALONE}{_POINTS}]]*"
    rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{_ALONE}]])?"
    r"|(\S)\4*\p{M}*"
)


class _Library(NamedTuple):
    """A library that cuts the runs of one script."""

    package: str
    extra: str
    language: str
    script: str
    load: Callable[[], Callable[[str], Sequence[str]]]


def _rjieba() -> Callable[[str], Sequence[str]]:
    cut: Callable[[str], Sequence[str]] = import_module("rjieba").cut
    return cut


def _sudachi() -> Callable[[str], Sequence[str]]:
    library = import_module("sudachipy")
    words = library.Dictionary(dict="small").create(mode=library.SplitMode.B)
    return lambda text: [word.surface() for word in words.tokenize(text)]


def _pythainlp() -> Callable[[str], Sequence[str]]:
    cut: Callable[[str], Sequence[str]] = import_module("pythainlp.tokenize").word_tokenize
    return cut


SEGMENTERS: dict[str, _Library] = {
    "rjieba": _Library("rjieba", "chinese", "Chinese", "cjk", _rjieba),
    "sudachipy": _Library("sudachipy", "japanese", "Japanese", "cjk", _sudachi),
    "pythainlp": _Library("pythainlp", "thai", "Thai", "thai", _pythainlp),
}
"""What a recipe may name as `segmenter`, beside "auto" and "letters"."""

SHARE = 0.1
"""A script's library is chosen from this share of the letters on."""
LONGEST = 10_000
"""Letters that a library gets at once: SudachiPy refuses more than 49,149 bytes."""


@dataclass(frozen=True)
class Segmenter:
    """What cuts texts without blanks.

    Args:
        libraries: of `SEGMENTERS`, one for a script; scripts without one are cut into letters.
        versions: of the libraries, as a tokenizer was made with them.
        for_display: words are only shown or counted, never encoded. Then the letters of a script
            whose library is not installed are words, and a warning says so.

    Example:
        >>> Segmenter().words("使用GNU tar。")
        ['使', '用', 'GNU', 'tar', '。']
    """

    libraries: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    for_display: bool = False

    @classmethod
    def of(cls, named: str, texts: Iterable[str] = ()) -> "Segmenter":
        """By what a recipe names: "auto" (chosen by the scripts of `texts`), "letters", libraries.

        Raises:
            RequestError: an unknown name, two for one script, or a library is not installed.
        """
        names = _chosen(texts) if named == "auto" else [n.strip() for n in named.split(",")]
        names = [name for name in names if name != LETTERS]
        for name in names:
            if name not in SEGMENTERS:
                known = ("auto", LETTERS, *SEGMENTERS)
                raise RequestError(f"data.tokenizer.segmenter: {name!r}: {nearest(name, known)}")
            needs(name)
        scripts = [SEGMENTERS[name].script for name in names]
        if len({*scripts}) < len(scripts):
            raise RequestError(
                f"data.tokenizer.segmenter: expected one for a script, got {named!r}"
            )
        return cls(tuple(names), tuple(version(SEGMENTERS[name].package) for name in names))

    @classmethod
    def from_names(cls, names: Iterable[str]) -> "Segmenter":
        """As `names` writes it. That the libraries are there is asked at their first use."""
        pairs = [name.rpartition(" ")[::2] for name in names]
        return cls(tuple(name for name, _ in pairs), tuple(made for _, made in pairs))

    @property
    def names(self) -> list[str]:
        """Libraries with their versions, as a folder keeps them."""
        return [f"{a} {b}" for a, b in zip(self.libraries, self.versions, strict=True)]

    def __str__(self) -> str:
        return " and ".join(self.names) or LETTERS

    def words(self, text: str) -> list[str]:
        """The words of a text; see `units`."""
        return [text[start:end] for start, end in units(text, self)]

    @cached_property
    def _cutters(self) -> dict[str, Callable[[str], Sequence[str]]]:
        found = {}
        for name, made in zip(self.libraries, self.versions, strict=True):
            if self.for_display and not _is_installed(name):
                own = SEGMENTERS[name]
                log.warning(
                    "%s is not installed: letters of %s stand for words (%s)",
                    own.package,
                    own.language,
                    install(own.extra),
                )
                continue
            needs(name)
            if not self.for_display and (here := version(SEGMENTERS[name].package)) != made:
                log.warning(
                    "%s is %s here and was %s in training: some words may be cut in another way",
                    name,
                    here,
                    made,
                )
            found[SEGMENTERS[name].script] = _cutter(name)
        return found

    def cut(self, run: str, script: str) -> Sequence[str]:
        """A run of letters of one script (`cjk`, `thai`, `letters`) in words."""
        cutter = self._cutters.get(script)
        if cutter is None:
            return [found[0] for found in _CLUSTER.finditer(run)]
        slices = [run[at : at + LONGEST] for at in range(0, len(run), LONGEST)]
        return [word for one in slices for word in cutter(one)]


def units(text: str, segmenter: Segmenter | None) -> list[tuple[int, int]]:
    """Where the words of a text stand: start and end in characters.

    Blanks divide words, and without a segmenter nothing else does. With one, letters of scripts
    without blanks are divided as it says; next to such letters marks stand alone.

    Example:
        >>> units("tar: 我爱 你。", Segmenter())
        [(0, 4), (5, 6), (6, 7), (8, 9), (9, 10)]
    """
    found = []
    for word in _WORD.finditer(text):
        start = word.start()
        if segmenter is None or not _ANY.search(word[0]):
            found.append((start, word.end()))
            continue
        for part in _PARTS.finditer(word[0]):
            at = start + part.start()
            if script := part.lastgroup:
                for piece in segmenter.cut(part[0], script):
                    found.append((at, at + len(piece)))
                    at += len(piece)
            else:
                found.append((at, start + part.end()))
    return found


def has_no_blanks(text: str) -> bool:
    """Whether a text has letters or marks of scripts that are written without blanks."""
    return not text.isascii() and bool(_ANY.search(text))


def written_with_blanks(tokens: Iterable[str], space: str) -> bool:
    """Whether the texts that subwords were learned from had blanks around words of such scripts.

    Then nearly all tokens with letters of these scripts begin with a blank; else only those do that
    began a text.

    Args:
        tokens: of a vocabulary.
        space: what stands for a blank in them.
    """
    begin = inside = 0
    for token in tokens:
        if len(token) > 1 and has_no_blanks(token):
            begin += token.startswith(space)
            inside += not token.startswith(space)
    return begin > 3 * inside


def share_without_blanks(texts: Iterable[str]) -> float:
    """The share of the letters that are of scripts without blanks, from 0 to 1."""
    alone = every = 0
    for text in texts:
        every += len(_EVERY.findall(text))
        alone += 0 if text.isascii() else len(_LETTER.findall(text))
    return alone / max(every, 1)


def needs(name: str) -> None:
    """Refuse, in one sentence, where a library is not installed.

    Raises:
        RequestError: with the extra that has it.
    """
    own = SEGMENTERS[name]
    if not _is_installed(name):
        raise RequestError(
            f"words of {own.language} need {own.package}: {install(own.extra)} "
            f"(a new training can do without: data.tokenizer.segmenter={LETTERS})"
        )


def _chosen(texts: Iterable[str]) -> list[str]:
    """The libraries of the scripts that make a good share of the letters."""
    counts = Counter[str]()
    for text in texts:
        counts["every"] += len(_EVERY.findall(text))
        if has_no_blanks(text):
            counts["kana"] += len(_KANAS.findall(text))
            counts["cjk"] += len(_CJKS.findall(text))
            counts["thai"] += len(_THAIS.findall(text))
    least = SHARE * max(counts["every"], 1)
    found = []
    if counts["cjk"] >= least:
        found.append("sudachipy" if counts["kana"] >= SHARE * counts["cjk"] else "rjieba")
    if counts["thai"] >= least:
        found.append("pythainlp")
    return found


def _is_installed(name: str) -> bool:
    modules = ["sudachidict_small"] if name == "sudachipy" else []
    return all(map(_is_there, (SEGMENTERS[name].package, *modules)))


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # imported without a specification: no installed package
        return False


@cache
def _cutter(name: str) -> Callable[[str], Sequence[str]]:
    return SEGMENTERS[name].load()
