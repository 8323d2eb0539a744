import pytest

from regard import catalog

SLOW_LEARNERS = {"seq2seq", "luong"}
"""Two recurrent layers: 150 to 200 updates, above two seconds of CPU on a busy machine."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that asks for `name` runs over the whole catalogue."""
    if "name" not in metafunc.fixturenames:
        return
    learning = metafunc.function.__name__ == "test_it_overfits_eight_examples"
    metafunc.parametrize(
        "name",
        [
            pytest.param(name, marks=pytest.mark.slow if learning and name in SLOW_LEARNERS else ())
            for name in catalog.names()
        ],
    )
