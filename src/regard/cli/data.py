"""`regard data`: look at a data file or folder before training on it."""

from typing import Annotated, Any

import typer

from regard.cli import _common
from regard.cli._common import Json, emit, print_result
from regard.errors import RequestError

__all__ = ["data"]

WIDTH = 72


def data(
    path: Annotated[str, typer.Argument(help="A file, a folder of splits, or - .")],
    columns: Annotated[
        str | None, typer.Option(help="field=column,…; every column where not given.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="csv, tsv, jsonl, moses, conll, …; else by the name.")
    ] = None,
    header: Annotated[bool, typer.Option(help="A TSV file's first line names the columns.")] = True,
    json: Json = False,
) -> None:
    """Inspect data: rows, lengths, problems by file and line, duplicates, leaks, samples.

    Examples:
        regard data mt/de-en --columns source=other,target=en
        regard data words.tsv --no-header
        regard data corpus/train --format moses --columns source=de,target=en
        regard data pictures
        regard data my-graph

    A relative path is looked up in the working directory, under $REGARD_DATA, and in the data that
    comes with the package. A leak is a row of one split that is in an earlier one too, whole or in
    one column.
    """
    from regard.datasets.inspection import inspect

    report = inspect(path, _pairs(columns) if columns else None, format, header)
    if json:
        emit(report)
    else:
        print_result(_page(report))


def _pairs(text: str) -> dict[str, str | int]:
    """`source=de,target=2` as a mapping."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    wrong = next((a for a, equals, b in pairs if not (a.strip() and equals and b.strip())), None)
    if wrong is not None:
        raise RequestError(f"--columns: expected field=column,…, got {text!r}")
    return {a.strip(): b.strip() for a, _, b in pairs}


def _graph_page(graph: dict[str, Any]) -> str:
    said = ", ".join(f"{graph[name]:,} {name}" for name in ("nodes", "edges", "features"))
    splits = ", ".join(f"{name} {count:,}" for name, count in graph["splits"].items())
    rows = [("  CLASS", "NODES"), *((f"  {k}", f"{n:,}") for k, n in graph["classes"].items())]
    if graph["unlabeled"]:
        rows.append(("  no label", f"{graph['unlabeled']:,}"))
    return f"a graph: {said}\nsplits: {splits or 'none'}\n\n{_common.columns(rows)}"


def _page(report: dict[str, Any]) -> str:
    if "graph" in report:
        return _graph_page(report["graph"])
    parts = [_split(name, split) for name, split in report["splits"].items()]
    if report["leaks"]:
        head = ("LEAKS", "IN", *[k for k in report["leaks"][0]["shared"]])
        rows = [
            (f"of {x['rows']:,} {x['of']}", x["in"], *(x["shared"].get(k, "") for k in head[2:]))
            for x in report["leaks"]
        ]
        parts.append(_common.columns([head, *rows]))
    parts += [
        f"{one['share']:.0%} of the words of {one['split']} ({one['column']}) are not in train: "
        f"{one['why']}"
        for one in report["unseen"]
    ]
    return "\n\n".join(parts)


def _split(name: str, split: dict[str, Any]) -> str:
    head = (
        "  COLUMN",
        "WORDS",
        "median",
        "p95",
        "p99",
        "max",
        "CHARACTERS max",
        "DISTINCT",
        "EMPTY",
    )
    rows = []
    for column, found in split["columns"].items():
        words = [found["words"].get(k, "-") for k in ("min", "median", "p95", "p99", "max")]
        longest = found["characters"].get("max", "-")
        rows.append((f"  {column}", *words, longest, f"{found['distinct']:,}", found["empty"]))
    counts = f"{split['rows']:,} rows, {split['duplicates']:,} of them duplicates"
    lines = [
        f"{name}: {counts} ({split['file']})",
        _common.columns([head, *rows]),
        *(f"  left out: {count:,} {what}" for what, count in split["problems"].items()),
        *(f"    {problem}" for problem in split["first_problems"]),
    ]
    for sample in split["samples"]:
        shown = " | ".join(_short(v) for k, v in sample.items() if k != "line")
        lines.append(f"  line {sample['line']}: {shown}")
    return "\n".join(lines)


def _short(text: str) -> str:
    text = " ".join(text.splitlines())  # a story has many
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
