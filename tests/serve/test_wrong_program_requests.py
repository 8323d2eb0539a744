"""What a server without PyTorch refuses: with the status of the whole one, or 501."""

import pytest

from regard.serve import _program_routes
from regard.serve._routes import build
from tests.serve.running import Direct, settings

NAMES = ("pronunciation-small", "aspects-small", "relations-small")
LIMITS = {"texts": 3, "tokens": 60, "body": 2000}


@pytest.fixture(scope="module")
def light():
    return Direct(_program_routes.build(settings(*NAMES, limits=LIMITS)))


@pytest.fixture(scope="module")
def whole():
    return Direct(build(settings(*NAMES, limits=LIMITS)))


def words(**more):
    return {"model": "pronunciation-small", "inputs": "read", **more}


WRONG = {
    "no JSON": (b"[", "the body is no JSON"),
    "a list": (b"[]", "the body: expected an object"),
    "nothing": ({}, "inputs is missing"),
    "another key": (words(bem=1), "there is no key 'bem'"),
    "a number": (words(inputs=3), "inputs: expected a text or a list of texts"),
    "numbers": (words(inputs=["a", 3]), "inputs: expected a text or a list of texts"),
    "half a letter": (b'{"model": "pronunciation-small", "inputs": "\\ud800"}', "half of a surrog"),
    "no such model": ({"inputs": "a", "model": "pronunciation"}, "no model is called"),
    "no model": ({"inputs": "a"}, "model is missing"),
    "a model that is a number": (words(model=3), "model: expected a name of /models"),
    "no inputs": (words(inputs=[]), "inputs: expected one or more, got none"),
    "many inputs": (words(inputs=["a"] * 4), "4 inputs at once, at most 3"),
    "many tokens": (words(inputs="a" * 100), "tokens at once, at most 60"),
    "no outputs": (words(n_best=0), "n_best: expected a whole number of 1 or more"),
    "a truth": (words(n_best=True), "n_best: expected a whole number of 1 or more"),
    "a wide beam": (words(decode={"beam_size": 99}), "beam_size: at most 32 here, got 99"),
    "long outputs": (words(decode={"max_length": 9999}), "decode.max_length: at most 1024 here"),
    "no decoder": (words(decode=3), "decode: expected an object"),
    "a tagger's outputs": (
        {"model": "aspects-small", "inputs": "a", "n_best": 2},
        "n_best: the task tagging writes no text",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests_have_the_status_of_the_whole_server(case, light, whole):
    asked, said = WRONG[case]
    given = {"content": asked} if isinstance(asked, bytes) else {"json": asked}
    headers = {"content-type": "application/json"}
    found, expected = (
        one.request("POST", "/predict", headers=headers, **given) for one in (light, whole)
    )
    assert found.status_code == expected.status_code
    assert said in found.json()["error"]


LACKING = {
    "a prefix": words(prefix="a"),
    "words": words(force_words=["a"]),
    "links": words(align=True),
    "what stays": words(keep=["urls"]),
    "another decoder": words(decode={"name": "sample"}),
    "coverage": words(decode={"coverage_penalty": 0.2}),
}


@pytest.mark.parametrize("case", LACKING)
def test_what_needs_pytorch_is_said(case, light):
    found = light.post("/predict", LACKING[case])
    assert found.status_code == 501
    assert "needs PyTorch, which is not installed here: pip install torch" in found.json()["error"]


@pytest.mark.parametrize("path", ["/stream", "/score", "/align", "/look"])
def test_routes_that_need_pytorch_say_so(path, light):
    found = light.post(path, {"input": "a"})
    assert found.status_code == 501
    assert found.json()["error"].startswith(f"{path} needs PyTorch")


def test_counts_and_files_need_more_than_there_is(light):
    assert light.get("/metrics").status_code == 501
    image = {"content": b"x", "headers": {"content-type": "image/png"}}
    assert light.request("POST", "/predict", **image).status_code == 501
    line = {"content": b'"a"', "headers": {"content-type": "application/x-ndjson"}}
    named = "/predict?model=pronunciation-small"
    assert light.request("POST", f"{named}&n_best=2", **line).status_code == 501


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("GET", "/predict", 405), ("POST", "/models", 405)],
)
def test_other_routes_are_refused_as_by_the_whole_server(method, path, status, light, whole):
    for one in (light, whole):
        found = one.request(method, path)
        assert (found.status_code, list(found.json())) == (status, ["error"])


def test_a_body_that_is_too_large_and_another_content_type(light, whole):
    kinds = ({"content": b"x" * 3000}, {"content": b"x", "headers": {"content-type": "text/csv"}})
    for given in kinds:
        found, expected = (one.request("POST", "/predict", **given) for one in (light, whole))
        assert (found.status_code, found.json()) == (expected.status_code, expected.json())


def test_keys_and_hosts_are_asked_for(light):
    app = _program_routes.build(settings(*NAMES, keys=("a-secret-key",), hosts=("here",)))
    asked = words()
    guarded = Direct(app, headers={"host": "here"})
    assert Direct(app).post("/predict", asked).status_code == 421
    assert guarded.post("/predict", asked).status_code == 401
    key = {"authorization": "Bearer a-secret-key"}
    assert Direct(app, headers={"host": "here", **key}).post("/predict", asked).status_code == 200
    assert guarded.get("/health").status_code == 200
