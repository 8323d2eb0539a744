"""`regard models`: the catalogue, and one model's paper, equations, defaults and source."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from regard import catalog
from regard.cli._common import Json, columns, emit, print_result
from regard.cli._folder import shipped
from regard.cli._model_source import Source, read_class
from regard.errors import RequestError, nearest

__all__ = ["models"]


def models(
    name: Annotated[
        str | None,
        typer.Argument(help="A model of the catalogue; with --explain, a trained folder."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only models used for this task.")] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="What runs the decoder of a trained folder here, and why."),
    ] = False,
    json: Json = False,
) -> None:
    """List the papers that are built in, or show one: equations, constructor, defaults, recipes.

    Examples:
        regard models
        regard models rnnsearch
        regard models --task translation --json
        regard models parser-small --explain
    """
    if explain:
        if name is None or task is not None:
            raise RequestError("--explain: expected a trained folder or a shipped name, alone")
        from regard.cli._explained_steps import explain_steps

        explain_steps(name, json=json)
        return
    tasks = {t for e in catalog.ENTRIES for t in e.tasks}
    if task is not None and task not in tasks:
        raise RequestError(f"no model is for the task {task!r}: {nearest(task, tasks)}")
    if name is not None and task is not None:
        raise RequestError(
            f"--task {task}: it chooses models to list; leave it out, or leave out {name}"
        )
    if name is not None:
        entry = catalog.entry(name)
        source = read_class(entry.target)
        if json:
            emit(_details(entry, source))
        else:
            print_result(_page(entry, source))
    elif json:
        rows = [_row(catalog.entry(n)) for n in catalog.names(task)]
        emit({"models": rows, "shipped": shipped()})
    else:
        print_result(_table(task))


def _row(entry: catalog.Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "authors": entry.authors,
        "year": entry.year,
        "url": entry.url,
        "tasks": entry.tasks,
        "axes": entry.axes,
        "target": entry.target,
    }


def _table(task: str | None) -> str:
    shown = ("score", "query", "body", "parallel")
    head = ("MODEL", "YEAR", "SCORE", "QUERY", "READS WITH", "PARALLEL")
    rows = [
        (e.name, e.year, *(re.split(r":| \(", e.axes.get(axis, ""))[0] for axis in shown))
        for e in map(catalog.entry, catalog.names(task))
    ]
    return (
        columns([head, *rows])
        + "\n\nOne of them: regard models NAME"
        + (f"\nIncluded, trained: {', '.join(shipped())}" if task is None else "")
    )


def _details(entry: catalog.Entry, source: Source) -> dict[str, Any]:
    return {
        **_row(entry),
        "file": source.file,
        "line": source.line,
        "paper": source.paper,
        "arguments": source.arguments,
        "constructor": [
            {"name": p.name, "type": p.type, "default": p.default, "line": p.line}
            for p in source.parameters
        ],
        "presets": source.presets,
        "recipes": _recipes(entry.name),
    }


def _page(entry: catalog.Entry, source: Source) -> str:
    axes = columns([(f"  {axis}", value) for axis, value in entry.axes.items()])
    class_name = entry.target.partition(":")[2]
    place = f"{_short(source.file)}:{source.line}"
    constructor = "\n".join(f"    {p}," for p in source.parameters)
    parts = [
        f"{entry.name}: {entry.title}\n{entry.authors}, {entry.year}, {entry.url}",
        f"Tasks: {', '.join(entry.tasks)}",
        f"Where it stands\n{axes}",
        source.paper,
        f"{class_name}(  # {place}\n{constructor}\n)",
        source.arguments,
        *(f"{class_name}.{name}: {sentence}" for name, sentence in source.presets.items()),
        f"Recipes: {', '.join(_recipes(entry.name)) or 'none yet'}",
    ]
    return "\n\n".join(p for p in parts if p)


def _recipes(model: str) -> list[str]:
    """The recipes that train this model."""
    from regard import recipe

    return [n for n in recipe.names() if recipe.load(n).model.get("name") == model]


def _short(file: Path) -> str:
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)
