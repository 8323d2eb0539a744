"""Every page of a paper by one template, and which pages lack which part of it.

A page says what the idea is, the equation with each symbol named, a picture, where the code is, how
to run it, what was measured, the mistakes people make, and where it departs from the paper.
`paper_pages.tsv` lists what is missing: a part that is written is taken out of it, none is added.
"""

import re
from collections.abc import Callable

import pytest

from tests.repo.tree import TOP

PAGES = TOP / "docs" / "papers"
LACKS = TOP / "tests" / "docs" / "paper_pages.tsv"
INDEXES = ("index.md", "applications.md")
"""Pages of no one paper."""


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"(?ms)^```.*?^```\s*$", "", text)


def has_idea(text: str) -> bool:
    """Below the title and the source, a paragraph of words before anything else."""
    blocks = [block for block in text.split("\n\n") if block.strip()]
    return len(blocks) > 2 and blocks[2][:1].isalpha() and len(blocks[2]) > 60


PARTS: dict[str, Callable[[str], bool]] = {
    "idea": has_idea,
    "equation": lambda text: bool(re.search(r"(?m)^\$\$.+\$\$$", text)),
    "symbols": lambda text: bool(re.search(r"(?m)^Symbols: .*:math:", prose(text))),
    "picture": lambda text: "![" in prose(text),
    "code": lambda text: bool(re.search(r"`regard/[\w/]+\.py`", text)),
    "run": lambda text: bool(re.search(r"(?ms)^```sh\n.*?^regard .*?^```", text)),
    "measured": lambda text: bool(re.search(r"(?m)^(#+ )?Measured\b", prose(text))),
    "mistakes": lambda text: bool(re.search(r"(?m)^(#+ )?Common mistakes", prose(text))),
    "departs": lambda text: bool(re.search(r"(?m)^(#+ )?Departs from the \w+", prose(text))),
}


def lacking(text: str) -> list[str]:
    return [name for name, there in PARTS.items() if not there(text)]


def listed() -> dict[str, list[str]]:
    rows = (line.split("\t") for line in LACKS.read_text(encoding="utf-8").splitlines() if line)
    return {page: parts.split() for page, parts in rows}


def pages() -> list[str]:
    return sorted(path.name for path in PAGES.glob("*.md") if path.name not in INDEXES)


@pytest.mark.parametrize("page", pages())
def test_a_page_lacks_what_the_list_says_and_nothing_else(page):
    text = (PAGES / page).read_text(encoding="utf-8")
    assert lacking(text) == listed().get(page, [])


def test_the_list_names_pages_that_there_are():
    assert set(listed()) <= set(pages())
    assert all(parts for parts in listed().values())


WHOLE = """# A

Somebody, *A paper*, 2015, arXiv 1409.0473. In `regard/models/rnnsearch.py`.

The decoder attends to the annotations of all source words before each of its steps.

$$a = b$$

Symbols: :math:`a`, a thing; :math:`b`, another.

![Words](x.png)

```sh
regard train x
```

Measured: BLEU 1.

Common mistakes:

Departs from the paper: nothing.
"""


def test_each_part_is_missed_where_it_is_taken_out():
    assert lacking(WHOLE) == []
    gone = {
        "idea": (
            "The decoder attends to the annotations of all source words before each of its",
            "",
        ),
        "equation": ("$$a = b$$", "`a = b`"),
        "symbols": ("Symbols:", "Here"),
        "picture": ("![", "["),
        "code": ("`regard/models/rnnsearch.py`", "a file"),
        "run": ("regard train", "train"),
        "measured": ("Measured:", "BLEU"),
        "mistakes": ("Common mistakes", "Beware"),
        "departs": ("Departs from", "As"),
    }
    assert set(gone) == set(PARTS)
    for part, (old, new) in gone.items():
        assert part in lacking(WHOLE.replace(old, new)), part
