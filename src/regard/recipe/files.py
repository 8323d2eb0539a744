"""Files of recipes, and of the `data:` sections that recipes share: found by name and read."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import RequestError, nearest
from regard.settings.yaml_reader import LONGEST, Lines, parse

__all__ = ["find", "folder", "name_of", "names", "read", "shared_data", "shared_file", "short"]

SHARED = "data"
"""The folder of shared sections; all others are tasks."""


def folder() -> Path:
    """Where the recipes are: in the package when installed, at the top of the repository if not."""
    here = Path(__file__).resolve().parent.parent
    inside = here / "recipes"
    return inside if inside.is_dir() else here.parent.parent / "recipes"


def names() -> list[str]:
    """The names of all recipes, `task/model-data`."""
    return [name for name in _every() if not name.startswith(f"{SHARED}/")]


def _every() -> list[str]:
    return sorted(
        f"{task.name}/{file.name.removesuffix('.yaml')}"
        for task in os.scandir(folder())
        if task.is_dir()
        for file in os.scandir(task)
        if file.name.endswith(".yaml")
    )


def find(name: str | os.PathLike[str]) -> Path:
    """The file of a recipe, by path or by name.

    Raises:
        RequestError: there is no such recipe.
    """
    text = os.fspath(name)
    if text.endswith((".yaml", ".yml")):
        path = Path(text)
        if not path.is_file():
            raise RequestError(f"there is no recipe file {text!r}; see `regard recipes`")
        return path
    known = names()
    matches = [full for full in known if full == text or full.endswith("/" + text)]
    if len(matches) != 1:
        shorts = [full.rpartition("/")[2] for full in known]
        hint = "there are " + ", ".join(matches) if matches else nearest(text, [*known, *shorts])
        raise RequestError(f"there is no recipe {text!r}: {hint}; see `regard recipes`")
    return folder() / f"{matches[0]}.yaml"


def shared_file(name: Any, recipe: Path, where: str) -> Path:
    """The file of the section that `data.use` names.

    Args:
        name: `data/multi30k` of the recipe folder, or a path to a `.yaml` file, relative to the
            folder of the recipe.
        recipe: the file that uses it.
        where: the place where it is used.

    Raises:
        RequestError: there is no such file.
    """
    known = [one for one in _every() if one.startswith(f"{SHARED}/")]
    if isinstance(name, str) and name.endswith((".yaml", ".yml")):
        file = recipe.parent / name
    elif name in known:
        file = folder() / f"{name}.yaml"
    else:
        raise RequestError(
            f"{where}: data.use: expected a shared section ({SHARED}/NAME) or a .yaml file, got "
            f"{name!r}: {nearest(str(name), known)}"
        )
    if not file.is_file():
        raise RequestError(f"{where}: data.use: there is no file {short(file)}")
    return file


def shared_data(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """A shared section as values to lay under a recipe's own, and the place of each.

    Raises:
        RequestError: it has other than keys with values, or uses another.
    """
    values, lines = read(file, "the keys of a data section")
    if "use" in values:
        at = f"{short(file)}:{lines['use']}"
        raise RequestError(f"{at}: use: a shared section uses no other")
    name = short(file)
    places = {f"data.{key}": f"{name}:{line}" for key, line in lines.items()}
    return {"data": values}, {"data": f"{name}:1", **places}


def read(file: Path, expected: str) -> tuple[dict[str, Any], Lines]:
    """The values of a YAML file, and the line of each dotted key.

    Args:
        file: what to read.
        expected: what it should have, for the message when it has something else.

    Raises:
        RequestError: it is too long, not UTF-8, not YAML, or no mapping.
    """
    if (size := file.stat().st_size) > 4 * LONGEST:
        raise RequestError(
            f"{short(file)}: expected a recipe of at most {LONGEST:,} characters, got {size:,} "
            "bytes"
        )
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise RequestError(f"{short(file)}:{line}: not UTF-8") from None
    values, lines = parse(text, short(file))
    if not isinstance(values, Mapping):
        raise RequestError(f"{short(file)}:1: expected {expected}")
    return dict(values), lines


def name_of(file: Path) -> str:
    """The name of a recipe's file: `task/model-data`, or its stem outside of the recipe folder."""
    try:
        return file.resolve().relative_to(folder().resolve()).with_suffix("").as_posix()
    except ValueError:
        return file.stem


def short(file: Path) -> str:
    """A path as people would type it: relative to the working directory where that is shorter."""
    try:
        return file.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(file)
