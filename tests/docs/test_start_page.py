"""docs/index.md: a gallery whose pictures link on; and words that people search for."""

import re

import pytest

from tests.repo.tree import TOP

DOCS = TOP / "docs"
PICTURE = re.compile(r"^- \[!\[([^\]]+)\]\(([^)]+)\)\]\(([^)#]+)\)$", re.MULTILINE)
SEARCHED = {
    "csv": "howto/data.md",
    "chinese": "languages.md",
    "gpu": "operation.md",
    "heatmap": "look.md",
}
"""Words, and the page whose text should be found by each."""


def gallery():
    """The lines of the gallery."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    (found,) = re.findall(r'(?s)<div class="pictures" markdown>\n(.*?)</div>', text)
    return found


def test_every_picture_of_the_gallery_links_on_and_is_described():
    rows = PICTURE.findall(gallery())
    assert len(rows) >= 8
    assert len(rows) == len(re.findall(r"(?m)^- ", gallery()))
    for alt, picture, page in rows:
        assert len(alt) > 20, picture
        assert (DOCS / picture).is_file(), picture
        assert (DOCS / page).is_file(), page
    assert len({page for _, _, page in rows}) == len(rows)
    assert ".pictures > ul" in (DOCS / "style.css").read_text(encoding="utf-8")


def test_each_picture_has_a_line_of_text():
    texts = re.findall(r"(?m)^    \*\*[^*]+\*\*.*\.$|^    \*\*[^*]+\?\*\* .*\.$", gallery())
    assert len(texts) == len(PICTURE.findall(gallery()))


@pytest.mark.parametrize("word", SEARCHED)
def test_a_word_that_people_search_for_is_on_its_page(word):
    text = (DOCS / SEARCHED[word]).read_text(encoding="utf-8")
    prose = re.sub(r"(?ms)^```.*?^```", "", text).lower()
    assert re.search(rf"\b{word}\b", prose)
