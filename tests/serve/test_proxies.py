"""The reverse proxies of docs/howto/deploy.md, as they stand there, in front of a server."""

import os
import re
import shutil
import socket
import subprocess
import time

import httpx
import pytest

from tests.docs.pages import blocks
from tests.repo.tree import TOP
from tests.serve.running import application, live

NAME = "models.example.org"
PAGE = TOP / "docs" / "howto" / "deploy.md"
NGINX = """
daemon off;
pid nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
{server}}}
"""


def told(language, mark):
    """The block of the page that has a mark."""
    (found,) = [b.text for b in blocks(PAGE, language) if mark in b.text]
    return found


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def replaced(text, *pairs):
    """Text with a part of it for another; each part must be there."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def nginx(folder, port, address):
    """What runs it with the page's block, without TLS; tests have no certificate."""
    server = replaced(
        told("nginx", "proxy_pass"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        ("http://127.0.0.1:8000", address),
    )
    (folder / "nginx.conf").write_text(NGINX.format(server=server))
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]


def caddy(folder, port, address):
    site = replaced(
        told("text", "reverse_proxy"),
        (f"{NAME} {{", f"http://{NAME}:{port} {{\n    bind 127.0.0.1"),
        ("127.0.0.1:8000", address.removeprefix("http://")),
    )
    (folder / "Caddyfile").write_text("{\n    admin off\n}\n" + site)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@pytest.fixture(params=[nginx, caddy], ids=lambda one: one.__name__)
def proxied(request, models, tmp_path):
    """The address of a proxy in front of a server that is started as the page says."""
    program = request.param.__name__
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    options = re.search(r"ExecStart=.*(--proxy \S+) (--host-name \S+)", PAGE.read_text("utf-8"))
    assert options is not None
    assert options[1] == "--proxy 127.0.0.1"
    assert options[2] == f"--host-name {NAME}"
    more = {"proxy": ("127.0.0.1",), "hosts": (NAME,)}
    port, log = free_port(), tmp_path / "log"
    with live(application("movie-reviews-small", "de-en-small", models=models, **more)) as address:
        words = request.param(tmp_path, port, address)
        with open(log, "w") as said:
            own = {**os.environ, "HOME": str(tmp_path)}
            process = subprocess.Popen(words, stdout=said, stderr=said, cwd=tmp_path, env=own)
        try:
            wait_for(port, process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def wait_for(port, process, log):
    until = time.monotonic() + 60
    while True:
        assert process.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        else:
            return


def test_a_proxy_passes_on_what_is_asked(proxied):
    with httpx.Client(base_url=proxied, headers={"Host": NAME}, timeout=60) as client:
        assert client.get("/ready").status_code == 200
        assert "<html" in client.get("/").text
        asked = {"model": "movie-reviews-small", "inputs": ["a fine film"]}
        answer = client.post("/predict", json=asked)
        assert answer.status_code == 200, answer.text
        assert answer.json()["predictions"][0]["output"]
        assert client.get("/metrics").status_code == 403
        assert client.post("/predict", content=b"x" * (17 << 20)).status_code == 413
        streamed = {"model": "de-en-small", "input": "Guten Morgen."}
        with client.stream("POST", "/stream", json=streamed) as events:
            assert events.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in events.iter_lines() if line.startswith("data:")]
        assert len(lines) > 1
