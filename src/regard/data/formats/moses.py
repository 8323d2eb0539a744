"""Moses corpora: parallel files, line n of one belonging to line n of the other."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from regard.data.files.lines import lines
from regard.data.files.packing import PACKED
from regard.data.files.registry import unpacked_name
from regard.data.files.row import Column, Row
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["files", "read"]


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = False,
    problems: Problems,
) -> Iterator[Row]:
    """Read parallel files; `header` has no meaning here. See `formats.read`.

    Raises:
        RequestError: the files have different numbers of lines (told at the end of the shorter).
    """
    paths = files(path, columns)
    first = str(next(iter(paths.values())))
    counts = dict.fromkeys(paths, 0)
    for together in zip_longest(*(lines(p, problems) for p in paths.values())):
        for field, line in zip(paths, together, strict=True):
            counts[field] += line is not None
        cells = [line[1] for line in together if line is not None]
        texts = [text for text in cells if text is not None]
        number = max(counts.values())
        if len(texts) == len(paths):
            if not any(text.strip() for text in texts):
                problems.add(first, number, "empty")
                continue
            yield Row(dict(zip(paths, texts, strict=True)), first, number)
    for file in paths.values():
        problems.report(str(file))
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{paths[field]} has {count} lines" for field, count in counts.items())
        raise RequestError(f"parallel files must have as many lines as each other: {told}")


def files(
    path: str | Path | Mapping[str, str | Path], columns: Mapping[str, Column]
) -> dict[str, str | Path]:
    """The file of each field: as told, or the common name with the field's column as its ending.

    Raises:
        RequestError: a field without a file, or a file that is not there.
    """
    if isinstance(path, Mapping):
        missing = [field for field in columns if field not in path]
        if missing:
            raise RequestError(f"no file is named for {missing[0]!r}; named: {', '.join(path)}")
        return {field: path[field] for field in columns}
    found: dict[str, str | Path] = {}
    base = unpacked_name(path)
    for field, column in columns.items():
        tried = [Path(f"{base}.{column}{packed}") for packed in ("", *PACKED)]
        there = [p for p in tried if p.is_file()]
        if not there:
            raise RequestError(
                f"there is no file {tried[0]} (or .gz, .zst) for {field!r}; parallel files are "
                f"{base}.<column>, with columns: {{source: de, target: en}} for example"
            )
        found[field] = there[0]
    return found
