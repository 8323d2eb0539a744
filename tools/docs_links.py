"""A hook of mkdocs: numbers of arXiv and names of source files become links.

`arXiv 1409.0473` links to the paper. A source file in backticks, as `regard/models/rnnsearch.py`,
links to a page of the site that holds it, so that a reader needs no repository beside it.
"""

import re
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
ARXIV = re.compile(r"(?<!\[)\barXiv[ :](\d{4}\.\d{4,5})\b(?!\]\()")
FILE = re.compile(r"(?<!\[)`(regard/[\w/]+\.py)`(?!\]\()")
FENCE = re.compile(r"^[ ]*(```|~~~)")


def sources_of(text: str) -> list[str]:
    """The source files that a page names, each once and only where there is one."""
    names = dict.fromkeys(FILE.findall(text))
    return [name for name in names if (SOURCE / name).is_file()]


def linked(text: str, depth: int) -> str:
    """The text of a page with its links; blocks of code stay as they are.

    Args:
        depth: how many folders below the root the page stands.
    """
    up, inside, made = "../" * depth, False, []

    def to_file(found: re.Match[str]) -> str:
        name = found[1]
        return f"[`{name}`]({up}source/{name}.md)" if (SOURCE / name).is_file() else found[0]

    for line in text.split("\n"):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            line = ARXIV.sub(r"[arXiv \1](https://arxiv.org/abs/\1)", line)
            line = FILE.sub(to_file, line)
        made.append(line)
    return "\n".join(made)


def page_of(name: str) -> str:
    """The page of a source file, which search leaves out."""
    code = (SOURCE / name).read_text(encoding="utf-8")
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n"
    return f'{head}```````python linenums="1"\n{code}```````\n'


def on_files(files: Any, config: Any) -> Any:
    """Adds a page for each source file that a page names."""
    from mkdocs.structure.files import File

    names = {
        name
        for file in files.documentation_pages()
        for name in sources_of(Path(file.abs_src_path).read_text(encoding="utf-8"))
    }
    for name in sorted(names):
        files.append(File.generated(config, f"source/{name}.md", content=page_of(name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of one page."""
    place = str(page.file.src_uri)
    return markdown if place.startswith("source/") else linked(markdown, place.count("/"))
