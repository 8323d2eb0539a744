"""What is on one axis of a picture: the pieces of a text and their words, or other places."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.data.images.images import png
from regard.errors import RequestError, nearest
from regard.views.word_pieces import Named, from_pieces, from_tokenizer, is_marks, special_places

__all__ = ["KINDS", "Axis", "axis_of", "picture_axis"]

KINDS = ("text", "image", "audio", "nodes", "memory", "steps")
"""Text; regions of an image; frames of sound; nodes of a graph; entries of a memory; steps."""


@dataclass(frozen=True)
class Axis:
    """One axis, with everything that helps to read it.

    Args:
        pieces: the label of each place, as the model has it.
        kind: one of `KINDS`.
        groups: the places that make each word; none where every piece is a word.
        texts: the text of each word.
        special: places that are no text (end of sentence, padding): dimmed.
        grid: rows and columns of an image's regions (places go row by row).
        image: a PNG, JPEG or WebP file's bytes to lay them over, or a spectrogram.
        seconds: how long a frame of sound is.
        edges: pairs of places that are joined (graphs, dependencies).
        sections: the first place of each sentence (documents).
        audio: a WAV file's bytes: the sound, which a page plays.
        classes: the class of each node (graphs), "" where none is known.
    """

    pieces: list[str]
    kind: str = "text"
    groups: list[list[int]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    special: list[int] = field(default_factory=list)
    grid: tuple[int, int] | None = None
    image: bytes | None = None
    seconds: float | None = None
    edges: list[tuple[int, int]] = field(default_factory=list)
    sections: list[int] = field(default_factory=list)
    audio: bytes | None = None
    classes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = len(self.pieces)
        if self.kind not in KINDS:
            raise RequestError(
                f"no kind of axis is called {self.kind!r}; {nearest(self.kind, KINDS)}"
            )
        if self.groups and sorted(i for g in self.groups for i in g) != list(range(count)):
            raise RequestError("groups: expected every piece in exactly one word")
        if len(self.groups) != len(self.texts) or not all(self.groups):
            raise RequestError("texts: expected one for each word, and no word without pieces")
        flat = [*self.special, *self.sections, *(i for edge in self.edges for i in edge)]
        if any(not 0 <= i < count for i in flat):
            raise RequestError(f"an axis of {count} places was told of one that is not there")
        if self.classes and len(self.classes) != count:
            raise RequestError(
                f"classes: expected one for each of {count} places, got {len(self.classes)}"
            )
        if self.grid is not None and self.grid[0] * self.grid[1] != count:
            raise RequestError(f"grid: {self.grid[0]} × {self.grid[1]} is not {count} places")

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def delimiters(self) -> list[int]:
        """Special tokens, and pieces that are punctuation."""
        marks = [i for i, p in enumerate(self.pieces) if p and is_marks(p.lstrip("▁Ġ#"))]
        return sorted({*self.special, *marks}) if self.kind == "text" else []

    def as_json(self) -> dict[str, Any]:
        """What is not the default; image and audio are kept apart."""
        made: dict[str, Any] = {"pieces": self.pieces, "kind": self.kind}
        for name in (
            "groups",
            "texts",
            "special",
            "grid",
            "seconds",
            "edges",
            "sections",
            "classes",
        ):
            if value := getattr(self, name):
                made[name] = value
        return made


def axis_of(labels: Any, count: int | None = None, *, row: int = 0) -> Axis:
    """An axis of whatever was given: an Axis, labels, a text of words apart by spaces, or nothing.

    Args:
        labels: also what a tokenizer of Hugging Face gave (a `BatchEncoding`), a
            `tokenizers.Encoding`, or a pair of a tokenizer and a text or ids.
        row: of a tokenizer's batch.

    Raises:
        RequestError: not as many labels as places.
    """
    if labels is None:
        made = Axis([str(i + 1) for i in range(count or 0)], "steps")
    elif isinstance(labels, Axis):
        made = labels
    elif isinstance(labels, str):
        made = axis_of(labels.split())
    elif (named := from_tokenizer(labels, row)) is not None:
        made = _of(named)
    elif hasattr(labels, "pieces"):  # `views.picture.WordPieces`
        plain = all(len(group) == 1 for group in labels.groups) and labels.texts == labels.pieces
        made = Axis(
            list(labels.pieces),
            groups=[] if plain else [list(g) for g in labels.groups],
            texts=[] if plain else list(labels.texts),
            special=special_places(labels.pieces),
        )
    else:
        try:
            made = _of(from_pieces([str(label) for label in labels]))
        except TypeError:
            raise RequestError(f"labels: expected a list of texts, got {labels!r:.80}") from None
    if count is not None and len(made) != count:
        raise RequestError(f"expected {count} labels for {count} places, got {len(made)}")
    return made


def _of(named: Named) -> Axis:
    return Axis(named.pieces, groups=named.groups, texts=named.texts, special=named.special)


def picture_axis(pixels: np.ndarray, grid: Sequence[int]) -> Axis:
    """The regions of a picture (H, W, C) that lie in a grid, row by row, with the picture."""
    high, wide = (int(side) for side in grid)
    names = [f"{x + 1}, {y + 1}" for y in range(high) for x in range(wide)]
    return Axis(
        names,
        "image",
        groups=[[i] for i in range(len(names))],
        texts=names,
        grid=(high, wide),
        image=png(pixels),
    )
