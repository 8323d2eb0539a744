"""A folder of text files, each with its summary beside it: `name.txt` and `name.summary`.

Paragraphs and lines stay as they are. A row stands on line 1 of its text file.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.lines import LONGEST
from regard.data.files.row import Column, Row
from regard.data.formats.base import check_columns
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["COLUMNS", "SUMMARY", "read"]

COLUMNS = ("text", "summary", "name")
"""What a row has: both files, and their common name."""
SUMMARY = ".summary"
"""How the names of summaries end."""


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read the pairs of a folder in the order of their names.

    A text without a summary, a summary without a text and a file that is not UTF-8 are reported and
    left out. Files with other endings are ignored.

    Args:
        path: the folder.
        columns: for each field one of `COLUMNS`.
        header: not used.

    Raises:
        RequestError: no such folder, none of its files is a text, or an unknown column.
    """
    check_columns("folders of text pairs", columns, COLUMNS)
    folder = Path(str(path))
    if isinstance(path, Mapping) or not folder.is_dir():
        raise RequestError(
            f"data.format=text-pairs reads a folder of name.txt and name.summary; {path} is not "
            "a folder"
        )
    texts = {one.stem: one for one in folder.glob("*.txt")}
    summaries = {one.stem: one for one in folder.glob(f"*{SUMMARY}")}
    if not texts:
        raise RequestError(f"{folder} has no file that ends in .txt")
    for name in sorted(texts.keys() | summaries.keys()):
        there = texts.get(name) or summaries[name]
        if name not in texts or name not in summaries:
            missing = f"{name}{SUMMARY}" if name in texts else f"{name}.txt"
            problems.add(str(there), 1, "one of two files", f"there is no {missing}")
            continue
        found = {"name": name}
        for column, file in (("text", texts[name]), ("summary", summaries[name])):
            try:
                with file.open("rb") as opened:
                    raw = opened.read(LONGEST + 1)
                if len(raw) > LONGEST:
                    problems.add(str(file), 1, "too long", f"more than {LONGEST:,} bytes")
                    break
                found[column] = raw.decode("utf-8-sig").replace("\r\n", "\n")
            except UnicodeDecodeError:
                problems.add(str(file), 1, "not UTF-8")
                break
            except OSError as error:
                raise RequestError(f"{file} cannot be read: {error.strerror}") from None
        else:
            yield Row({field: found[str(c)] for field, c in columns.items()}, str(there), 1)
