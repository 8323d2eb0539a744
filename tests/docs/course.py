"""The lessons of docs/course: their code, and what it printed.

    python -m tests.docs.course            # each lesson whole, in English
    python -m tests.docs.course heads      # one of them
    python -m tests.docs.course notebooks  # all as notebooks, in build/course

It writes what each block of code prints into the `text` block behind it, in both languages, and
puts the pictures that the code draws into docs/course/images.
"""

import ast
import contextlib
import io
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import blocks
from tests.repo.tree import TOP

COURSE = TOP / "docs" / "course"
LANGUAGES = ("en", "zh")
QUICK = re.compile(r"^(?P<name>\w+ = ).*  # quick: (?P<value>.+)$", re.MULTILINE)
"""`UPDATES = 250  # quick: 2`: what `make test` takes in place of the value."""


@dataclass(frozen=True)
class Cell:
    """A block of code, the line it begins at, and the text that the page says it prints."""

    code: str
    line: int
    printed: str


def lessons() -> list[str]:
    """Names of the lessons, in the order of the index."""
    text = (COURSE / "index.md").read_text(encoding="utf-8")
    return re.findall(r"\]\(en/([\w-]+)\.md\)", text)


def page(language: str, lesson: str) -> Path:
    return COURSE / language / f"{lesson}.md"


def cells(path: Path) -> list[Cell]:
    """Blocks of Python; a `text` block on the second line behind one is what it prints."""
    found, all_blocks = list[Cell](), blocks(path, "python", "text")
    for number, block in enumerate(all_blocks):
        if block.language != "python":
            continue
        after = all_blocks[number + 1 : number + 2]
        end = block.line + block.text.count("\n")
        follows = bool(after) and after[0].language == "text" and after[0].line == end + 3
        found.append(Cell(block.text, block.line, after[0].text if follows else ""))
    return found


def experiment(found: list[Cell]) -> int:
    """The first block that `make test` shortens: what comes before it runs in the same form."""
    return next((n for n, cell in enumerate(found) if QUICK.search(cell.code)), len(found))


def quick(code: str) -> str:
    """The code with its short values, and without assertions, which are about the whole run."""
    tree = ast.parse(QUICK.sub(r"\g<name>\g<value>", code))
    tree.body = [node for node in tree.body if not isinstance(node, ast.Assert)]
    return ast.unparse(tree)


def run(path: Path, *, whole: bool) -> list[str]:
    """Run the code of a lesson in the current folder; what each block printed."""
    space: dict[str, object] = {"__name__": "__main__"}
    found = cells(path)
    first, printed = experiment(found), list[str]()
    for number, cell in enumerate(found):
        code = "\n" * (cell.line - 1) + cell.code  # so that a trace has the page's line numbers
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            short = number >= first and not whole
            exec(compile(quick(cell.code) if short else code, str(path), "exec"), space)
        printed.append("\n".join(line.rstrip() for line in out.getvalue().splitlines()))
    return printed


def write(lesson: str, printed: list[str]) -> None:
    """Put what was printed behind its code, in both languages."""
    for language in LANGUAGES:
        path = page(language, lesson)
        if not path.exists():
            continue
        lines = path.read_text(encoding="utf-8").split("\n")
        for cell, text in reversed(list(zip(cells(path), printed, strict=True))):
            end = cell.line + cell.code.count("\n")  # of the closing fence, from 1
            stop = end
            if cell.printed:
                stop = end + 3 + cell.printed.count("\n")
            lines[end:stop] = ["", "```text", *text.split("\n"), "```"] if text else []
        path.write_text("\n".join(lines), encoding="utf-8")


def notebook(path: Path, folder: Path) -> Path:
    """Write a lesson as a notebook: without what it prints, with plain names for links.

    It may lie anywhere, so pictures and pages of the site are not beside it; its code draws the
    pictures.
    """
    import jupytext

    text = path.read_text(encoding="utf-8")
    text = re.sub(r"(\n```)\n\n```text\n.*?\n```", r"\1", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)\n", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)\s]*\.md[^)]*\)", r"\1", text)
    book = jupytext.reads(text, fmt="md")
    book.metadata["kernelspec"] = dict(name="python3", display_name="Python 3", language="python")
    made = folder / f"{path.stem}-{path.parent.name}.ipynb"
    jupytext.write(book, made)
    return made


def notebooks() -> None:
    """Every lesson in both languages as a notebook in build/course."""
    folder = TOP / "build" / "course"
    folder.mkdir(parents=True, exist_ok=True)
    for number, lesson in enumerate(lessons(), 1):
        for language in LANGUAGES:
            made = notebook(page(language, lesson), folder)
            made.rename(folder / f"{number:02}-{made.name}")
    print(f"{len(list(folder.glob('*.ipynb')))} notebooks in {folder.relative_to(TOP)}")


def main(names: list[str]) -> None:
    import torch
    from PIL import Image

    torch.set_num_threads(1)  # lessons that take times say what one thread takes
    images = COURSE / "images"
    for lesson in names or lessons():
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            began = time.process_time()
            printed = run(page("en", lesson), whole=True)
            for picture in Path().glob("*.png"):
                small = Image.open(picture).convert("RGB").quantize(64)  # a third of the bytes
                small.save(images / picture.name, optimize=True)
        write(lesson, printed)
        print(f"{lesson}: {time.process_time() - began:.1f} CPU-seconds")


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "agg"
    notebooks() if sys.argv[1:] == ["notebooks"] else main(sys.argv[1:])
