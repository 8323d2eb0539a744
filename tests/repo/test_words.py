"""Words of our own that the field does not use: `words.tsv` has each with a better one."""

import re
from pathlib import Path

from tests.repo.tree import TOP, modules, tracked

ROWS = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "words.tsv").read_text("utf-8").splitlines()[1:]
]


def needle(pattern):
    """The longest plain piece of a pattern: most files lack it, and are not searched."""
    pieces = re.findall(r"[A-Za-z' ]+", re.sub(r"\(\?<!.*?\)|\(.*?\)|\\.|.[?*+]", "|", pattern))
    return max(pieces, key=len, default="")


PATTERNS = [(needle(pattern), re.compile(pattern), better) for pattern, better in ROWS]
PLACES = ("docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
"""Names in pages: history has those of earlier versions."""


def wrong(text):
    """Each word that the list has, with its line and the better one."""
    for plain, pattern, better in PATTERNS:
        for match in pattern.finditer(text) if plain in text else ():
            yield text.count("\n", 0, match.start()) + 1, match.group(), better


def pages():
    for path in tracked():
        if path.suffix == ".md" and path.relative_to(TOP).parts[0] in PLACES:
            yield (
                path,
                CODE.sub(lambda code: "\n" * code.group().count("\n"), path.read_text("utf-8")),
            )


def test_the_list_is_whole():
    assert len(ROWS) > 25
    assert all(len(row) == 2 and all(row) for row in ROWS)
    found = list(wrong("It is computed\nanew, so many times; there is none, and this is none."))
    assert [(line, word) for line, word, _ in found] == [
        (2, "anew"),
        (2, "so many"),
        (2, "is none"),
    ]


def test_the_source_and_the_pages_use_the_words_of_the_field():
    texts = [(path, path.read_text("utf-8")) for path in modules()]
    found = [
        f"{path.relative_to(TOP)}:{line}: {word!r}; write: {better}"
        for path, text in (*texts, *pages())
        for line, word, better in wrong(text)
    ]
    assert found == []
