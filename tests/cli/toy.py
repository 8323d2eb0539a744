"""A model folder for the tests of commands, made once, and stdin of our choosing."""

import io
from functools import cache
from typing import Any

import pytest

from regard import loading
from tests.folder import toy


class Stdin(io.TextIOWrapper):
    """Standard input that is a file of these bytes."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), "utf-8")


def feed(monkeypatch: Any, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(content))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return str(toy.make(tmp_path_factory.mktemp("cli") / "toy", "rnnsearch"))


@pytest.fixture(scope="session")
def layered(tmp_path_factory):
    return str(toy.make(tmp_path_factory.mktemp("cli") / "layered", "transformer"))


@pytest.fixture(scope="session")
def loaded(folder):
    return loading.load(folder)


@pytest.fixture(scope="session")
def _loads():
    return cache(loading.load)


@pytest.fixture
def load_once(_loads, monkeypatch):
    """Commands share the model of a folder, and the program that its first decoding records.

    For tests that write no folder anew at the place of another.
    """
    monkeypatch.setattr(loading, "load", _loads)
