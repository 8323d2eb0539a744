import pytest

from regard import catalog


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `name`, and says not which, runs over all generators of the catalog."""
    own = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "name" in metafunc.fixturenames and not any("name" in names for names in own):
        metafunc.parametrize("name", catalog.names(task="translation"))
