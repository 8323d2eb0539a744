"""Draws the pictures of docs/figures.md by the commands that stand beside them.

    python -m tests.docs.figures           # all but those marked `# minutes`

A figure is a section with a command and a picture: `-o NAME.png` of a `regard` line, or
`"NAME.png"` in a block of Python. Pictures of the page in `images/figures` have these names.
"""

import contextlib
import os
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import blocks
from tests.repo.tree import TOP

PAGE = TOP / "docs" / "figures.md"
IMAGES = PAGE.parent / "images" / "figures"
SLOW = "# minutes"


@dataclass(frozen=True)
class Figure:
    """A section of the page: its title, pictures, shell commands, and whether it has Python."""

    title: str
    pictures: list[str]
    commands: list[str]
    python: bool


def figures() -> list[Figure]:
    """The sections of the page, in order; the last, without commands, left out."""
    found = []
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, pictures = part.splitlines()[0], re.findall(r"!\[[^\]]+\]\(([^)]+)\)", part)
        shell = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
        commands = [line for block in shell for line in block.splitlines()]
        if pictures or commands:
            found.append(Figure(title, pictures, commands, "```python" in part))
    return found


def fast() -> list[list[str]]:
    """The words of each `regard` command that takes seconds, without `regard`."""
    lines = [line for figure in figures() for line in figure.commands if SLOW not in line]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def run_python() -> None:
    """Run the Python of the page in the current folder."""
    space: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(PAGE, "python"):
        exec(compile("\n" * (block.line - 1) + block.text, str(PAGE), "exec"), space)


def main() -> None:
    from PIL import Image

    from regard.cli.app import main as regard

    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        run_python()
        for words in fast():
            assert regard(words) == 0, words
        for picture in Path().glob("*.png"):
            if f"images/figures/{picture.name}" in PAGE.read_text(encoding="utf-8"):
                small = Image.open(picture).convert("RGB")
                small.thumbnail((1000, 1000))
                small.quantize(128).save(IMAGES / picture.name, optimize=True)


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "agg"
    main()
