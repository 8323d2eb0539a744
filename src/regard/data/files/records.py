"""JSON objects, one per line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.files.lines import lines
from regard.data.problems import Problems
from regard.system.plain_json import read_json

__all__ = ["objects"]


def objects(path: str | Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and the object of each line; lines that hold none are reported."""
    file = str(path)
    for number, text in lines(path, problems):
        if text is None:
            continue
        if not text.strip():
            problems.add(file, number, "empty")
            continue
        try:
            value = read_json(text)
        except ValueError as error:
            problems.add(file, number, "not JSON", str(error))
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            problems.add(file, number, "not a JSON object", f"it is a {type(value).__name__}")
