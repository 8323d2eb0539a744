"""Every Python block of the documentation runs; every command in it is one that there is."""

import importlib
import re
import shlex

import pytest

from regard import recipe
from regard.cli.app import COMMANDS, app, command
from regard.errors import RequestError
from regard.folder import places
from tests.docs.pages import blocks, name, pages
from tests.repo.tree import TOP

SHELL = ("sh", "bash", "shell", "console")
PAGES = pages()
RUNNABLE = [
    page
    for page in PAGES
    if blocks(page, "python", "py") and "course" not in page.parts  # test_course.py runs those
]
SHIPPED = "de-en-small"
LONG = {"docs/tutorial.md", "docs/figures.md"}
"""Pages whose Python takes many seconds; that of the figures runs in test_figures.py too."""
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`(regard [^`]+)`")


def commands(page):
    """(line, words) of each `regard …`, `make …` or `torchrun …` in a page's shell blocks."""
    for block in blocks(page, *SHELL):
        text = re.sub(r"\\\n\s*", " ", block.text)
        for line in text.splitlines():
            for part in re.split(r"\s\|\s|\s&&\s", line.strip().removeprefix("$ ")):
                words = shlex.split(part.split(" > ")[0], comments=True)
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words = words[1:]
                if words:
                    yield block.line, words


def inline(page):
    """(line, words) of each `regard …` in a page's text and tables."""
    fenced = {n for b in blocks(page, *SHELL) for n in range(b.line, b.line + b.text.count("\n"))}
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        for match in _INLINE.finditer(line) if number not in fenced else ():
            yield number, shlex.split(match[1])


def test_there_are_pages():
    assert TOP / "README.md" in PAGES
    assert len(RUNNABLE) >= 5


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.slow] * (name(p) in LONG), id=name(p)) for p in RUNNABLE],
)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    """In one namespace, in order, in an empty folder."""
    if f'"{SHIPPED}"' in page.read_text(encoding="utf-8") and SHIPPED not in places.shipped():
        pytest.skip(f"{SHIPPED} does not come with this build")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    space = {"__name__": "__main__"}
    for block in blocks(page, "python", "py"):
        code = "\n" * (block.line - 1) + block.text  # so that a trace has the page's line numbers
        exec(compile(code, str(page), "exec"), space)


def check_regard(words: list[str]) -> None:
    """One command line of ours, read as the command would read it, without running it."""
    if not words or words[0].startswith("-"):
        assert set(words) <= {"--help", "--version", "-h"}
        return
    rows = {row.name: row for row in COMMANDS}
    assert words[0] in rows, f"there is no command {words[0]!r}"
    row = rows[words[0]]
    if "--help" in words:
        return
    function = getattr(importlib.import_module(row.module), row.name)
    context = command(row.name, function).make_context(row.name, list(words[1:]))
    if row.name == "train":
        check_recipe(context.params["recipe"], context.params["changes"] or [])


def check_recipe(name: str, changes: list[str]) -> None:
    """The recipe is there and takes the changes, but for those with a shell variable or a gap."""
    if not name.endswith(".yaml"):
        recipe.load(name, [change for change in changes if not re.search("[$…]", change)]).check()


def targets() -> set[str]:
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_commands_of_a_page_are_there(page):
    for line, words in commands(page):
        try:
            if words[0] == "regard":
                check_regard(words[1:])
            elif words[0] == "torchrun":
                check_regard(words[words.index("regard") + 1 :])
            elif words[0] == "make":
                named = {word for word in words[1:] if "=" not in word}
                assert named <= targets()
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{name(page)}, block at line {line}: {error}") from error


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_recipes_in_the_text_of_a_page_are_there(page):
    """`regard train NAME KEY=VALUE`, also in tables; NAME in capitals stands for any."""
    for line, words in inline(page):
        if words[1] not in ("train", "compare"):
            continue
        named = [word for word in words[2:] if re.fullmatch(r"(?!runs/)[a-z]+/[\w-]+", word)]
        changes = [word for word in words[2:] if re.match(r"[a-z]+\.[\w.]+=", word)]
        try:
            for one in named:
                check_recipe(one, changes)
        except Exception as error:
            raise AssertionError(f"{name(page)}, line {line}: {error}") from error


def test_wrong_commands_are_found():
    with pytest.raises(RequestError, match="hiden"):
        check_regard(["train", "pronunciation/rnnsearch-cmudict-demo", "model.hiden=3"])
    with pytest.raises(AssertionError, match="no command"):
        check_regard(["trian", "x"])
    with pytest.raises(Exception, match="-frech"):
        check_regard(["train", "pronunciation/rnnsearch-cmudict-demo", "--frech"])


def test_every_command_is_documented():
    text = (TOP / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [row.name for row in COMMANDS if f"## {row.name}" not in text] == []
    assert app is not None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    wrong = []
    for match in _LINK.finditer(page.read_text(encoding="utf-8")):
        link = (match[1] or match[2]).split("#")[0]
        if link and not re.match(r"[a-z]+:", link) and not (page.parent / link).exists():
            wrong.append(link)
    assert wrong == []


def test_every_page_is_in_the_contents():
    contents = (TOP / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"[\w/-]+\.md", contents))
    there = {str(p.relative_to(TOP / "docs")) for p in (TOP / "docs").rglob("*.md")}
    assert listed == there
