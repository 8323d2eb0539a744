"""`regard recipes`: list, show, copy and check recipes."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from regard import recipe
from regard.cli._common import Json, columns, emit, print_result, say
from regard.errors import RegardError, RequestError, nearest
from regard.system.files import replace_file

__all__ = ["recipes"]


def recipes(
    action: Annotated[str, typer.Argument(help="list, show, copy or check.")] = "list",
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Recipes; with copy: one recipe, then where to write it."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="copy: write over a file.")] = False,
    json: Json = False,
) -> None:
    """List the recipes, show or copy one, or check them without training.

    Examples:
        regard recipes
        regard recipes show pronunciation/rnnsearch-cmudict
        regard recipes copy pronunciation/rnnsearch-cmudict mine.yaml
        regard recipes check
        regard recipes check mine.yaml

    `list` shows the range of scores that was measured and is expected again, or `-` where the
    recipe has none. `check` reads every recipe, and its tiny form, and checks each value against
    the constructor that will get it.
    """
    actions: dict[str, Callable[[list[str], bool, bool], None]] = {
        "list": _list,
        "show": _show,
        "copy": _copy,
        "check": _check,
    }
    if action not in actions:
        raise RequestError(f"recipes: there is no {action!r}: {nearest(action, actions)}")
    if force and action != "copy":
        raise RequestError(f"--force: it is for recipes copy, not for {action}")
    actions[action](names or [], force, json)


def _list(names: list[str], force: bool, json: bool) -> None:
    """All recipes, or those under a task: `list translation`."""
    found = [n for n in recipe.names() if not names or n.partition("/")[0] in names]
    if names and not found:
        tasks = {n.partition("/")[0] for n in recipe.names()}
        raise RequestError(f"no recipe is for {names[0]!r}: {nearest(names[0], tasks)}")
    rows = [_row(n) for n in found]
    if json:
        emit({"recipes": rows})
        return
    head = ("RECIPE", "MODEL", "DATA", "EXPECT")
    table = [(r["name"], r["model"], r["data"], _ranges(r["expect"])) for r in rows]
    print_result(columns([head, *table]) + "\n\nOne of them: regard recipes show RECIPE")


def _row(name: str) -> dict[str, Any]:
    found = recipe.load(name)
    return {
        "name": name,
        "model": str(found.model.get("name", "-")),
        "task": str(found.task.get("name", "-")),
        "data": _files_of(
            found.data.get("path") or found.data.get("train") or found.task.get("graph")
        ),
        "expect": found.expect,
        "file": str(found.file),
    }


def _files_of(told: Any) -> str:
    """The files that a recipe names, in words that fit a table."""
    if isinstance(told, dict) and "file" in told:
        return str(told["file"])
    several = list(told.values()) if isinstance(told, dict) else told
    if not isinstance(several, list):
        return str(told or "-")
    first = _files_of(several[0]) if several else "-"
    return f"{first} and {len(several) - 1} more" if len(several) > 1 else first


def _ranges(expect: dict[str, Any]) -> str:
    return ", ".join(f"{k} {v[0]:g}-{v[1]:g}" for k, v in expect.items()) or "-"


def _one(names: list[str], action: str, most: int) -> str:
    if not 1 <= len(names) <= most:
        raise RequestError(
            f"recipes {action}: expected a recipe, got {len(names)} words; "
            f"see regard recipes --help"
        )
    return names[0]


def _show(names: list[str], force: bool, json: bool) -> None:
    """The file as it is; with --json its values."""
    name = _one(names, "show", 1)
    found = recipe.load(name)
    if json:
        sections = {s: found.section(s) for s in recipe.SECTIONS if found.section(s)}
        emit({"name": found.name, "file": str(found.file), "recipe": sections})
    else:
        sys.stdout.write(found.file.read_text(encoding="utf-8"))
        if found.shared is not None:
            print_result(f"\n# What {found.shared.name} holds:\n#")
            sys.stdout.write(found.shared.read_text(encoding="utf-8"))


def _copy(names: list[str], force: bool, json: bool) -> None:
    """Into a file that is the user's own; its first lines then name that file."""
    name = _one(names, "copy", 2)
    found = recipe.load(name)
    target = Path(names[1]) if len(names) == 2 else Path(found.file.name)
    if target.is_dir():
        target = target / found.file.name
    if target.suffix not in (".yaml", ".yml"):
        raise RequestError(f"{target}: a recipe's file ends in .yaml; try {target}.yaml")
    if target.exists() and not force:
        raise RequestError(f"{target} exists; --force writes over it")
    text = found.file.read_text(encoding="utf-8")
    own = text.replace(f"regard train {found.name}", f"regard train {target}")
    replace_file(target, lambda beside: beside.write_text(own, "utf-8"))
    if json:
        emit({"name": found.name, "file": str(target)})
    else:
        say(f"Yours now: {target}. Next: regard train {target}")


def _check(names: list[str], force: bool, json: bool) -> None:
    """Every recipe, or those named, and their tiny forms; nothing is trained."""
    results = {}
    for name in names or recipe.names():
        results[name] = problem = _problem(name)
        if not json:
            print_result(f"{'wrong' if problem else 'good ':5}  {name}")
            if problem:
                print_result(f"       {problem}")
    wrong = [name for name, problem in results.items() if problem]
    if json:
        emit({"checked": len(results), "wrong": {n: results[n] for n in wrong}})
    else:
        say(f"{len(results) - len(wrong)} of {len(results)} recipes are good")
    if wrong:
        raise RegardError(f"wrong recipes: {', '.join(wrong)}")


def _problem(name: str) -> str | None:
    try:
        recipe.load(name).check()
        recipe.load(name, tiny=True).check()
    except RequestError as error:
        return str(error)
    return None
