"""Words of one text beside a vocabulary: what a model that copies can read and write of them.

A word of the source that the target's vocabulary of V ids lacks has an id of the example's own:
V, V + 1, … in the order of first occurrence (See, Liu and Manning 2017, section 2.2).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from regard.data.text.tokenizer import Encoding, Tokenizer, joined
from regard.data.text.vocabulary_kinds import KINDS, SPACE
from regard.runtime.special_ids import EOS, UNK

__all__ = ["OwnWords", "numbered", "words_of"]


@dataclass(frozen=True)
class OwnWords:
    """A vocabulary and the words of one source that it lacks; spells as a `Tokenizer` does.

    Args:
        tokenizer: the target's.
        names: of each own word how the tokenizer names it; own word n has id V + n.
        spellings: how the source writes it: in its own letters where the tokenizer makes them
            small.

    Example:
        >>> tokenizer = Tokenizer.train(["a tool for"], "spaced")
        >>> own, copies = words_of("Foo, a tool: Foo", tokenizer)
        >>> own.names, copies[0] - len(tokenizer), copies[0] == copies[-1]
        (('▁Foo', ',', ':'), 0, True)
        >>> own.decode([*own.encode("a tool for Foo").ids, 2])
        'a tool for Foo'
    """

    tokenizer: Tokenizer
    names: tuple[str, ...]
    spellings: tuple[str, ...]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Of each own word its id."""
        return {name: len(self.tokenizer) + n for n, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.tokenizer) + len(self.names)

    @property
    def kind(self) -> str:
        """The tokenizer's."""
        return self.tokenizer.kind

    def encode(self, text: str) -> Encoding:
        """One text in tokens, where unknown words of the source have their own ids."""
        found = self.tokenizer.encode(text)
        if UNK not in found.ids or not self.names:
            return found
        named = zip(found.ids, self.tokenizer.words_of(text), strict=True)
        ids = [self.numbers.get(name, UNK) if i == UNK else i for i, name in named]
        return replace(found, ids=ids)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts."""
        return [self.encode(text).ids for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, as `Tokenizer.decode`."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i > UNK:
                tokens.append(self._token(i))
        return joined(tokens, self.kind)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The token of each id, special ones too."""
        return [self._token(i) for i in ids]

    def words(self, ids: Iterable[int]) -> list[int]:
        """The index of the word each id belongs to, as `Tokenizer.words` counts."""
        named = self.tokens(ids)
        if KINDS[self.kind].joint or self.kind == "characters":
            return list(range(len(named)))
        found: list[int] = []
        for name in named:
            found.append(found[-1] + name.startswith(SPACE) if found else 0)
        return found

    def spelled(self) -> list[str]:
        """What every id adds to a text, own words behind the others."""
        return [*self.tokenizer.spelled(), *self.added()]

    def added(self) -> list[str]:
        """What every own word adds to a text."""
        joint = KINDS[self.kind].joint
        return [joint + name.replace(SPACE, " ") for name in self.spellings]

    def _token(self, i: int) -> str:
        known = len(self.tokenizer)
        return self.tokenizer.vocabulary[i] if i < known else self.spellings[i - known]


def words_of(
    text: str, target: Tokenizer, most: int | None = None
) -> tuple[OwnWords, tuple[int, ...]]:
    """The words of a source that the target lacks, and the target's id of every token of it.

    Args:
        text: the source, which is cut as the target is.
        target: the vocabulary that is written.
        most: only this many tokens of the source are read.
    """
    found = target.encode(text)
    names = target.words_of(text) if UNK in found.ids else []
    numbers, copies = numbered(found.ids[:most], names, len(target))
    spellings = [""] * len(numbers)
    for place, i in reversed([*enumerate(copies)]):  # as it stands first
        if i >= len(target):
            start, end = found.offsets[place]
            mark = SPACE if names[place].startswith(SPACE) else ""
            spellings[i - len(target)] = mark + text[start:end].strip()
    return OwnWords(target, tuple(numbers), tuple(spellings)), tuple(copies)


def numbered(
    ids: Sequence[int], names: Sequence[str], known: int
) -> tuple[dict[str, int], list[int]]:
    """Own words by name, and ids where each unknown token has that of its own word.

    Args:
        ids: of a source in the target's vocabulary.
        names: of its tokens; only read where an id is unknown.
        known: how many ids the vocabulary has.

    Example:
        >>> numbered([5, 3, 6, 3, 3], ["a", "x", "b", "y", "x"], 10)
        ({'x': 10, 'y': 11}, [5, 10, 6, 11, 10])
    """
    numbers: dict[str, int] = {}
    copies = list(ids)
    for place, i in enumerate(copies):
        if i == UNK:
            copies[place] = numbers.setdefault(names[place], known + len(numbers))
    return numbers, copies
