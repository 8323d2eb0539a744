"""A file copied with some of its lines changed."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from regard.data.files.lines import raw_lines
from regard.data.files.packing import writing
from regard.data.files.registry import packing_of
from regard.data.formats._column_blocks import Edit
from regard.data.text.normal_form import composed
from regard.errors import RequestError, nearest
from regard.system.files import replace_file

__all__ = ["rewritten"]

_MARK = b"\xef\xbb\xbf"


def rewritten(
    source: str | Path, target: Path, edits: Iterable[Edit], wanted: Collection[int]
) -> tuple[int, int]:
    """Copy `source` to `target` with the lines that `edits` change, in their order.

    Returns:
        How many of the rows are `wanted`, and how many are not.

    Raises:
        RequestError: a line that is wanted and names no row.
    """
    met: set[int] = set()
    others = 0

    def changes() -> Iterator[tuple[int, str | None]]:
        nonlocal others
        for rows, changed in edits:
            here = {row for row in rows if row in wanted}
            others += len(rows) - len(here)
            met.update(here)
            yield from changed.items()

    def write(path: Path) -> None:
        with writing(path, packing_of(target)) as file:
            for line in _copied(source, changes()):
                file.write(line)
        if missing := sorted(set(wanted) - met):
            raise RequestError(
                f"{source}:{missing[0]}: there is a prediction for this line, but no row: "
                f"{nearest(str(missing[0]), map(str, sorted(met)[:1000]))}"
            )

    replace_file(target, write)
    return len(met), others


def _copied(source: str | Path, changes: Iterator[tuple[int, str | None]]) -> Iterator[bytes]:
    """The bytes of each line, with another text where it changes; its end stays."""
    at, text = next(changes, (0, ""))
    for number, raw in enumerate(raw_lines(source), start=1):
        if number != at:
            yield raw
            continue
        if text is not None:
            mark = _MARK if number == 1 and raw.startswith(_MARK) else b""
            end = raw[len(raw.rstrip(b"\r\n")) :]
            body = raw[len(mark) : len(raw) - len(end)].decode("utf-8", "replace")
            if composed(text) == composed(body):  # the same in another normal form
                yield raw
            else:
                yield mark + text.encode().replace(b"\n", end or b"\n") + end
        at, text = next(changes, (0, ""))
    for _ in changes:  # rows are counted to the last
        pass
