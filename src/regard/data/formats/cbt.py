"""The Children's Book Test's text format: numbered sentences, then a question with a blank.

    1 sentence
    …
    20 sentence
    21 a question with XXXXX <tab> answer <tab> <tab> one|other|…

A blank line, or the next line numbered 1, ends a question. Columns: `document` (a sentence a line),
`query`, `answer`, `candidates` (joined by "|"). Source: Hill et al. (2016), section 2.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.lines import lines
from regard.data.files.row import Column, Row
from regard.data.formats.base import check_columns, one_file
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["BLANK", "COLUMNS", "read"]

BLANK = "XXXXX"
"""What stands for the missing word."""

COLUMNS = ("document", "query", "answer", "candidates")


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read questions, each with the line of its query; `header` has no meaning here.

    A question that is broken is reported at the line of its query and left out.

    Raises:
        RequestError: a column that the format does not have, or not one question in the file.
    """
    path = one_file(path, "a CBT file is one file")
    check_columns("CBT files", columns, COLUMNS)
    file, story, found, number = str(path), list[str](), False, 0
    for number, text in lines(path, problems):
        if text is None or not text.strip():
            if text is not None and story:
                problems.add(file, number, "no question", f"{len(story)} sentences without one")
            story = []
            continue
        place, _, rest = text.partition(" ")
        if not place.isdecimal():
            problems.add(
                file, number, "not CBT", f"expected a number and a sentence: {text[:40]!r}"
            )
            continue
        if place.lstrip("0") == "1" and "\t" not in rest:
            story = []
        if "\t" not in rest:
            story.append(rest)
            continue
        fields, why = _question(story, rest)
        story = []
        if why:
            problems.add(file, number, "broken question", why)
            continue
        found = True
        yield Row({field: fields[str(column)] for field, column in columns.items()}, file, number)
    problems.report(file)
    if not found and number:
        raise RequestError(
            f"{file}: no question in {number} lines: expected '21 query with {BLANK}', a tab, the "
            "answer, two tabs, and candidates joined by '|'"
        )


def _question(story: list[str], rest: str) -> tuple[dict[str, str], str]:
    """(The fields, what is wrong with them)."""
    query, answer, *others = (part.strip() for part in rest.split("\t"))
    candidates = [c for c in (others[-1] if others else "").split("|") if c]
    fields = {
        "document": "\n".join(story),
        "query": query,
        "answer": answer,
        "candidates": "|".join(candidates),
    }
    if not story:
        return fields, "no sentence before it"
    if BLANK not in query.split():
        return fields, f"no {BLANK} in the query"
    if not answer:
        return fields, "no answer"
    if candidates and answer not in candidates:
        return fields, f"the answer {answer!r} is not one of the candidates"
    return fields, ""
