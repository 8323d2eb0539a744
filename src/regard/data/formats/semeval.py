"""Sentences with two marked words and their relation, as SemEval-2010 task 8 has them.

    1 <tab> "The <e1>fire</e1> was caused by <e2>lightning</e2>."
    Cause-Effect(e2,e1)
    Comment: …

A blank line ends an example; the comment may be missing. Columns: `text`, the sentence with its
marks; `relation`, `Name(e1,e2)`, `Name(e2,e1)` or `Other`; `number`; `comment`. Source: Hendrickx
et al. (2010), "SemEval-2010 Task 8: Multi-Way Classification of Semantic Relations Between Pairs
of Nominals".
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.row import Column, Row
from regard.data.formats._column_blocks import blocks
from regard.data.formats.base import check_columns, one_file
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["COLUMNS", "read"]

COLUMNS = ("text", "relation", "number", "comment")

_SENTENCE = re.compile(r"(\d+)\t(.*)")
_COMMENT = "Comment:"


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read examples, each with the line of its sentence; `header` has no meaning here.

    A sentence without a relation, and a line that belongs to no sentence, is reported and left out.

    Raises:
        RequestError: a column that the format does not have, or not one sentence in the file.
    """
    path = one_file(path, "a SemEval file is one file")
    check_columns("SemEval files", columns, COLUMNS)
    file, last, found = str(path), 0, False
    for block in blocks(path, problems):
        number, last = block[0].line, block[-1].line
        match = _SENTENCE.fullmatch(block[0].text)
        if match is None:
            problems.add(
                file,
                number,
                "not SemEval",
                f"expected a number, a tab and a sentence: {block[0].text[:40]!r}",
            )
            continue
        rest = [one.text.strip() for one in block[1:]]
        comments = [line for line in rest if line.startswith(_COMMENT)]
        relations = [line for line in rest if not line.startswith(_COMMENT)]
        if len(relations) != 1:
            problems.add(
                file,
                number,
                "no relation" if not relations else "several relations",
                "expected one line with it between the sentence and the comment",
            )
            continue
        text = match[2].strip()
        if len(text) > 1 and text[0] == text[-1] == '"':
            text = text[1:-1].strip()
        cells = {
            "text": text,
            "relation": relations[0],
            "number": match[1],
            "comment": " ".join(line.removeprefix(_COMMENT).strip() for line in comments),
        }
        found = True
        yield Row({field: cells[str(column)] for field, column in columns.items()}, file, number)
    problems.report(file)
    if not found and last:
        raise RequestError(
            f"{file}: no example in {last} lines: expected a number, a tab and a sentence with "
            "<e1>…</e1> and <e2>…</e2>, and its relation on the next line"
        )
