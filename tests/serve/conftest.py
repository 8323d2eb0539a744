"""Models and applications that are made once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import regard
from regard.serve._models import Models
from tests.folder import toy
from tests.serve.playground import opened
from tests.serve.running import Direct, application, live, settings


@pytest.fixture(scope="session", autouse=True)
def loops_beside_a_browser():
    """`asyncio.run` in another thread where Playwright, until its end, runs a loop in this one."""
    own = asyncio.run

    def run(work):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return own(work)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(own, work).result()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "run", run)
        yield


@pytest.fixture(scope="session")
def toys(tmp_path_factory):
    """A folder of an untrained translator."""
    return toy.make(tmp_path_factory.mktemp("serve") / "toy", "rnnsearch")


@pytest.fixture(scope="session")
def models():
    """A translator and a classifier that come with the package."""
    made = Models(settings("de-en-small", "movie-reviews-small"))
    made["de-en-small"].loaded.predict(["Guten Morgen."])  # packs it: later steps are of requests
    return made


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


@pytest.fixture(scope="session")
def tab(chromium, address):
    with opened(chromium, address) as found:
        yield found


@pytest.fixture
def play(tab):
    """The page of the translator and the classifier."""
    return tab.renew()
