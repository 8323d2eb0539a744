"""Numbers of arXiv and names of source files are links on the site; code stays as it is."""

import importlib.util

from tests.repo.tree import TOP

SPEC = importlib.util.spec_from_file_location("docs_links", TOP / "tools" / "docs_links.py")
links = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(links)
FILE = "regard/models/rnnsearch.py"


def test_numbers_and_files_become_links_from_where_the_page_stands():
    text = f"A paper, arXiv 1409.0473. In `{FILE}`."
    assert links.linked(text, 1) == (
        "A paper, [arXiv 1409.0473](https://arxiv.org/abs/1409.0473). "
        f"In [`{FILE}`](../source/{FILE}.md)."
    )
    assert links.linked(links.linked(text, 0), 0) == links.linked(text, 0)  # once is enough


def test_code_and_files_that_are_none_stay():
    code = f"```text\narXiv 1409.0473 `{FILE}`\n```"
    assert links.linked(code, 0) == code
    assert links.linked("`regard/models/nothing.py`", 0) == "`regard/models/nothing.py`"
    assert links.sources_of(f"`{FILE}` `regard/models/nothing.py` `{FILE}`") == [FILE]


def test_the_page_of_a_file_holds_it_whole():
    page = links.page_of(FILE)
    assert (TOP / "src" / FILE).read_text(encoding="utf-8") in page
    assert page.startswith("---\nsearch:\n  exclude: true\n")
