"""The pages of the documentation and the fenced blocks in them."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.repo.tree import TOP

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n`]*$")


@dataclass(frozen=True)
class Block:
    """A fenced block: what it is in, and the line its text begins at (from 1)."""

    language: str
    text: str
    line: int


def pages() -> list[Path]:
    """Every Markdown page that a reader may copy from."""
    top = [
        "README.md",
        "README.zh-CN.md",
        "CONTRIBUTING.md",
        "benchmarks/README.md",
        "recipes/README.md",
    ]
    found = [TOP / name for name in top if (TOP / name).is_file()]
    return [*found, *sorted((TOP / "docs").rglob("*.md"))]


def blocks(page: Path, *languages: str) -> list[Block]:
    """The blocks of some languages, in order."""
    found: list[Block] = []
    start, language, indent, lines = 0, "", 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if not start and fence:
            start, language, indent = number + 1, fence["language"], len(fence["indent"])
            lines = []
        elif start and line.strip() == "```":
            found.append(Block(language, "\n".join(lines) + "\n", start))
            start = 0
        elif start:
            lines.append(line[indent:])
    assert not start, f"{page}: the block at line {start} is not closed"
    return [block for block in found if block.language in languages]


def name(page: Path) -> str:
    return str(page.relative_to(TOP))
