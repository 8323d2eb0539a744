import pytest

from regard import catalog


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that asks for `name` runs over all generators of the catalogue."""
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", catalog.names(task="translation"))
