"""What is on one axis of a picture: the pieces of a text and their words, or other places.

Words are joined as tokenizers write them (`▁the`, `Ġthe`, `##ing`, `th@@ e`); special tokens are
told by their brackets (`[CLS]`, `</s>`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import RequestError, nearest

__all__ = ["KINDS", "Axis", "axis_of"]

KINDS = ("text", "image", "audio", "nodes", "memory", "steps")
"""Text; regions of an image; frames of sound; nodes of a graph; entries of a memory; steps."""

SPECIAL = re.compile(r"\[[A-Z]+\d*\]|<[^<>\s]{1,24}>")
MARKS = frozenset(".,;:!?…\"'()[]{}«»„“”‚‘’¿¡、。，！？·؛،؟-–—")


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
        if self.grid is not None and self.grid[0] * self.grid[1] != count:
            raise RequestError(f"grid: {self.grid[0]} × {self.grid[1]} is not {count} places")

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def delimiters(self) -> list[int]:
        """Special tokens, and pieces that are punctuation."""
        marks = [i for i, p in enumerate(self.pieces) if set(p.lstrip("▁Ġ#")) <= MARKS and p]
        return sorted({*self.special, *marks}) if self.kind == "text" else []

    def as_json(self) -> dict[str, Any]:
        """What is not the default; the image is kept apart."""
        made: dict[str, Any] = {"pieces": self.pieces, "kind": self.kind}
        for name in ("groups", "texts", "special", "grid", "seconds", "edges", "sections"):
            if value := getattr(self, name):
                made[name] = value
        return made


def axis_of(labels: Any, count: int | None = None) -> Axis:
    """An axis of whatever was given: an Axis, labels, a text of words apart by spaces, or nothing.

    Raises:
        RequestError: not as many labels as places.
    """
    if labels is None:
        made = Axis([str(i + 1) for i in range(count or 0)], "steps")
    elif isinstance(labels, Axis):
        made = labels
    elif isinstance(labels, str):
        made = axis_of(labels.split())
    elif hasattr(labels, "pieces"):  # `views.picture.WordPieces`
        plain = all(len(group) == 1 for group in labels.groups) and labels.texts == labels.pieces
        made = Axis(
            list(labels.pieces),
            groups=[] if plain else [list(g) for g in labels.groups],
            texts=[] if plain else list(labels.texts),
            special=_special(labels.pieces),
        )
    else:
        pieces = [str(label) for label in labels]
        groups = _groups(pieces)
        texts = ["".join(_bare(pieces[i]) for i in group) for group in groups]
        plain = texts == pieces
        made = Axis(
            pieces, groups=[] if plain else groups, texts=[] if plain else texts,
            special=_special(pieces),
        )  # fmt: skip
    if count is not None and len(made) != count:
        raise RequestError(f"expected {count} labels for {count} places, got {len(made)}")
    return made


def _special(pieces: Sequence[str]) -> list[int]:
    return [i for i, piece in enumerate(pieces) if SPECIAL.fullmatch(piece)]


def _groups(pieces: Sequence[str]) -> list[list[int]]:
    starts = any(piece[:1] in ("▁", "Ġ") for piece in pieces)
    groups: list[list[int]] = []
    apart = True  # whether the next piece begins a word
    for i, piece in enumerate(pieces):
        special = bool(SPECIAL.fullmatch(piece))
        goes_on = piece.startswith("##") or (starts and piece[:1] not in ("▁", "Ġ"))
        goes_on = (goes_on and not apart) or (bool(groups) and pieces[i - 1].endswith("@@"))
        mark = set(_bare(piece)) <= MARKS
        if goes_on and not special and not mark:
            groups[-1].append(i)
        else:
            groups.append([i])
        apart = special or mark
    return groups


def _bare(piece: str) -> str:
    if piece.startswith("##") and len(piece) > 2:
        return piece[2:]
    if piece[:1] in ("▁", "Ġ") and len(piece) > 1:
        return piece[1:]
    return piece[:-2] if piece.endswith("@@") and len(piece) > 2 else piece
