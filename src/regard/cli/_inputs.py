"""What `regard predict` reads: texts given, lines of a file, or what a pipe brings."""

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli._common import say
from regard.data.files.lines import Line, lines_of
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["inputs_of", "joined", "lines_in", "plain_lines"]

CONTROLS = {*range(32)} - set(b"\t\n\v\f\r\x1b")
"""Bytes that no text has."""
LINES = ("tsv", "csv", "jsonl", "json")
"""Formats whose rows are read with the columns that files of inputs may have."""
ALIKE = {("conll2005", "conll")}
"""Formats of a training that a file of another one's ending has."""
LARGEST = 1 << 28
"""Bytes of a file from a pipe that are read."""


def inputs_of(
    loaded: "Loaded",
    texts: Sequence[str] | None = None,
    source: str | None = None,
    columns: Mapping[str, str | int] | None = None,
) -> Iterator[Line]:
    """The inputs, one after another: texts, a file, or standard input.

    A file of rows is read as in training, by the table of formats: `.tsv`, `.csv`, `.jsonl`,
    `.json`, `.conll` and others, packed or not; its inputs are in the columns where `regard
    predict -o` finds them. Other files are lines of text, an input each.

    Args:
        source: a file, or "-": standard input.
        columns: the columns of inputs, where they are said.

    Raises:
        RequestError: the file cannot be read to its end; or columns are said, and it has none.
    """
    from regard.inference.records import TEXT, kind_of  # numpy, which --help does without

    kind = TEXT if texts or source in {None, "-"} else kind_of(str(source))
    if kind not in LINES and (loaded.task.reads_files or _joins(loaded)):
        kind = TEXT
    if columns and kind == TEXT:
        raise RequestError(
            "--columns: it says which column of a data file is what; expected --into, -o, or a file"
            " of rows (.csv, .tsv, .jsonl)"
        )
    if texts and texts != ["-"]:
        each = map(_given, texts) if loaded.task.reads_files else plain_lines(texts)
        return joined(each, loaded.task.join)
    if source is None or source == "-":
        return joined(_standard(loaded.task.reads_files), loaded.task.join)
    if kind == TEXT:  # an input may be several lines
        return joined(_of_file(Path(source), loaded.task.reads_files), loaded.task.join)
    return _of_rows(Path(source), kind, loaded, columns or {})


def plain_lines(texts: Sequence[str] | None) -> Iterator[Line]:
    """Texts that were given, or the lines of standard input where there are none."""
    if not texts or texts == ["-"]:
        yield from _standard(False)
        return
    for text in texts:
        if os.path.isfile(text):
            say(f"{text} is taken as a text; the file of that name is read by -i {text}")
        yield _given(text)


def lines_in(path: str) -> Iterator[Line] | None:
    """The lines of a file of texts or of standard input, "-"; None of a file of rows."""
    from regard.data.files.registry import format_of

    if path == "-":
        return _standard(False)
    return _of_file(Path(path), False) if format_of(path, {".txt": "moses"}) == "moses" else None


def _joins(loaded: "Loaded") -> bool:
    """Whether an input of the task is several lines of a file."""
    from regard.tasks import Task

    return type(loaded.task).join is not Task.join


def _standard(files: bool) -> Iterator[Line]:
    if sys.stdin.isatty():
        say("reading from the terminal, one input a line; Ctrl-D ends")
    if not files:
        yield from lines_of(sys.stdin.buffer.readline)
        return
    source: Any = io.BufferedReader(sys.stdin.buffer)
    try:
        url = _piped(source)
        yield from [Line(url)] if url else lines_of(source.readline)
    finally:
        source.detach()  # standard input stays open


def _of_file(path: Path, files: bool) -> Iterator[Line]:
    """Lines of a file; where inputs are files themselves, it may be one of those."""
    from regard.data.files import packing
    from regard.data.files.registry import packing_of

    suffix = packing_of(path)
    packing.check(suffix)
    if files and not suffix:
        with path.open("rb") as file:
            if not _is_text(file.peek()):
                yield Line(str(path))
                return
    path.open("rb").close()  # a missing file is told of as everywhere
    try:
        with packing.reading(path, suffix) as packed:
            yield from lines_of(packed.readline)
    except packing.Unreadable as error:
        raise RequestError(f"{path}: {error}") from error


def _of_rows(
    path: Path, kind: str, loaded: "Loaded", columns: Mapping[str, str | int]
) -> Iterator[Line]:
    """The inputs of the rows of a file."""
    from regard.data.files.packing import Unreadable
    from regard.data.problems import Problems
    from regard.inference.records import form_of

    if kind not in LINES:
        yield from _of_format(path, kind, loaded, columns)
        return
    form = form_of(
        kind, loaded.task, loaded.config, columns, as_json=False, align=False, fields=loaded.fields
    )
    try:
        if kind == "json":
            from regard.data.formats.json import objects

            items: Iterator[Any] = (form.item(value) for _, value in objects(path, Problems()))
        else:
            items = form.items(_of_file(path, False))
        for item in items:
            if not item.heading:
                yield Line(item.text, item.refused)
    except Unreadable as error:
        raise RequestError(f"{path}: {error}") from error


def _of_format(
    path: Path, kind: str, loaded: "Loaded", columns: Mapping[str, str | int]
) -> Iterator[Line]:
    """The inputs of a file in any format that training reads."""
    from regard.data.files.registry import columns_of, read
    from regard.data.problems import Problems
    from regard.data.text.cells import BETWEEN
    from regard.fields.sets import sides

    section = loaded.config.get("data") or {}
    usual = section.get("format")
    if usual and (usual, kind) in ALIKE:
        kind = usual
    names = sides(loaded.task.fields())[0]
    same = columns_of(kind)
    found = {**loaded.task.columns, **(section.get("columns") or {}), **columns}
    wanted = {name: found.get(name, name) for name in names}
    if same and not columns:  # the training may have been in another format
        wanted = {n: c if c in same else n for n, c in wanted.items()}
    lists = [name for name in names if loaded.fields[name].lists]
    for row in read(path, wanted, kind, True, Problems(), lists):
        cells = []
        for name in names:
            cell = row.fields[name]
            cells.append(cell if isinstance(cell, str) else loaded.fields[name].listed(cell))
        yield Line(f" {BETWEEN} ".join(cells))


def _is_text(begins: bytes) -> bool:
    """Whether what begins so can be lines of text, in whatever encoding."""
    return not (set(begins) & CONTROLS)


def _piped(source: io.BufferedReader) -> str:
    """A file that comes from a pipe as a `data:` URL; "" where lines of text come."""
    import base64

    if _is_text(source.peek()):
        return ""
    return f"data:;base64,{base64.b64encode(source.read(LARGEST)).decode()}"


def _given(text: str) -> Line:
    """A text of the command line; its bytes may be no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return Line(os.fsencode(text).decode("utf-8", "replace"), "not UTF-8")
    return Line(text)


def joined(lines: Iterator[Line], join: Callable[[Iterator[str]], Iterator[str]]) -> Iterator[Line]:
    """Inputs of several lines, as the task joins them; refused lines stay by themselves."""
    refused: list[Line] = []

    def good() -> Iterator[str]:
        for line in lines:
            if line.refused:
                refused.append(line)
            else:
                yield line.text

    for text in join(good()):
        yield from refused
        refused.clear()
        yield Line(text)
    yield from refused
