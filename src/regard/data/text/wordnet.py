"""WordNet's relations between words: synonyms, antonyms, what is above what.

Miller (1995), "WordNet: A Lexical Database for English". Read from the files of its database
(`index.noun`, `data.noun`, `noun.exc`, …; wndb(5WN)), version 3.0 or 3.1. What is kept is small
enough to be saved with a model: words that WordNet's tagged texts have, words of the training data,
and the synsets above them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from regard.data.sources import places
from regard.errors import RequestError

__all__ = ["RELATIONS", "WordNet", "database"]

Parsed = TypeVar("Parsed")

RELATIONS = ("same", "synonym", "hypernym", "hyponym", "antonym", "coordinate", "related", "none")
"""Of a word u to a word v, the nearest first: a common base form; a common synset; v is above u, at
most four steps; v is below u; antonyms, of near synsets, too; a common synset one step above; two
steps above; nothing of these."""

_SYSTEM = ("/usr/share/wordnet", "/usr/local/share/wordnet")
_PARTS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
_ENDINGS = {
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}
"""The rules of detachment of morphy(7WN)."""
_SENSES, _OPPOSED, _STEPS = 4, 6, 4
"""The senses of a word that count, those for antonyms, and the steps upwards."""


def database() -> Path:
    """The folder of WordNet's files: `$WNSEARCHDIR`; else `wordnet` among the data, or a system's.

    Raises:
        RequestError: none of them has `index.noun`.
    """
    if told := os.environ.get("WNSEARCHDIR"):
        known = [Path(told)]
    else:
        known = [*(place / "wordnet" for place in places()), *map(Path, _SYSTEM)]
    for place in known:
        if (place / "index.noun").is_file():
            return place
    raise RequestError(
        "features of WordNet need its database, the files index.noun, data.noun, …: expected them "
        f"in {' or '.join(map(str, known))}; set WNSEARCHDIR to their folder, or install them "
        "(Debian and Ubuntu: wordnet-base)"
    )


class WordNet:
    """A part of WordNet.

    Args:
        senses: synsets of a base form, the most frequent first: {"n dog": [0, 5]}.
        above: the synsets right above each.
        against: the antonyms of each, by its words or by those of similar synsets.
        irregular: base forms that no rule gives: {"n mice": ["mouse"]}.
    """

    def __init__(
        self,
        senses: Mapping[str, Sequence[int]],
        above: Sequence[Sequence[int]],
        against: Sequence[Sequence[int]],
        irregular: Mapping[str, Sequence[str]],
    ) -> None:
        self.senses, self.above, self.against = senses, above, against
        self.irregular = irregular
        self._known: dict[tuple[str, str], str] = {}
        self._words: dict[str, _Word] = {}

    @classmethod
    def read(cls, folder: Path, words: Iterable[str] = ()) -> "WordNet":
        """Of the database in `folder`: words that its tagged texts have, and `words`.

        Raises:
            RequestError: a file is missing or is no file of WordNet.
        """
        senses: dict[str, list[tuple[str, str]]] = {}
        kept: set[str] = set()
        synsets: dict[tuple[str, str], list[list[str]]] = {}
        irregular: dict[str, list[str]] = {}
        for name, part in _PARTS.items():
            for base, tagged, offsets in _parsed(folder / f"index.{name}", _index):
                form = f"{part} {base}"
                if "_" not in base:
                    senses[form] = [(part, offset) for offset in offsets]
                    if tagged:
                        kept.add(form)
            for offset, pointers in _parsed(folder / f"data.{name}", _synset):
                synsets[part, offset] = pointers
            for inflected, *bases in _parsed(folder / f"{name}.exc", str.split):
                if "_" not in inflected:
                    irregular.setdefault(f"{part} {inflected}", []).extend(bases)
        for word in {word.lower() for word in words}:
            kept.update(_base_forms(word, senses, irregular))
        return cls._of({form: senses[form] for form in sorted(kept)}, synsets, irregular)

    @classmethod
    def _of(
        cls,
        forms: Mapping[str, list[tuple[str, str]]],
        synsets: Mapping[tuple[str, str], list[list[str]]],
        irregular: Mapping[str, list[str]],
    ) -> "WordNet":
        number: dict[tuple[str, str], int] = {}
        for one in chain.from_iterable(forms.values()):
            number.setdefault(one, len(number))
        above, against = [], []
        queue = list(number)
        for place in queue:  # grows: those above are asked for what is above them
            higher = _targets(synsets[place], "@", "@i")
            near = [place, *_targets(synsets[place], "&")]
            others = [other for one in near for other in _targets(synsets[one], "!")]
            others += [more for one in others for more in _targets(synsets[one], "&")]
            for one in higher:
                if one not in number:
                    number[one] = len(number)
                    queue.append(one)
            above.append([number[one] for one in higher])
            against.append(others)
        return cls(
            {form: [number[one] for one in row] for form, row in forms.items()},
            above,
            [sorted({number[one] for one in row if one in number}) for row in against],
            dict(sorted(irregular.items())),
        )

    def relation(self, u: str, v: str) -> str:
        """The nearest of `RELATIONS` of u to v, both in lower case."""
        found = self._known.get((u, v))
        if found is None:
            found = self._known[u, v] = self._relation(u, v)
        return found

    def _relation(self, u: str, v: str) -> str:
        if u == v:
            return "same"
        a, b = self._word(u), self._word(v)
        if a.bases & b.bases:
            return "same"
        if a.senses & b.senses:
            return "synonym"
        if a.against & b.senses or b.against & a.senses:
            return "antonym"
        if b.senses & a.above.keys():
            return "hypernym"
        if a.senses & b.above.keys():
            return "hyponym"
        common = [max(a.above[one], b.above[one]) for one in a.above.keys() & b.above.keys()]
        nearest = min(common, default=_STEPS)
        return "coordinate" if nearest == 1 else "related" if nearest == 2 else "none"

    def _word(self, word: str) -> "_Word":
        found = self._words.get(word)
        if found is None:
            found = self._words[word] = _Word(self, word)
        return found

    def state(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "senses": self.senses,
            "above": self.above,
            "against": self.against,
            "irregular": self.irregular,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> "WordNet":
        """The part that a `state` was taken of.

        Raises:
            RequestError: it is no such state.
        """
        try:
            above, against = ([list(row) for row in state[k]] for k in ("above", "against"))
            senses = {str(form): list(row) for form, row in state["senses"].items()}
            irregular = {str(k): [str(one) for one in row] for k, row in state["irregular"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise RequestError(f"expected a part of WordNet, got {error!r}") from None
        numbers = [one for rows in (above, against, senses.values()) for row in rows for one in row]
        if len(above) != len(against) or not all(
            type(one) is int and 0 <= one < len(above) for one in numbers
        ):
            raise RequestError("expected a part of WordNet, got synsets that it does not have")
        return cls(senses, above, against, irregular)


class _Word:
    """What WordNet knows of a word."""

    def __init__(self, net: WordNet, word: str) -> None:
        self.net = net
        self.forms = _base_forms(word, net.senses, net.irregular)
        self.bases = frozenset(form.partition(" ")[2] for form in self.forms)
        self.senses = frozenset(one for f in self.forms for one in net.senses[f][:_SENSES])

    @cached_property
    def above(self) -> dict[int, int]:
        """The synsets above, and how many steps."""
        found: dict[int, int] = {}
        here: Iterable[int] = self.senses
        for step in range(1, _STEPS + 1):
            here = {one for place in here for one in self.net.above[place]}
            for one in here:
                found.setdefault(one, step)
        return found

    @cached_property
    def against(self) -> frozenset[int]:
        """Antonyms."""
        senses = (one for f in self.forms for one in self.net.senses[f][:_OPPOSED])
        return frozenset(other for one in senses for other in self.net.against[one])


def _base_forms(
    word: str, known: Mapping[str, Any], irregular: Mapping[str, Sequence[str]]
) -> list[str]:
    """The forms in `known` that a word may be of: ["n dog", "v dog"] of "dogs"."""
    found: dict[str, None] = {}
    for part, endings in _ENDINGS.items():
        bases = [word, *irregular.get(f"{part} {word}", ())]
        for ending, other in endings:
            stem = word[: len(word) - len(ending)]
            if word.endswith(ending) and len(stem) > 1:
                bases.append(stem + other)
                if part == "v" and not other and len(stem) > 3 and stem[-1] == stem[-2]:
                    bases.append(stem[:-1])  # running
        found |= dict.fromkeys(form for base in bases if (form := f"{part} {base}") in known)
    return list(found)


def _parsed(path: Path, parse: Callable[[str], Parsed]) -> Iterator[Parsed]:
    """What each line of a file says, but those of its licence."""
    try:
        with path.open(encoding="latin-1") as lines:
            for number, line in enumerate(lines, start=1):
                if line.startswith(" ") or not line.strip():
                    continue
                try:
                    found = parse(line)
                except (ValueError, IndexError):
                    raise RequestError(
                        f"{path}:{number}: expected a line of WordNet's database, "
                        f"got {line.strip()[:60]!r}"
                    ) from None
                yield found
    except OSError as error:
        raise RequestError(
            f"{path}: WordNet's database needs this file ({error.strerror})"
        ) from None


def _index(line: str) -> tuple[str, bool, list[str]]:
    """A base form, whether tagged texts have it, and the offsets of its first synsets."""
    base, _, count, pointers, *rest = line.split()
    tagged, *offsets = rest[int(pointers) + 1 :]
    if len(offsets) != int(count):
        raise ValueError(f"expected {count} synsets, got {len(offsets)}")
    return base, int(tagged) > 0, offsets[: max(_SENSES, _OPPOSED)]


def _synset(line: str) -> tuple[str, list[list[str]]]:
    """Its offset, and [symbol, offset, part of speech, …] of each of its pointers."""
    fields = line.split(" | ", 1)[0].split()
    at = 4 + 2 * int(fields[3], 16)
    return fields[0], [fields[at + 1 + 4 * i : at + 5 + 4 * i] for i in range(int(fields[at]))]


def _targets(pointers: Sequence[Sequence[str]], *symbols: str) -> list[tuple[str, str]]:
    """Where the pointers of these kinds lead. An adjective satellite is an adjective."""
    return [
        ("a" if part == "s" else part, place)
        for symbol, place, part, _ in pointers
        if symbol in symbols
    ]
