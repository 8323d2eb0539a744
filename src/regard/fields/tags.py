"""Tags: one label for each word of a text."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.data.annotations.tag_schemes import convert, repaired, scheme_of, wrong
from regard.data.ragged import RaggedIds
from regard.data.text.normal_form import composed
from regard.errors import RequestError
from regard.fields.base import Bad, Field, Report
from regard.fields.word_features import WordColumn, one_each

__all__ = ["IGNORED", "TagColumn", "TagsField"]

IGNORED = -100
"""The target of a padded place, and of a tag that training never had: `ignore_index` of PyTorch."""


class TagColumn(WordColumn):
    """The numbers of the tags of each text, and the names that they stand for.

    Args:
        ids: of each text.
        names: of the tags.
    """

    padding: ClassVar[int] = IGNORED

    def __init__(self, ids: RaggedIds, names: Sequence[str] = ()) -> None:
        super().__init__(ids)
        self.names = names

    @property
    def counts(self) -> NDArray[np.int64]:
        """The tags that can be learned from."""
        known = np.concatenate([[0], np.cumsum(self.ids.flat != IGNORED)])
        counts: NDArray[np.int64] = known[self.ids.starts[1:]] - known[self.ids.starts[:-1]]
        return counts

    def take(self, indices: NDArray[np.int64]) -> "TagColumn":
        """Some of the texts' tags."""
        return TagColumn(self.ids.take(indices), self.names)


class TagsField(Field):
    """One tag for each word of another field, divided by blanks: `B-PER I-PER O`.

    Args:
        of: the text whose words are tagged.
        scheme: one of `annotations.tag_schemes`, `iob1`, `iob2` (`bio`), `iobes` or `bilou`,
            refuses tags that are not valid in it, such as an I- tag of `bio` that continues
            nothing; "" takes any tags.
        learned_as: the scheme that a model learns, where it is another one: tags are converted
            before, and back when they are decoded, so that no other code sees it.
    """

    kind: ClassVar[str] = "tags"

    def __init__(
        self, of: str, scheme: str = "", *, learned_as: str = "", target: bool = True
    ) -> None:
        super().__init__(target=target, of=of)
        for name in filter(None, (scheme, learned_as)):
            scheme_of(name)
        if learned_as and not scheme:
            raise RequestError(
                f"learned_as is {learned_as!r}; tags without a scheme are learned as is"
            )
        self.scheme, self.learned_as = scheme, learned_as
        self.names: list[str] = []

    @property
    def lists(self) -> bool:
        """A list has tags."""
        return True

    def read(self, cell: str, row: Mapping[str, Any]) -> list[str]:
        """As many tags as the text has words."""
        tags = one_each(cell, row.get(self.of or ""), "tags")
        if self.scheme and (found := wrong(tags, self.scheme)):
            raise Bad(f"not a{'n' * (self.scheme[0] == 'i')} {self.scheme.upper()} tag", found[1])
        return tags

    def written(self, value: Sequence[str]) -> str:
        """Tags divided by blanks."""
        return " ".join(value)

    def learn(self, values: Sequence[Sequence[str]]) -> "TagsField":
        """With the tags of the training data, in the order of the alphabet."""
        made = copy(self)
        made.names = sorted({tag for value in values for tag in self._learned(value)})
        return made

    def grown(self, values: Sequence[Any]) -> Field:
        """The tags of `before`, and behind them those that are new."""
        assert isinstance(self.before, TagsField)
        if not self.extends:
            return self.before
        found = type(self).learn(self, values)
        known = self.before.names
        found.names = [*known, *(name for name in found.names if name not in known)]
        return found

    def rows(self) -> Mapping[str, Sequence[str]]:
        """A row for each tag."""
        return {"num_tags": self.names}

    @property
    def learned(self) -> bool:
        """Whether the tags are known."""
        return bool(self.names)

    def arguments(self) -> dict[str, int]:
        """`num_tags`."""
        return {"num_tags": len(self.names)}

    def encode(
        self,
        values: Sequence[Sequence[str]],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> TagColumn:
        """The numbers of all tags."""
        index = {name: i for i, name in enumerate(self.names)}
        each = [self._learned(value) for value in values]
        for i, value in enumerate(each):
            if unseen := [tag for tag in value if tag not in index]:
                report(i, "unseen tag", f"{unseen[0]!r} is not in the training data")
        ids = RaggedIds.rows([[index.get(t, IGNORED) for t in v] for v in each])
        return TagColumn(ids, self.names)

    def decode(self, value: Sequence[int]) -> str:
        """The names of some numbers, in the scheme of the data."""
        tags = [self.names[int(i)] for i in value]
        if self.learned_as:
            tags = convert(repaired(tags, self.learned_as), self.learned_as, self.scheme)
        return self.written(tags)

    def _learned(self, value: Sequence[str]) -> Sequence[str]:
        return convert(value, self.scheme, self.learned_as) if self.learned_as else value

    def state(self) -> dict[str, Any]:
        """The names of the tags."""
        return {"tags": self.names}

    def restored(self, state: Mapping[str, Any]) -> "TagsField":
        """With the tags that were saved."""
        made = copy(self)
        made.names = [composed(str(name)) for name in state["tags"]]
        return made
