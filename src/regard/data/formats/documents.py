"""Files of annotated documents: PubTator, BioC XML or JSON lines, read and written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from regard.data.annotations.documents import RelationDocument, as_line, from_json
from regard.data.files import records
from regard.data.files.registry import format_of
from regard.data.formats import bioc, pubtator
from regard.data.problems import Problems
from regard.errors import RequestError, nearest
from regard.system.plain_json import read_json

__all__ = [
    "READERS",
    "WRITERS",
    "blocks",
    "document_of",
    "documents_format",
    "read",
    "with_groups",
    "write",
]

Documents = Iterator[tuple[int, RelationDocument]]


def _objects(
    path: str | Path, problems: Problems
) -> Iterator[tuple[int, RelationDocument, dict[str, Any]]]:
    """The documents of JSON lines, each with its line and the whole object."""
    for number, value in records.objects(path, problems):
        try:
            found = from_json(value)
        except ValueError as error:
            problems.add(str(path), number, "broken document", str(error))
            continue
        if found.text.strip():
            yield number, found, value
        else:
            problems.add(str(path), number, "no text")


def _of_lines(path: str | Path, problems: Problems) -> Documents:
    for number, found, _ in _objects(path, problems):
        yield number, found
    problems.report(str(path))


READERS: Mapping[str, Callable[[str | Path, Problems], Documents]] = {
    "pubtator": pubtator.documents,
    "bioc": bioc.documents,
    "jsonl": _of_lines,
}
"""What a recipe may name as `data.format` where documents are annotated."""
WRITERS: Mapping[str, Callable[[Sequence[RelationDocument]], str]] = {
    "pubtator": pubtator.written,
    "bioc": bioc.written,
    "jsonl": lambda found: "".join(as_line(one) + "\n" for one in found),
}


def documents_format(path: str | Path) -> str:
    """The format that a file's name tells, packed or not: `.xml` BioC, `.jsonl`; else PubTator."""
    found = format_of(path, {".xml": "bioc"})
    return found if found in READERS else "pubtator"


def read(
    path: str | Path, format: str | None = None, problems: Problems | None = None
) -> Documents:
    """The documents of a file, each with the number of its line (in BioC: of the document).

    Args:
        format: a key of `READERS`; told from the file's name where not given.
        problems: takes what is wrong with single documents and lines.

    Raises:
        RequestError: no such file, an unknown format, or XML that is broken.
    """
    return _of(READERS, path, format)(path, Problems() if problems is None else problems)


def with_groups(
    path: str | Path, format: str | None, problems: Problems, by: str = ""
) -> Iterator[tuple[int, RelationDocument, str]]:
    """The documents of a file, each with its line and with what groups it.

    Args:
        by: `id`, or a key of JSON lines; "": documents with one text are a group.

    Raises:
        RequestError: as `read`, or no document has such a key.
    """
    if by in ("", "id"):
        for number, one in read(path, format, problems):
            yield number, one, one.id if by else one.text
        return
    if (format or documents_format(path)) != "jsonl":
        raise RequestError(f"data.split.by: documents of {path} have no {by!r}; expected id")
    known, missing, met = dict[str, None](), list[int](), False
    for number, one, value in _objects(path, problems):
        if by in value:
            met = True
            yield number, one, str(value[by])
        else:
            known.update(dict.fromkeys(value))
            missing.append(number)
    if not met:
        raise RequestError(f"data.split.by: {path} has no {by!r}: {nearest(by, known)}")
    for number in missing:
        problems.add(str(path), number, "lacks a column", repr(by))
    problems.report(str(path))


def write(documents: Sequence[RelationDocument], path: str | Path, format: str = "") -> None:
    """Write documents as PubTator, BioC XML or JSON lines, told as in `read`.

    Raises:
        RequestError: an unknown format, or a document that the format cannot hold.
    """
    told = _of(WRITERS, path, format)(documents)
    try:
        Path(path).write_text(told, encoding="utf-8", newline="\n")
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {error.strerror}") from error


def document_of(text: str) -> tuple[str, RelationDocument]:
    """What a user gave as one input, and its format: JSON, PubTator, or "" for a bare text.

    Raises:
        ValueError: it begins as JSON or PubTator and is broken.
    """
    if text.lstrip().startswith("{"):
        try:
            read = read_json(text)
        except ValueError as error:
            raise ValueError(f"it begins as JSON but is not valid: {error}") from None
        return "jsonl", from_json(read)
    if pubtator.TEXT.match(text.lstrip("\n")):
        return "pubtator", pubtator.parse(text.strip("\n").split("\n"))
    return "", RelationDocument("", text.strip())


def blocks(lines: Iterator[str]) -> Iterator[str]:
    """Single inputs of the lines of a file.

    The lines of a PubTator document are one; of BioC each document is one, as JSON.

    Raises:
        RequestError: the first line begins XML that is broken or has a document type.
    """
    block: list[str] = []
    for number, line in enumerate(lines):
        if not number and line.lstrip().startswith(("<?xml", "<collection")):
            raw = "\n".join([line, *lines]).encode()
            for _, one in bioc.parse(raw, "BioC", Problems()):
                yield as_line(one)
            return
        if block and line.strip() and not _begins(line):
            block.append(line)
            continue
        if block:
            yield "\n".join(block)
            block = []
            if not line.strip():
                continue  # the blank line that ends a document is no input
        if _begins(line):
            block = [line]
        else:
            yield line
    if block:
        yield "\n".join(block)


def _begins(line: str) -> bool:
    """Whether a line is the title of a PubTator document."""
    found = pubtator.TEXT.match(line)
    return found is not None and found[2] == "t"


T = TypeVar("T")


def _of(table: Mapping[str, T], path: str | Path, format: str | None) -> T:
    chosen = format or documents_format(path)
    if chosen not in table:
        raise RequestError(f"unknown format of documents {chosen!r}: {nearest(chosen, table)}")
    return table[chosen]
