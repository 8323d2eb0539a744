"""Tests mirror the package: a module is tested in the file of its name, or in `mirror.tsv`."""

from tests.repo.tree import SOURCE, TOP, modules

TESTS = TOP / "tests"
TABLE = TESTS / "repo" / "mirror.tsv"


def table():
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines if not line.startswith("#"))


def of_its_name(module):
    """`tests/data/text/test_words.py` of `data/text/words.py`, or in a folder above it."""
    name = f"test_{module.name.lstrip('_')}"
    return any((TESTS / above / name).is_file() for above in [*module.parents][:-1])


def with_code():
    """Every module that has code of its own."""
    return {
        path.relative_to(SOURCE)
        for path in modules()
        if path.name not in ("__init__.py", "__main__.py")
    }


def test_every_module_has_its_test_file():
    rows = table()
    lost = sorted(str(m) for m in with_code() if not of_its_name(m) and str(m) not in rows)
    assert lost == []  # write tests/<folder>/test_<name>.py, or a row of mirror.tsv


def test_the_table_names_modules_and_files_that_are_there():
    found = {str(module) for module in with_code()}
    assert sorted(set(table()) - found) == []
    assert sorted({file for file in table().values() if not (TESTS / file).is_file()}) == []


def test_a_row_is_needed():
    assert sorted(str(m) for m in with_code() if of_its_name(m) and str(m) in table()) == []
