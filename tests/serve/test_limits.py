"""What is too much, who may ask, and odd bodies: one sentence and the right status each."""

import json
import socket
import time

import pytest

from tests.serve.running import Direct, application, live

KEY = "a-long-secret"


@pytest.fixture(scope="module")
def small(models):
    """An application with narrow limits."""
    limits = {"body": 2000, "texts": 3, "tokens": 40, "beam": 4, "output": 50, "concurrency": 2}
    return Direct(application("de-en-small", "movie-reviews-small", models=models, limits=limits))


def refused(answer, status):
    """The sentence of a refusal, and nothing else."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert set(found) == {"error"}
    assert "\n" not in found["error"]
    assert 5 < len(found["error"]) < 400
    return found["error"]


def asked(small, **more):
    return small.post("/predict", {"model": "de-en-small", "inputs": "a", **more})


def test_too_much(small):
    assert "2,000 bytes" in refused(asked(small, inputs="a" * 3000), 413)
    assert "at most 3" in refused(asked(small, inputs=["a"] * 4), 413)
    assert "at most 40" in refused(asked(small, inputs="Haus " * 60), 413)
    assert asked(small, inputs=["Haus"] * 3).status_code == 200


def test_a_body_without_a_length_is_counted(small):
    def parts():
        for _ in range(100):
            yield b" " * 100

    async def slowly():
        for part in parts():
            yield part

    refused(small.post("/predict", content=slowly()), 413)


@pytest.fixture(scope="module")
def listening(models):
    """The host and port of a server that takes little at once."""
    limits = {"body": 2000}
    with live(application("movie-reviews-small", models=models, limits=limits)) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        yield host, int(port)


@pytest.mark.parametrize("chunked", [False, True])
def test_who_sends_too_much_reads_why(listening, chunked):
    """Bytes that nobody reads would have the connection reset, and the answer lost."""
    size = 8 << 20  # more than buffers hold
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode()
    body = b"x" * size
    if chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (size, body)
    with socket.create_connection(listening, 30) as connection:
        connection.sendall(head + body)
        answer = b""
        while b"send less at once" not in answer:  # who sends in chunks may ask again after it
            part = connection.recv(65536)
            assert part, answer
            answer += part
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"more than 2,000 bytes" in answer


def test_who_says_much_and_sends_nothing_is_not_waited_for(listening):
    with socket.create_connection(listening, 30) as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n{")
        began = time.monotonic()
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert time.monotonic() - began < 20  # LINGER is 1


def test_too_wide_or_too_long(small):
    assert "n_best" in refused(asked(small, n_best=5), 422)
    assert "beam_size" in refused(asked(small, decode={"beam_size": 5000}), 422)
    assert "max_length" in refused(asked(small, decode={"max_length": 51}), 422)
    assert "min_length" in refused(asked(small, decode={"min_length": 10**9}), 422)
    assert "max_ratio" in refused(asked(small, decode={"max_ratio": 1e9}), 422)
    assert "precision" in refused(asked(small, decode={"precision": "int8"}), 422)
    look = {"model": "de-en-small", "input": "a", "hypothesis": 10**6}
    assert "hypothesis" in refused(small.post("/look", look), 422)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "inputs is missing"),
        ({"inputs": []}, "one or more"),
        ({"inputs": 3}, "inputs"),
        ({"inputs": ["a", None]}, "inputs[1]"),
        ({"input": "a"}, "did you mean 'inputs'"),
        ({"inputs": "a", "n_best": "2"}, "n_best"),
        ({"inputs": "a", "n_best": 0}, "n_best"),
        ({"inputs": "a", "n_best": True}, "n_best"),
        ({"inputs": "a", "decode": {"beem_size": 2}}, "beam_size"),
        ({"inputs": "a", "decode": {"beam_size": [2]}}, "beam_size"),
        ({"inputs": "a", "decode": {"name": "beams"}}, "beam"),
        ({"inputs": "a", "decode": {"length_penalty": -1}}, "length_penalty"),
        ({"inputs": ["a", "b"], "prefix": ["a"]}, "prefix"),
        ({"inputs": "a", "force_words": ["\u2603"]}, "force_words"),
        ({"inputs": "a", "prefix": "\u2603"}, "prefix: the model cannot write"),
        ({"inputs": "a", "force_words": "a"}, "force_words"),
        ({"inputs": "a", "model": 3}, "model"),
        ([], "the body"),
        ("text", "the body"),
        (None, "the body"),
    ],
)
def test_wrong_requests(small, body, said):
    if isinstance(body, dict):
        body = {"model": "de-en-small", **body}
    content = json.dumps(body).encode()
    answer = small.post("/predict", content=content, headers={"content-type": "application/json"})
    assert said in refused(answer, 422)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff\xfe", b"{", b'{"inputs": "\xff"}', b"[" * 1500, b'{"a":' * 300,
        b'{"inputs": "\\ud800"}', b'{"inputs": "a", "n_best": 1e400}',
        b'{"inputs": "a", "n_best": NaN}', b'{"inputs": "a"} {"inputs": "b"}', b"\x00" * 50,
        b'{"inputs": "a", "n_best": 99999999999999999999999999}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("route", ["/predict", "/stream", "/score", "/align", "/look"])
def test_bodies_that_are_no_json(small, content, route):
    headers = {"content-type": "application/json"}
    refused(small.post(route, content=content, headers=headers), 422)


def test_bad_lines_are_refused_one_by_one(small):
    content = b'"Haus"\n\xff\n"\\ud800"\n' + b"[" * 500 + b"\n"
    headers = {"content-type": "application/x-ndjson"}
    limits = small.post("/predict?model=de-en-small", content=content, headers=headers)
    assert "4 lines" in refused(limits, 413)
    content = content.replace(b'"Haus"\n', b"")
    answer = small.post("/predict?model=de-en-small", content=content, headers=headers)
    assert [list(json.loads(line)) for line in answer.text.splitlines()] == [["error"]] * 3


def test_null_bytes_and_controls_are_text(small):
    found = asked(small, inputs="a\x00b\u2028\x1b").json()["predictions"][0]
    assert found["input"] == "a\x00b\u2028\x1b"


def test_other_content_types_and_routes(small):
    for kind in ("text/html", "application/x-www-form-urlencoded", "application/pickle", "x"):
        answer = small.post("/predict", content=b"a", headers={"content-type": kind})
        assert "content type" in refused(answer, 415)
    answer = small.post("/score", content=b"a", headers={"content-type": "image/png"})
    assert "application/json" in refused(answer, 415)
    refused(small.get("/predict"), 405)
    refused(small.get("/nothing"), 404)
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd"):
        refused(small.get(path), 404)
    answer = small.post("/predict", content=b"a", headers={"content-type": "multipart/form-data"})
    refused(answer, 422)


def test_models(small):
    assert "did you mean 'de-en-small'" in refused(asked(small, model="de-en-smal"), 404)
    refused(asked(small, model="../../etc"), 404)
    assert "model is missing" in refused(small.post("/predict", {"inputs": "a"}), 422)
    assert "writes no text" in refused(asked(small, model="movie-reviews-small", prefix="a"), 422)
    answer = small.post("/align", {"model": "movie-reviews-small", "inputs": "a film"})
    assert "align" in refused(answer, 422)
    both = {"model": "de-en-small", "inputs": "a", "pairs": []}
    assert "exactly one of inputs and pairs" in refused(small.post("/align", both), 422)


def test_looks_that_cannot_be(small):
    told = {"model": "de-en-small", "input": "Haus"}
    assert "did you mean" in refused(small.post("/look", {**told, "show": "matrx"}), 422)
    assert "layer" in refused(small.post("/look", {**told, "layer": "9"}), 422)
    assert "format" in refused(small.post("/look", {**told, "format": "png"}), 422)
    assert "empty" in refused(small.post("/look", {**told, "input": ""}), 422)


def test_keys(models):
    own = application(
        "de-en-small", "movie-reviews-small", models=models, keys=(KEY, "another-one")
    )
    direct = Direct(own)
    told = {"model": "movie-reviews-small", "inputs": "a film"}
    for given in (
        None,
        "Bearer",
        f"Bearer {KEY}x",
        f"Basic {KEY}",
        "Bearer a-long-secre",
        "Bearer ä",
    ):
        headers = {} if given is None else {"authorization": given.encode("latin-1")}
        answer = direct.post("/predict", told, headers=headers)
        refused(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
        refused(direct.get("/models", headers=headers), 401)
        refused(direct.get("/metrics", headers=headers), 401)
    for key in (KEY, "another-one"):
        headers = {"authorization": f"Bearer {key}"}
        assert direct.post("/predict", told, headers=headers).status_code == 200
    assert direct.get("/health").status_code == 200
    assert "5861376" not in direct.get("/").text  # parameters: nothing of what is served
    assert "de-en-small" not in direct.get("/ready").text


def test_pages_of_other_sites(app):
    """They could not read an answer, but would have it computed."""
    asked = {"model": "de-en-small", "inputs": ["Hallo."]}
    for site, status in (("cross-site", 403), ("same-origin", 200), ("none", 200)):
        headers = {"sec-fetch-site": site}
        assert Direct(app).post("/predict", json=asked, headers=headers).status_code == status


def test_other_host_names(models):
    """A page of the web must not ask through a browser, under its own host's name."""
    own = application("de-en-small", models=models, hosts=("127.0.0.1", "localhost"))
    assert Direct(own).get("/models").status_code == 200
    for name, status in (("localhost:8000", 200), ("evil.example", 421), ("127.0.0.1.evil", 421)):
        assert Direct(own).get("/models", headers={"host": name}).status_code == status


def test_requests_are_logged_without_texts(models, caplog):
    import logging

    logging.getLogger("regard").propagate = True
    for told, seen in ((False, False), (True, True)):
        own = Direct(application("movie-reviews-small", models=models, log_texts=told))
        caplog.clear()
        with caplog.at_level("INFO", logger="regard.serve"):
            own.post("/predict", {"model": "movie-reviews-small", "inputs": "a secret film"})
        records = [r for r in caplog.records if r.name == "regard.serve.requests"]
        about = list({r.about["id"]: r.about for r in records}.values())
        assert [one["status"] for one in about] == [200]
        assert about[0]["texts"] == 1
        assert ("secret" in str(about)) is seen
