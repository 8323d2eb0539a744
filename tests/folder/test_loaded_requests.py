"""Requests and keywords are two forms of one thing."""

import pytest

import regard
from regard.decode.request import DecodingRequest
from regard.errors import RequestError


@pytest.fixture(scope="module")
def translator():
    return regard.load("de-en-small")


def outputs(found):
    return [(one.output, one.score) for one in found]


def test_a_request_is_what_its_keywords_are(translator):
    texts = ["Datei speichern", "Das Fenster wird geschlossen."]
    each = [DecodingRequest(prefix="Save"), DecodingRequest(bad_words=("window",))]
    told = {"prefix": ["Save", ""], "bad_words": [(), ("window",)]}
    assert outputs(translator.predict(texts, requests=each)) == outputs(
        translator.predict(texts, **told)
    )
    kept = DecodingRequest(keep=("placeholders",))
    text = ["Die Datei {name} fehlt."]
    assert outputs(translator.predict(text, requests=kept)) == outputs(
        translator.predict(text, keep=["placeholders"])
    )


def test_what_two_forms_at_once_would_hide_is_refused(translator):
    with pytest.raises(RequestError, match="prefix: expected in requests"):
        translator.predict(["a"], prefix="b", requests=DecodingRequest())
    with pytest.raises(RequestError, match="keep: expected in requests"):
        translator.predict(["a"], keep=["all"], requests=DecodingRequest())
    mixed = [DecodingRequest(keep=("all",)), DecodingRequest()]
    with pytest.raises(RequestError, match="keep: expected the same"):
        translator.predict(["a", "b"], requests=mixed)
