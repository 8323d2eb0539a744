"""Models and applications that are made once."""

import pytest

import regard
from regard.serve._models import Models
from tests.serve.playground import opened
from tests.serve.running import Direct, application, live, settings
from tests.store import toy
from tests.viewer.browser import chromium

__all__ = ["chromium"]


@pytest.fixture(scope="session")
def toys(tmp_path_factory):
    """A folder of an untrained translator."""
    return toy.make(tmp_path_factory.mktemp("serve") / "toy", "rnnsearch")


@pytest.fixture(scope="session")
def models():
    """A translator and a classifier that come with the package."""
    return Models(settings("de-en-small", "movie-reviews-small"))


@pytest.fixture(scope="session")
def app(models):
    return application("de-en-small", "movie-reviews-small", models=models)


@pytest.fixture
def direct(app):
    return Direct(app)


@pytest.fixture(scope="session")
def address(app):
    with live(app) as found:
        yield found


@pytest.fixture(scope="session")
def translator():
    return regard.load("de-en-small")


@pytest.fixture(scope="session")
def critic():
    return regard.load("movie-reviews-small")


@pytest.fixture
def play(chromium, address):
    """The page of the translator and the classifier."""
    with opened(chromium, address) as found:
        yield found
