"""Texts of which words are copied: a source that says what each word is in the target's ids."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.ragged import RaggedIds
from regard.data.text.copied_words import OwnWords, numbered, words_of
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.fields.base import Field, Report
from regard.fields.text import TextColumn, TextField
from regard.protocols import EOS, PAD, UNK, Inputs

__all__ = ["CopiedColumn", "CopiedField", "CopyingField"]


class CopiedColumn(TextColumn):
    """Texts as ids, and each token in the ids of the target: `extras["copies"]` of a batch.

    Args:
        ids: of the source's vocabulary.
        copies: of the target's, own words of each text behind it; as many as `ids`.
    """

    def __init__(self, ids: RaggedIds, copies: RaggedIds) -> None:
        super().__init__(ids)
        self.copies = copies

    def take(self, indices: NDArray[np.int64]) -> "CopiedColumn":
        """Some of the texts."""
        return CopiedColumn(self.ids.take(indices), self.copies.take(indices))

    def collate(self, indices: NDArray[np.int64]) -> Inputs:
        """Ids (B, T) that end in EOS, and `copies` (B, T) that do too."""
        found = super().collate(indices)
        copies = torch.from_numpy(self.copies.padded(indices, PAD, EOS))
        return replace(found, extras={**found.extras, "copies": copies})


class CopiedField(TextField):
    """A text whose words can be copied into another one.

    Args:
        into: the field that is written. It cuts texts as this one does; where tokens are parts of
            words, both have one vocabulary, and no word is unknown.
        most: only this many tokens of a text are read; 0 for all.
        copies: whether batches have them; without them the field is a text of at most this many.
        settings: see `TextField`.
    """

    kind: ClassVar[str] = "copied-text"

    def __init__(
        self, *, into: str = "target", most: int = 0, copies: bool = True, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.into, self.most, self.copies = into, most, copies

    def own_words(self, text: str, target: TextField) -> tuple[OwnWords, tuple[int, ...]]:
        """The words of a text that the target lacks, and the target's id of every token."""
        return words_of(text, target.tokenizer, self.most or None)

    def encode(
        self, values: Sequence[Any], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> TextColumn:
        """The ids of all texts in both vocabularies.

        Raises:
            RequestError: the two cut texts differently.
        """
        ids = self.tokenizer.encode_all(list(values))
        if self.most:
            ids = RaggedIds.rows([row[: self.most].tolist() for row in ids])
        if not self.copies:
            return TextColumn(ids)
        target = fields[self.into]
        assert isinstance(target, TextField)
        own, other = self.tokenizer.kind, target.tokenizer.kind
        whole = own in ("words", "wordpunct", "spaced", "segmented", "characters")
        if own != other or not (whole or self.dump() == target.dump()):
            raise RequestError(
                f"data.tokenizer: words are copied between texts that are cut alike; expected one "
                f"kind with whole words, or one vocabulary, got {own!r} and {other!r}"
            )
        copies = [copied for _, copied in self._numbered(values, target.tokenizer)]
        return CopiedColumn(ids, RaggedIds.rows(copies))

    def _numbered(
        self, texts: Sequence[str], target: Tokenizer
    ) -> Iterator[tuple[dict[str, int], list[int]]]:
        """Own words of each text by name, and the target's ids of its tokens."""
        every, most = target.encode_all(list(texts)), self.most or None
        for row, names in zip(every, target.words_of_all(texts), strict=True):
            yield numbered(row[:most].tolist(), names, len(target))


class CopyingField(TextField):
    """A text that is written with words of another one beside its vocabulary.

    Its ids are those of the vocabulary, and those of the example's own words where the vocabulary
    lacks a word that the other text has.

    Args:
        source: the field that words are copied from, a `CopiedField`.
        settings: see `TextField`.
    """

    kind: ClassVar[str] = "copying-text"

    def __init__(self, *, source: str = "source", **settings: Any) -> None:
        super().__init__(**settings)
        self.source = source

    def encode(
        self, values: Sequence[Any], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> TextColumn:
        """The ids of all texts."""
        ids = self.tokenizer.encode_all(list(values))
        copied = fields[self.source]
        assert isinstance(copied, CopiedField)
        found = [row.tolist() for row in ids]
        places = [place for place, row in enumerate(found) if UNK in row]
        texts = [rows[self.source][place] for place in places]
        each = copied._numbered(texts, self.tokenizer)
        named = self.tokenizer.words_of_all(values[place] for place in places)
        for place, (own, _), names in zip(places, each, named, strict=True):
            found[place] = [
                own.get(name, UNK) if i == UNK else i
                for i, name in zip(found[place], names, strict=True)
            ]
        return TextColumn(RaggedIds.rows(found), end=self.end)
