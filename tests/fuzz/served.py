"""Targets that are requests to `regard serve`: bodies and addresses, without a network."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.fuzz.mutate import changed_json, changed_lines
from tests.fuzz.targets import Target

__all__ = ["served"]

ROUTES = ("/predict", "/score", "/align", "/look", "/stream")
BODIES: list[dict[str, Any]] = [
    {"model": "toy", "inputs": ["das Fenster", "ein Hund"], "n_best": 2},
    {"inputs": "a", "prefix": "the", "decode": {"name": "greedy", "max_length": 4}},
    {"inputs": ["a"], "align": True, "force_words": ["dog"], "bad_words": ["x"],
     "decode": {"beam_size": 2, "length_penalty": 0.6}},
    {"pairs": [{"input": "das Fenster", "output": "the window"}], "align": True},
    {"input": "das Fenster", "format": "json", "head": "1", "measure": "norms", "show": "map"},
    {"input": "ein Hund", "decode": {"name": "sample", "temperature": 0.5, "seed": 3}},
]  # fmt: skip
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\ntoy\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n'
    b"Content-Type: image/png\r\n\r\nabc\r\n--x--\r\n"
)


class _Wrong(Exception):
    """A server said that it was its own fault."""


def served(folder: Path, part: str) -> Target:
    """`part`: json, lines, form, bytes or query."""
    from regard.serve._routes import build
    from regard.serve.settings import Limits, Settings
    from tests.folder import toy

    made = toy.make(folder / "toy", "rnnsearch")
    limits = Limits(body=1 << 17, texts=8, tokens=300, beam=4, output=12)
    app = build(Settings((("toy", str(made)),), limits=limits, reload=0.0, wait=0.0))
    loop = asyncio.new_event_loop()

    def ask(path: str, query: str, body: bytes, kind: str) -> Any:
        status, answer = loop.run_until_complete(
            asyncio.wait_for(_asked(app, path, query, body, kind), 10)
        )
        if status >= 500 or (status >= 400 and set(json.loads(answer)) != {"error"}):
            raise _Wrong(f"{path} {status}: {answer[:300]!r}")
        return status

    bodies = [json.dumps(one).encode() for one in BODIES]
    if part == "json":
        return Target(bodies, lambda b: [ask(p, "", b, "application/json") for p in _few(b)],
                      changed_json)  # fmt: skip
    if part == "lines":
        seeds = [b'"das Fenster"\n{"input": "ein Hund", "n_best": 2}\n{"input": "a"}\n']
        return Target(seeds, lambda b: ask("/predict", "", b, "application/x-ndjson"),
                      changed_lines)  # fmt: skip
    if part == "form":
        return Target([FORM], lambda b: [
            ask(p, "", b, "multipart/form-data; boundary=x") for p in ("/predict", "/look")
        ])  # fmt: skip
    if part == "bytes":
        return Target([b"abc", b"\x89PNG"], lambda b: ask("/predict", "model=toy", b, "image/png"))
    seeds = [b"model=toy&n_best=2&decode.beam_size=2", b'decode={"name":"greedy"}&align=true',
             b"inputs=a&inputs=b&prefix=x"]  # fmt: skip
    return Target(seeds, lambda b: ask("/predict", quote(b[:3000], "=&"), FORM,
                                       "multipart/form-data; boundary=x"))  # fmt: skip


def _few(body: bytes) -> tuple[str, ...]:
    """One or two of the routes, chosen by the body."""
    at = sum(body) % len(ROUTES)
    return ROUTES[at : at + 2]


async def _asked(app: Any, path: str, query: str, body: bytes, kind: str) -> tuple[int, bytes]:
    """The status and the body of an answer; the protocol of ASGI by hand, which is cheap."""
    scope: Mapping[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", kind.encode("latin-1")),
                    (b"content-length", str(len(body)).encode())],
    }  # fmt: skip
    given = [{"type": "http.request", "body": body, "more_body": False}]
    status, parts = 0, list[bytes]()

    async def receive() -> Any:
        if given:
            return given.pop()
        await asyncio.sleep(3600)  # a client that stays
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    await app(dict(scope), receive, send)
    return status, b"".join(parts)
