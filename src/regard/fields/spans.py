"""Spans: pieces of a text, as places in it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import RequestError
from regard.fields.base import Bad, Field, Report
from regard.fields.text import TextField

__all__ = ["SpanColumn", "SpansField"]

_SPAN = re.compile(r"(\d+):(\d+)")

Span = tuple[int, int]


class SpanColumn:
    """The spans of each text: first and last token."""

    def __init__(self, spans: Sequence[NDArray[np.int64]]) -> None:
        self.spans = list(spans)

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """What is no sequence has size 1."""
        return np.ones(len(self), np.int64)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Every span counts."""
        return np.array([len(one) for one in self.spans], np.int64)

    def take(self, indices: NDArray[np.int64]) -> "SpanColumn":
        """Some of the texts' spans."""
        return SpanColumn([self.spans[i] for i in indices])

    def collate(self, indices: NDArray[np.int64]) -> Tensor:
        """(n, 3) int64: the row in the batch, the first and the last token."""
        own = [self.spans[i] for i in indices]
        rows = np.repeat(np.arange(len(own)), [len(one) for one in own])
        every = np.concatenate([*own, np.zeros((0, 2), np.int64)])
        return torch.from_numpy(np.concatenate([rows[:, None], every], 1).astype(np.int64))


class SpansField(Field):
    """Pieces of another field's text, `start:end` in characters, divided by blanks: `0:5 12:20`.

    The first character is 0; the end is behind the last one. A text may have no span.

    Args:
        of: the text that they are pieces of.
    """

    kind: ClassVar[str] = "spans"
    saved: ClassVar[bool] = False

    def __init__(self, of: str, *, target: bool = True) -> None:
        super().__init__(target=target, of=of)
        self._text = of

    def read(self, cell: str, row: Mapping[str, Any]) -> list[Span]:
        """Places in the text that are there."""
        length = len(row[self._text]) if self._text in row else None
        found = []
        for part in cell.split():
            match = _SPAN.fullmatch(part)
            if match is None:
                raise Bad("not a span", f"{part!r}; expected start:end")
            start, end = int(match[1]), int(match[2])
            if not start < end or (length is not None and end > length):
                raise Bad("not a span", f"{part} in a text of {length} characters")
            found.append((start, end))
        return found

    def written(self, value: Sequence[Span]) -> str:
        """Spans as they are read."""
        return " ".join(f"{start}:{end}" for start, end in value)

    def encode(
        self,
        values: Sequence[Sequence[Span]],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> SpanColumn:
        """The first and the last token that each span touches."""
        text = fields[self._text]
        if not isinstance(text, TextField):
            raise RequestError(f"spans are pieces of a text; {self.of!r} is not a text")
        found = []
        for i, value in enumerate(values):
            places = text.cut(rows[self._text][i]).offsets if value else []
            own = []
            for start, end in value:
                touched = [k for k, (a, b) in enumerate(places) if a < end and b > start]
                if touched:
                    own.append((touched[0], touched[-1]))
                else:
                    report(i, "empty span", f"{start}:{end} has no token")
            found.append(np.array(own, np.int64).reshape(-1, 2))
        return SpanColumn(found)
