"""Bracketed trees as treebanks write them: Penn Treebank files, or one tree a line.

    (TOP (S (NP (PRP I)) (VP (VBP see))))          one line

    ( (S (NP-SBJ (PRP I))                          several: the ones behind the first are indented
         (VP (VBP see))) )

A line that begins with '(' begins a tree; one that begins with '#', '%' or '*' between two trees is
a comment (the heads of the old Penn files are of stars). Columns: `words`, divided by blanks, and
`tree`, on one line, without traces and function tags.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.annotations.trees import Tree, cleaned
from regard.data.files.lines import LONGEST, lines
from regard.data.files.row import Column, Row
from regard.data.formats.base import check_columns, one_file
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["COLUMNS", "read"]

COLUMNS = ("words", "tree")
_COMMENTS = ("#", "%", "*")


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read trees, each with the line that it begins at; `header` has no meaning here.

    What is not a tree is reported at that line and left out.

    Raises:
        RequestError: a column that the format does not have, or not one tree in the file.
    """
    path = one_file(path, "a file of trees is one file")
    check_columns("trees", columns, COLUMNS)
    file, number, found = str(path), 0, False
    for number, text in _texts(path, problems):
        try:
            tree = cleaned(Tree.parse(text))
        except RequestError as error:
            problems.add(file, number, "not a tree", str(error).removeprefix("not a tree: "))
            continue
        found = True
        own = {"words": " ".join(tree.words()), "tree": str(tree)}
        yield Row({field: own[str(column)] for field, column in columns.items()}, file, number)
    problems.report(file)
    if number and not found:
        raise RequestError(f"{file}: there is not one tree in it, as (TOP (S (NP (PRP I)) …))")


def _texts(path: str | Path, problems: Problems) -> Iterator[tuple[int, str]]:
    """The text of each tree and its first line: from a line that begins it to its last bracket."""
    start, parts, depth, size, number = 0, list[str](), 0, 0, 0
    for number, line in lines(path, problems):
        if line is None or not line.strip():
            continue
        if line.startswith("(") and parts:  # the tree before lacks a bracket: it ends here
            yield start, " ".join(parts)
            parts = []
        if not parts:
            if line.lstrip().startswith(_COMMENTS):
                continue
            start, depth, size = number, 0, 0
        parts.append(line)
        depth += line.count("(") - line.count(")")
        size += len(line)
        if depth <= 0:
            yield start, " ".join(parts)
            parts = []
        elif size > LONGEST:
            problems.add(str(path), start, "too long", f"more than {LONGEST:,} characters")
            parts = []
    if parts:
        yield start, " ".join(parts)
