"""Scores of relations between concepts: of whole documents, with and without hypernyms."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from pathlib import Path

from regard.errors import RequestError
from regard.metrics.labels import f1_of_counts
from regard.metrics.score import Score, signature

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
    where nothing was there. This is the score of BioCreative V, task 3 (CDR), document level.

    Args:
        prefix: put before the names of the scores.

    Raises:
        RequestError: nothing to score, or unequal numbers.

    Example:
        >>> found = relation_scores([{("CID", "c", "d")}], [{("CID", "c", "d"), ("CID", "c", "e")}])
        >>> {name: round(score.value, 1) for name, score in found.items()}
        {'f1': 66.7, 'precision': 100.0, 'recall': 50.0}
    """
    if len(outputs) != len(references):
        raise RequestError(
            f"expected as many references as outputs, got {len(references)} and {len(outputs)}"
        )
    if not outputs:
        raise RequestError("nothing to score: there are no documents")
    right = false = missed = 0
    for said, true in zip(map(set, outputs), map(set, references), strict=True):
        right += len(said & true)
        false += len(said - true)
        missed += len(true - said)
    parts = {"right": right, "false": false, "missed": missed}
    values = {
        "f1": f1_of_counts(right, false, missed),
        "precision": 100 * right / (right + false) if right + false else 0.0,
        "recall": 100 * right / (right + missed) if right + missed else 0.0,
    }
    return {
        prefix + name: Score(
            prefix + name, value, signature(metric=f"relation_{prefix}{name}", level="document"),
            parts,
        )
        for name, value in values.items()
    }  # fmt: skip


def read_tree(path: str | Path) -> dict[str, tuple[str, ...]]:
    """The places of concepts in a tree, as MeSH has them: `D006973 <tab> C14.907.489`.

    A concept that stands at several places has a line for each. Lines that begin with # are notes.

    Raises:
        RequestError: no such file, or a line of another form.
    """
    found: dict[str, tuple[str, ...]] = {}
    try:
        told = Path(path).read_text(encoding="utf-8-sig").splitlines()
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
