"""The lessons of docs/course: their code runs, says what the page says, and is the same in both."""

import re

import pytest

from tests.docs.course import COURSE, LANGUAGES, cells, experiment, lessons, notebook, page, run
from tests.repo.tree import TOP

LESSONS = lessons()
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
PICTURE = re.compile(r"!\[[^\]]+\]\(\.\./images/([\w-]+)\.png\)")


def lines_of_code(found):
    return sum(bool(line.strip()) for cell in found for line in cell.code.splitlines())


def test_the_index_has_every_lesson_in_both_languages():
    for language in LANGUAGES:
        assert sorted(LESSONS) == sorted(p.stem for p in (COURSE / language).glob("*.md"))
    text = (COURSE / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\(zh/([\w-]+)\.md\)", text) == LESSONS


@pytest.mark.parametrize("lesson", LESSONS)
def test_both_languages_have_the_same_code_pictures_and_links(lesson):
    """And what every lesson has: a picture, a little code, an experiment, three exercises."""
    english, chinese = (page(language, lesson).read_text("utf-8") for language in LANGUAGES)
    ours, theirs = (cells(page(language, lesson)) for language in LANGUAGES)
    assert [(c.code, c.printed) for c in ours] == [(c.code, c.printed) for c in theirs]
    first = experiment(ours)
    assert 0 < first < len(ours)
    assert 0 < lines_of_code(ours[:first]) <= 40
    assert 0 < lines_of_code(ours[first:]) <= 40
    assert "\nassert " in "".join(c.code for c in ours[first:])
    assert PICTURE.findall(english) == PICTURE.findall(chinese) == [lesson]
    assert (COURSE / "images" / f"{lesson}.png").stat().st_size < 60_000
    links = [re.findall(r"\]\(((?!\.\./(?:en|zh)/)[^)]+)\)", text) for text in (english, chinese)]
    assert set(links[0]) == set(links[1])
    assert f"](../zh/{lesson}.md)" in english
    assert f"](../en/{lesson}.md)" in chinese
    for text in (english, chinese):
        assert text.count("\n## ") >= 5
        asked, answered = text.split("<details")
        for part in (asked.split("\n## ")[-1], answered):
            assert re.findall(r"^(\d)\. ", part, re.MULTILINE) == ["1", "2", "3"]


def check_printed(path, printed):
    """Words as they are, numbers to one in the last digit: processors round otherwise."""
    for cell, text in zip(cells(path), printed, strict=False):
        assert NUMBER.split(text) == NUMBER.split(cell.printed.rstrip("\n")), cell.line
        for there, here in zip(NUMBER.findall(cell.printed), NUMBER.findall(text), strict=True):
            last = 10.0 ** -len(there.partition(".")[2])
            assert abs(float(there) - float(here)) <= 1.01 * last, (cell.line, there, here)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_runs_and_prints_what_the_page_says(lesson, tmp_path, monkeypatch):
    """The experiment at a small size, and without what it asserts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    path = page("en", lesson)
    printed = run(path, whole=False)
    check_printed(path, printed[: experiment(cells(path))])
    assert (tmp_path / f"{lesson}.png").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_an_experiment_finds_what_its_lesson_says(lesson, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    run(page("zh", lesson), whole=True)


def test_a_notebook_has_the_cells_of_the_page(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("jupytext")
    for language in LANGUAGES:
        made = notebook(page(language, LESSONS[0]), tmp_path)
        book = nbformat.read(made, as_version=4)
        nbformat.validate(book)
        code = [cell.source + "\n" for cell in book.cells if cell.cell_type == "code"]
        assert code == [cell.code for cell in cells(page(language, LESSONS[0]))]
        said = "".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
        assert "```text" not in said  # a notebook prints it
        assert "](../" not in said  # pages and pictures of the site are not beside a notebook


@pytest.mark.slow
def test_a_notebook_runs(tmp_path, monkeypatch):
    """Offline, from the first cell to the last, and draws its picture."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("jupytext")
    monkeypatch.chdir(tmp_path)
    book = nbformat.read(notebook(page("zh", "query-key-value"), tmp_path), as_version=4)
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    said = cells(page("zh", "query-key-value"))[0].printed
    assert code[0].outputs[0].text == said
    assert (tmp_path / "query-key-value.png").is_file()
    assert TOP not in tmp_path.parents
