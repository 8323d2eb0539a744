"""Records of cells: TSV, and CSV whose delimiter and quotes are found out."""

import csv
import io
import logging
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.data.files.lines import LONGEST, Line, lines, lines_of
from regard.data.files.packing import _opened
from regard.data.files.row import Column, Row
from regard.data.problems import Problems
from regard.data.text.normal_form import composed
from regard.errors import RequestError, nearest

__all__ = [
    "CSV",
    "SAMPLE",
    "TSV",
    "CellRow",
    "Dialect",
    "detected",
    "dialect_of",
    "records",
    "rows",
    "written",
]

log = logging.getLogger(__name__)

SAMPLE = 50
"""Lines that tell the delimiter and the quotes of a file."""
LONE: tuple[str, str] = ("lone carriage return", "lines end with \\n or \\r\\n")
MOST = 1000
"""Lines of one record: a quote that is never closed costs its own record, not the file."""

csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # the module's one limit for all


class Dialect(NamedTuple):
    r"""How cells are divided.

    Args:
        delimiter: between two cells.
        quote: around a cell with delimiters or line ends in it; "": there is none (TSV).
        escape: before a quote within such a cell; "": a quote is doubled there.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""

    def __str__(self) -> str:
        shown = {"\t": "tab"}.get(self.delimiter, repr(self.delimiter))
        inside = f", {self.escape!r} before a quote in a cell" if self.escape else ""
        return f"delimiter {shown}, quote {self.quote!r}{inside}"

    def reader(self, given: Iterable[str]) -> Iterator[list[str]]:
        """The records of some lines, by Python's `csv`."""
        return csv.reader(
            given,
            delimiter=self.delimiter,
            quotechar=self.quote,
            strict=True,
            escapechar=self.escape or None,
        )


CSV, TSV = Dialect(), Dialect("\t", "")

_CANDIDATES = [
    Dialect(delimiter, quote, escape)
    for quote, escape in (('"', ""), ('"', "\\"), ("'", ""))
    for delimiter in (",", ";", "\t", "|")
]


class CellRow(NamedTuple):
    """The cells of a row.

    Args:
        line: where it begins, from 1.
        what, detail: why it cannot be read; "" where it can.
    """

    line: int
    cells: list[str]
    what: str = ""
    detail: str = ""


def records(given: Iterator[Line], dialect: Dialect) -> Iterator[CellRow]:
    """The records of lines; one that is broken costs itself alone."""
    numbered = enumerate(given, 1)
    if dialect.quote:
        yield from _quoted(numbered, dialect)
        return
    for number, line in numbered:
        if line.refused:
            yield CellRow(number, [], line.refused)
        elif "\r" in line.text:
            yield CellRow(number, [], *LONE)
        else:
            yield CellRow(number, line.text.split(dialect.delimiter))


def _quoted(numbered: Iterator[tuple[int, Line]], dialect: Dialect) -> Iterator[CellRow]:
    again: deque[tuple[int, Line]] = deque()  # lines behind the first of a broken record
    while (first := again.popleft() if again else next(numbered, None)) is not None:
        number, line = first
        if line.refused:
            yield CellRow(number, [], line.refused)
            continue
        taken: list[tuple[int, Line]] = []

        def following(
            text: str = line.text, taken: list[tuple[int, Line]] = taken
        ) -> Iterator[str]:
            yield text + "\n"
            while (one := again.popleft() if again else next(numbered, None)) is not None:
                taken.append(one)
                if one[1].refused or len(taken) > MOST:
                    raise csv.Error("a quote that is not closed")
                yield one[1].text + "\n"

        try:
            cells = next(dialect.reader(following()))
        except csv.Error as error:
            again.extendleft(reversed(taken))
            yield CellRow(number, [], *_said(str(error), dialect))
        else:
            yield CellRow(number, cells or [""])


def _said(error: str, dialect: Dialect) -> tuple[str, str]:
    """The kind and the particulars of what `csv` says."""
    if "new-line character" in error:
        return LONE
    if "unexpected end" in error or "not closed" in error:
        return "broken quotes", f"{dialect.quote} is opened and not closed"
    return "broken quotes", error


def written(cells: Sequence[str], dialect: Dialect) -> str:
    """The line of a record, without its end; a cell may have line ends where there are quotes.

    Example:
        >>> written(["a, b", "c"], CSV)
        '"a, b",c'
    """
    if not dialect.quote:
        return dialect.delimiter.join(cells)
    out = io.StringIO()
    csv.writer(
        out,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        lineterminator="",
        doublequote=not dialect.escape,
        escapechar=dialect.escape or None,
    ).writerow(cells)
    return out.getvalue()


def detected(sample: Sequence[str], given: Mapping[str, str] | None = None) -> Dialect:
    r"""The dialect of some lines from the beginning of a file.

    It is the one by which most records have as many cells as the first, and more than one.

    Args:
        given: one that is taken if it divides the first line.

    Example:
        >>> detected(["text;label", '"good; really, good";1']).delimiter
        ';'
    """
    told = Dialect(**given) if given else None
    if told and next(iter(_widths(sample, told)), 0) > 1:
        return told
    single = bool(sample) and sample[0].startswith("'")
    escaped = any('\\"' in line for line in sample)  # then it decides where both ways divide alike
    best, found = (0.0, 0), told or CSV
    for one in sorted(_CANDIDATES, key=lambda one: bool(one.escape) != escaped):
        if single != (one.quote == "'"):
            continue
        widths = _widths(sample, one)
        if widths and widths[0] > 1:
            score = (sum(width == widths[0] for width in widths) / len(widths), widths[0])
            if score > best:
                best, found = score, one
    return found


def _widths(sample: Sequence[str], dialect: Dialect) -> list[int]:
    """Cells of each record, 0 for one that is broken; blank lines are left out.

    The last one may end behind the sample.
    """
    every = list(records(map(Line, sample), dialect))
    if len(every) > 1 and every[-1].what:
        del every[-1]
    return [len(one.cells) for one in every if one.cells != [""]]


def dialect_of(path: str | Path, given: Mapping[str, str] | None = None) -> Dialect:
    """The dialect of a CSV file, which is said once.

    Args:
        given: see `detected`. Standard input, which is read once, has this or the usual one.
    """
    if str(path) == "-":
        return Dialect(**given) if given else CSV
    try:
        found = Path(path).stat()
    except OSError:
        return CSV  # its reader says what is wrong
    return _dialect_of(
        str(path), (found.st_mtime_ns, found.st_size), tuple(sorted((given or {}).items()))
    )


@lru_cache(maxsize=256)
def _dialect_of(path: str, changed: tuple[int, ...], given: tuple[tuple[str, str], ...]) -> Dialect:
    with _opened(path) as file:
        try:
            sample = [line.text for line in islice(lines_of(file.readline), SAMPLE)]
        except (OSError, EOFError):
            return CSV
    found = detected(sample, dict(given))
    log.info("%s: %s", path, found)
    return found


def rows(
    path: str | Path,
    columns: Mapping[str, Column],
    dialect: Dialect,
    header: bool,
    problems: Problems,
) -> Iterator[Row]:
    """The rows of a file of cells; what is wrong with one is reported, and it is left out."""
    file = str(path)
    found = _cells(path, dialect, problems)
    heading: list[str] = []
    if header:
        _, cells, what, detail = next(found, (1, [""], "", ""))
        if what and what != _REPORTED:
            raise RequestError(f"{file}:1: the heading line has a {what} ({detail})")
        heading = [composed(cell) for cell in cells] or [""]
    places = {field: _place(file, field, column, heading) for field, column in columns.items()}
    least, most = max(places.values(), default=-1) + 1, len(heading) or sys.maxsize
    for line, cells, what, detail in found:
        if what:
            if what != _REPORTED:
                problems.add(file, line, what, detail)
        elif not any(map(str.strip, cells)):
            problems.add(file, line, "empty")
        elif len(cells) < least:
            said = f"{len(cells)} columns, at least {least} expected"
            problems.add(file, line, "lacks a column", said)
        elif len(cells) > most and any(map(str.strip, cells[most:])):
            problems.add(file, line, "too many columns", f"{len(cells)} columns, {most} expected")
        else:
            yield Row({field: cells[at] for field, at in places.items()}, file, line)
    problems.report(file)


_REPORTED = "reported"


def _cells(
    path: str | Path, dialect: Dialect, problems: Problems
) -> Iterator[tuple[int, list[str], str, str]]:
    """The records of a file; of lines that cannot be read, `lines` tells."""
    given = lines(path, problems)
    if dialect.quote:
        whole = (Line("", _REPORTED) if text is None else Line(text) for _, text in given)
        yield from records(whole, dialect)
        return
    for number, text in given:  # without an object for each line: training files are large
        if text is None:
            yield number, [], _REPORTED, ""
        elif "\r" in text:
            yield number, [], *LONE
        else:
            yield number, text.split(dialect.delimiter), "", ""


def _place(file: str, field: str, column: Column, heading: list[str]) -> int:
    """Where a column stands, from 0."""
    if isinstance(column, str) and column in heading:
        if heading.count(column) > 1:
            same = " and ".join(str(i) for i, name in enumerate(heading, 1) if name == column)
            raise RequestError(
                f"{file}:1: columns {same} are both named {column!r}, for {field!r}: give the "
                f"number of one, e.g. columns: {{{field}: {heading.index(column) + 1}}}"
            )
        return heading.index(column)
    if str(column).isdecimal():
        at = int(column) - 1
        if at < 0:
            raise RequestError(f"column {column} for {field!r}: columns are counted from 1")
        if heading and at >= len(heading):
            raise RequestError(
                f"{file}:1: there is no column {column} for {field!r}; it has {len(heading)}"
            )
        return at
    if not heading:
        raise RequestError(
            f"{file}: without a heading line (header: false) columns are numbers from 1, "
            f"not {column!r} for {field!r}"
        )
    names = ", ".join(repr(name) for name in heading)
    known = [" ".join(name.split()) for name in heading]  # a cell may have line ends
    raise RequestError(
        f"{file}:1: there is no column {column!r} for {field!r}; the heading line has {names} "
        f"({nearest(str(column), known)}); for a file without heading line say header: false"
    )
