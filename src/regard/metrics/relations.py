"""Scores of relations between concepts: of whole documents, with and without hypernyms."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np

from regard.data.files.packing import text_lines
from regard.errors import RequestError
from regard.metrics._tables import f1, precision, recall, scored
from regard.metrics.multilabel import counts_of_sets
from regard.metrics.score import Score, Sums, signature

__all__ = ["hypernyms", "read_tree", "relation_scores", "without_hypernyms"]

Key = tuple[str, str, str]
"""A relation: its type, its head, its tail."""


def relation_scores(
    outputs: Sequence[Collection[Hashable]],
    references: Sequence[Collection[Hashable]],
    *,
    prefix: str = "",
) -> dict[str, Score]:
    r"""Precision, recall and F1 over the relations of all documents, in percent.

    .. math:: P = \frac{TP}{TP + FP}, \quad R = \frac{TP}{TP + FN}, \quad F_1 = \frac{2PR}{P + R}

    A relation counts once a document, however often it is said. P is 0 where nothing was found, R
    where nothing was there, and F1 where nothing is right. This is the score of BioCreative V, task
    3 (CDR), document level.

    Args:
        prefix: put before the names of the scores.

    Raises:
        RequestError: nothing to score, or unequal numbers.

    Example:
        >>> found = relation_scores([{("CID", "c", "d")}], [{("CID", "c", "d"), ("CID", "c", "e")}])
        >>> {name: round(score.value, 1) for name, score in found.items()}
        {'f1': 66.7, 'precision': 100.0, 'recall': 50.0}
    """
    counts = counts_of_sets(outputs, references)
    right, false, missed = counts.sum(0).tolist()
    parts = {"right": right, "false": false, "missed": missed}
    sums = counts.astype(np.float64)
    found = {"f1": f1, "precision": precision, "recall": recall}
    return {
        prefix + name: scored(
            prefix + name,
            Sums(sums, of),
            signature(metric=f"relation_{prefix}{name}", level="document"),
            parts,
            0,
        )
        for name, of in found.items()
    }


def read_tree(path: str | Path) -> dict[str, tuple[str, ...]]:
    """The places of concepts in a tree, as MeSH has them: `D006973 <tab> C14.907.489`.

    A concept that stands at several places has a line for each. Lines that begin with # are notes.

    Raises:
        RequestError: no such file, or a line of another form.
    """
    found: dict[str, tuple[str, ...]] = {}
    try:
        told = text_lines(Path(path).read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path}: the tree of concepts cannot be read: {error}") from None
    for number, line in enumerate(told, 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != 2 or not all(cell.strip() for cell in cells):
            raise RequestError(
                f"{path}:{number}: expected a concept, a tab and its place in the tree "
                f"(C14.907.489), got {line[:60]!r}"
            )
        name, place = (cell.strip() for cell in cells)
        found[name] = (*found.get(name, ()), place)
    return found


def hypernyms(
    pairs: Collection[Key], true: Collection[Key], tree: Mapping[str, Sequence[str]]
) -> set[Key]:
    """Those of some pairs that say a true relation of something more general.

    A pair is one where it is not true, and its tail stands above the tail of a true relation of the
    same type and head. A place stands above those that begin with it and a dot.

    Example:
        >>> tree = {"heart": ["C14"], "failure": ["C14.280"], "rash": ["C17"]}
        >>> said = {("CID", "c", "heart"), ("CID", "c", "rash")}
        >>> hypernyms(said, {("CID", "c", "failure")}, tree)
        {('CID', 'c', 'heart')}
    """
    below: dict[tuple[str, str], list[str]] = {}
    for kind, head, tail in true:
        below.setdefault((kind, head), []).extend(tree.get(tail, ()))
    return {
        (kind, head, tail)
        for kind, head, tail in pairs
        if (kind, head, tail) not in true
        and any(
            place.startswith(above + ".")
            for above in tree.get(tail, ())
            for place in below.get((kind, head), ())
        )
    }


def without_hypernyms(
    outputs: Sequence[Collection[Key]],
    references: Sequence[Collection[Key]],
    tree: Mapping[str, Sequence[str]],
) -> list[set[Key]]:
    """The outputs of each document without the hypernyms of what is true there."""
    return [
        set(said) - hypernyms(said, true, tree)
        for said, true in zip(outputs, references, strict=True)
    ]
