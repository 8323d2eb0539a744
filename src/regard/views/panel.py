"""The pictures that a view is made of: of its maps, of numbers with labels, tables and trees.

A panel says what is to be seen and nothing of how: terminal, figure and page each draw every kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.errors import RequestError, nearest

__all__ = [
    "KINDS",
    "LabeledSpan",
    "MapPanel",
    "Panel",
    "SpansPanel",
    "TablePanel",
    "TreeNode",
    "TreePanel",
    "ValuesPanel",
]

OF_MAPS: Mapping[str, str] = {
    "matrix": "rows look, columns are looked at",
    "heads": "every head as a small matrix",
    "lines": "lines between two texts",
    "arcs": "arcs over a text that looks at itself",
    "text": "words shaded by what a row looks at",
    "curves": "how spread each row is, and what each column got in all",
    "hops": "a table of what is looked at, a column for each hop",
    "pointer": "for each row what is made, what is copied, and from where",
    "features": "a strip for each feature",
    "image": "regions of an image",
    "sound": "frames of sound",
    "graph": "nodes and edges as wide as their weights",
    "neighbors": "one node and its neighbors, for each head",
    "compare": "two maps side by side, and their difference",
}
OF_VALUES: Mapping[str, str] = {
    "bars": "a bar for each label",
    "shaded": "words shaded by a number each",
}
KINDS: Mapping[str, str] = {
    **OF_MAPS,
    **OF_VALUES,
    "table": "rows of text",
    "tree": "labels with others below them",
    "spans": "a text with named stretches below it, and arcs from the word they belong to",
}
"""Every kind of panel, and what it shows."""


@dataclass(frozen=True)
class Panel:
    """One picture of a run.

    Args:
        kind: one of `KINDS`.
        title: in small letters above; what is shown, where it is not given.
        note: a sentence below.
    """

    kind: str
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.kind not in self.known():
            raise RequestError(
                f"no {type(self).__name__} is of the kind {self.kind!r}; "
                f"{nearest(self.kind, self.known())}"
            )

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """The kinds that this class has."""
        return tuple(KINDS)


@dataclass(frozen=True)
class MapPanel(Panel):
    """A picture of one map of the view.

    Args:
        map: its place in the view.
        heads: counted from 1; the mean of all where none is named.
        row: counted from 1: this row alone.
        rows, columns: places (of words where they are joined) that are shown, in order; all where
            none is named.
        other: of `compare`, the other map and its head.
    """

    map: int = 0
    heads: tuple[int, ...] = ()
    row: int | None = None
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    other: tuple[int, int | None] | None = None

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """Kinds of pictures of maps."""
        return tuple(OF_MAPS)


@dataclass(frozen=True)
class ValuesPanel(Panel):
    """A number for each label: probabilities of answers, weights of words.

    Args:
        labels, values: as many of the one as of the other.
    """

    labels: tuple[str, ...] = ()
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.labels) != len(self.values):
            raise RequestError(
                f"{self.kind}: expected a value for each of {len(self.labels)} labels, "
                f"got {len(self.values)}"
            )

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """Kinds of pictures of numbers."""
        return tuple(OF_VALUES)


@dataclass(frozen=True)
class TablePanel(Panel):
    """Rows of text below their columns' names.

    Args:
        columns: the names.
        cells: as many a row as there are columns.
    """

    kind: str = "table"
    columns: tuple[str, ...] = ()
    cells: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(len(row) != len(self.columns) for row in self.cells):
            raise RequestError(f"table: expected rows of {len(self.columns)} cells")

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """Tables alone."""
        return ("table",)


@dataclass(frozen=True)
class LabeledSpan:
    """A stretch of words with a name.

    Args:
        start, end: its first place and the one behind its last.
        value: how sure it is, from 0 to 1; None where nobody says.
    """

    start: int
    end: int
    label: str
    value: float | None = None


@dataclass(frozen=True)
class SpansPanel(Panel):
    """A text with named stretches: roles of a predicate, names, aspect terms.

    Args:
        words: of the text.
        spans: stretches; they may overlap.
        anchor: the word that they belong to, from 0; None: they belong to none.
    """

    kind: str = "spans"
    words: tuple[str, ...] = ()
    spans: tuple[LabeledSpan, ...] = ()
    anchor: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.words)
        if self.anchor is not None and not 0 <= self.anchor < count:
            raise RequestError(f"spans: expected a word of {count}, got anchor {self.anchor}")
        for one in self.spans:
            if not 0 <= one.start < one.end <= count:
                raise RequestError(
                    f"spans: expected a stretch of {count} words, got {one.start} to {one.end}"
                )

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """Texts with stretches alone."""
        return ("spans",)


@dataclass(frozen=True)
class TreeNode:
    """A label and what hangs from it."""

    label: str
    children: tuple["TreeNode", ...] = ()


@dataclass(frozen=True)
class TreePanel(Panel):
    """A tree: of constituents, of hypotheses.

    Args:
        root: the uppermost node.
    """

    kind: str = "tree"
    root: TreeNode = field(default_factory=lambda: TreeNode(""))

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """Trees alone."""
        return ("tree",)
