"""How to install what is missing: the command that a message names."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

__all__ = ["install", "is_required"]


def install(extra: str) -> str:
    """The command that installs an extra.

    In a checkout it names the checkout: an index may have no regard, or another version of it.
    """
    checkout = _checkout(Path(__file__))
    if checkout is None:
        return f"pip install 'regard[{extra}]'"
    place = "." if checkout == Path.cwd() else str(checkout)
    return f"pip install -e '{place}[{extra}]'"


@cache
def is_required(module: str) -> bool:
    """Whether a package of this name is one that regard cannot do without."""
    try:
        needed = requires("regard") or []
    except PackageNotFoundError:  # run from its sources, without having been installed
        return False
    names = [re.split(r"[^\w.-]", one)[0] for one in needed if "extra ==" not in one]
    return module.replace("_", "-").lower() in {name.replace("_", "-").lower() for name in names}


def _checkout(file: Path) -> Path | None:
    """The checkout that a file of the package is in, if it is in one."""
    source, top = file.resolve().parents[2:4]
    return top if source.name == "src" and (top / "pyproject.toml").is_file() else None
