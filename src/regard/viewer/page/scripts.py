"""The page's script: its files one after another, minified by esbuild.

A wheel holds the minified scripts (`hatch_build.py` writes them). A checkout minifies where
`npm install` has put esbuild; else its pages hold the source as it stands, 100 kB in place of 55.
This module imports the standard library alone: the build reads it by its path.
"""

import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from itertools import chain, combinations
from pathlib import Path

__all__ = ["PACKED", "SCRIPTS", "SOUND", "STEPS", "minifier", "packed", "script", "source"]

SCRIPTS = (
    "read.js",
    "numbers.js",
    "state.js",
    "draw.js",
    "save.js",
    "matrix.js",
    "tiles.js",
    "lines.js",
    "heads.js",
    "text.js",
    "compare.js",
    "tasks.js",
    "graph.js",
    "main.js",
)
"""In the order they are put together."""
SOUND, STEPS = "sound.js", "steps.js"
"""Before the last of `SCRIPTS`, which starts everything: only pages with a sound, and only pages of
a training, carry these."""
PACKED = "packed"
"""The folder of a wheel's minified scripts, beside this file."""
_HERE = Path(__file__).parent
_TOOLS = _HERE.parents[3] / "node_modules" / ".bin"


@cache
def script(*more: str) -> str:
    """The whole script, as short as this installation can write it.

    Args:
        more: `SOUND`, `STEPS`: what the page needs beside `SCRIPTS`.
    """
    kept = _HERE / PACKED / _name(more)
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    minify = minifier()
    return source(*more) if minify is None else minify(source(*more))


def source(*more: str) -> str:
    """The script as it is written; its names are its own (a function holds them)."""
    *first, last = SCRIPTS
    parts = [(_HERE / name).read_text(encoding="utf-8") for name in (*first, *more, last)]
    return "\n".join(["(() => {", '"use strict";', *parts, "})();\n"])


def minifier() -> Callable[[str], str] | None:
    """What makes a script short; None where the checkout has no esbuild."""
    esbuild = shutil.which("esbuild", path=_TOOLS)
    if esbuild is None:
        return None
    command = [esbuild, "--minify", "--target=es2022", "--charset=utf8", "--log-level=error"]
    return lambda code: (
        subprocess.run(
            command, input=code, capture_output=True, encoding="utf-8", check=True
        ).stdout
    )


def packed() -> dict[str, str]:
    """File names and texts of all minified scripts: what a wheel holds.

    Raises:
        RuntimeError: esbuild is missing.
    """
    minify = minifier()
    if minify is None:
        raise RuntimeError("pages stay long: no esbuild; `npm install` in the checkout brings it")
    choices = chain.from_iterable(combinations((SOUND, STEPS), n) for n in range(3))
    return {_name(more): minify(source(*more)) for more in choices}


def _name(more: tuple[str, ...]) -> str:
    return ".".join(["page", *(Path(name).stem for name in more), "min.js"])
