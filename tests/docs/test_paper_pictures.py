"""Pictures of the pages of papers: each stands beside the command or the Python that draws it.

`test_pages.py` runs the Python of every page and checks its commands.
"""

import re

import pytest

from tests.docs.test_paper_pages import PAGES, pages
from tests.repo.tree import TOP

IMAGES = TOP / "docs" / "images" / "papers"
DRAWN = re.compile(r'draw_charts\(.*"([\w-]+)\.png"\)')


def drawn_by_python():
    """(page, name) of each picture that a page's Python draws."""
    for page in pages():
        for name in DRAWN.findall((PAGES / page).read_text(encoding="utf-8")):
            yield page, name


def test_a_page_shows_what_its_python_draws():
    assert len(list(drawn_by_python())) >= 1
    for page, name in drawn_by_python():
        text = (PAGES / page).read_text(encoding="utf-8")
        assert f"](../images/papers/{name}.png)" in text, page


@pytest.mark.parametrize("page", pages())
def test_a_page_says_how_its_picture_is_made(page):
    text = (PAGES / page).read_text(encoding="utf-8")
    if "![" not in text:
        pytest.skip("tests/docs/paper_pages.tsv lists it")
    shell = "".join(re.findall(r"(?ms)^```sh\n(.*?)^```", text)).replace("\\\n", " ")
    drawing = r"regard (look|claims|curves) .*-o \S+\.(png|html)|python benchmarks/\S+"
    assert re.search(drawing, shell) or DRAWN.search(text), page


def test_scores_by_length_are_those_of_the_results():
    page = (PAGES / "rnn-encoder-decoder.md").read_text(encoding="utf-8")
    results = (TOP / "docs" / "results.md").read_text(encoding="utf-8")
    rows = re.findall(r'(?m)^    "([\w-]+)": \[(.*)\],$', page)
    assert len(rows) == 3
    for name, scores in rows:
        (cells,) = re.findall(rf"(?m)^\| `{name}` \([^|]*\| [\d.]+ \| (.*) \|$", results)
        assert cells.split(" | ") == scores.split(", "), name


def test_every_picture_of_a_paper_is_on_a_page():
    every = "".join((PAGES / page).read_text(encoding="utf-8") for page in pages())
    assert [p.name for p in IMAGES.glob("*.png") if f"papers/{p.name})" not in every] == []
