"""bAbI stories: numbered lines, facts and questions; numbers begin again with each story.

1 Mary went home.
2 Where is Mary? <tab> home <tab> 1
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.lines import lines
from regard.data.files.row import Column, Row
from regard.data.formats.base import check_columns, one_file, whole_number
from regard.data.problems import Problems

__all__ = ["COLUMNS", "read"]

COLUMNS = ("story", "question", "answer", "support", "number")
"""What a question comes with: the facts before it (a line each), itself, its answer, the lines of
the facts that support it, and the number of its story in the file, from 1."""


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read a file of stories, a row for each question; `header` has no meaning here.

    Raises:
        RequestError: no such file, or a column that is not in `COLUMNS`.
    """
    path = one_file(path, "a bAbI file is one file of stories")
    check_columns(f"{path}: bAbI stories", columns, COLUMNS)
    file, facts, number, before = str(path), list[str](), 0, 0
    for line, text in lines(path, problems):
        if text is None:
            continue
        if not text.strip():
            problems.add(file, line, "empty")
            continue
        count, _, rest = text.lstrip().partition(" ")
        told = whole_number(count)
        if told is None or not rest.strip():
            problems.add(file, line, "not a numbered line", f"it begins {text.strip()[:20]!r}")
            continue
        if number == 0 or told <= before:
            facts, number = [], number + 1
        before = told
        if "\t" not in rest:
            facts.append(rest.strip())
            continue
        question, answer, *support = (cell.strip() for cell in rest.split("\t"))
        if not question or not answer:
            what = "question" if not question else "answer"
            problems.add(file, line, f"lacks a{'n' if what == 'answer' else ''} {what}")
            continue
        found = ("\n".join(facts), question, answer, " ".join(support), str(number))
        values = dict(zip(COLUMNS, found, strict=True))
        yield Row({field: values[str(column)] for field, column in columns.items()}, file, line)
    problems.report(file)
