"""The pages that describe the house name places that exist."""

import re

import pytest

from tests.repo.tree import SOURCE, TOP

PAGES = ("docs/house.md", "CONTRIBUTING.md")
TREE = re.compile(r"^  (\w[\w.]*/?)(?= )", re.MULTILINE)
PATH = re.compile(r"`((?:src/regard/|tests/|docs/|tools/|[a-z]+/)[\w/.]*\w(?:\.\w+|/))`")


def there(path: str) -> bool:
    return any((home / path).exists() for home in (TOP, SOURCE))


@pytest.mark.parametrize("page", PAGES)
def test_paths_that_a_page_names_exist(page):
    named = PATH.findall((TOP / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    assert [path for path in named if not there(path)] == []


def test_the_tree_has_every_package_and_no_other():
    page = (TOP / "docs" / "house.md").read_text(encoding="utf-8")
    drawn = page[page.index("src/regard/\n") : page.index("tests/  ")]
    packages = {f"{p.parent.name}/" for p in SOURCE.glob("*/__init__.py")} | {"shipped/"}
    assert {name for name in TREE.findall(drawn) if name.endswith("/")} == packages


def test_a_path_that_is_not_there_is_seen():
    assert PATH.findall("see `attention/nowhere.py` and `attention/op.py`, `data/text/`") == [
        "attention/nowhere.py", "attention/op.py", "data/text/",
    ]  # fmt: skip
    assert not there("attention/nowhere.py")
    assert there("attention/op.py")
