"""The page at an address of this machine, with tiles of weights that are computed when asked for.

Only this machine can reach it, and only who knows the secret in the address; what is asked for
under another host's name is refused, so that no page of the web can ask through a browser.
"""

import secrets
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from regard.errors import RequestError
from regard.viewer.overview import Floats, pooled
from regard.viewer.page.html import page
from regard.views import View

__all__ = ["Live"]

MOST = 1 << 16
"""Cells of one tile, at most."""
_BLOCK = 1 << 20


class Live:
    """A page that is being served.

    Args:
        view: what it shows.
        port: 0 takes one that is free.
        options: those of `DrawableView.save`.

    Raises:
        RequestError: the port is taken.
    """

    def __init__(self, view: View, port: int = 0, **options: Any) -> None:
        content = page(view, live=True, **options)
        self._secret = secrets.token_urlsafe(9)
        handler = type(
            "_Bound",
            (_Handler,),
            {"view": view, "content": content, "secret": self._secret, "lock": threading.Lock()},
        )
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        except (OSError, OverflowError) as error:
            raise RequestError(f"port {port}: {error}") from None
        self._server.daemon_threads = False  # closing waits for what is being computed
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Open it in a browser."""
        return f"http://127.0.0.1:{self._server.server_port}/{self._secret}/"

    def wait(self) -> None:
        """Until it is closed, or the program is interrupted."""
        self._thread.join()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> "Live":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Live({self.address})"


def tile(view: View, asked: dict[str, int], head: int | None) -> Floats:
    """Some rows and columns of a map, each cell the largest of f × f weights.

    Args:
        asked: `m` the map, `r`, `c` the first row and column, `h`, `w` how many cells, `f`.
        head: None is the mean of all.

    Raises:
        RequestError: what is asked for is not there, or too much.
    """
    m, f = asked["m"], asked["f"]
    if not 0 <= m < len(view.maps):
        raise RequestError(f"there is no map {m}")
    one = view.maps[m]
    heads, rows, columns = one.shape
    first, left = asked["r"], asked["c"]
    stop, right = min(first + asked["h"] * f, rows), min(left + asked["w"] * f, columns)
    inside = 0 <= first < stop and 0 <= left < right and f >= 1
    if not inside or (head is not None and not 0 <= head < heads):
        raise RequestError("no such tile")
    if asked["h"] * asked["w"] > MOST:
        raise RequestError(f"a tile has at most {MOST} cells")
    chosen = range(heads) if head is None else [head]
    step = max(_BLOCK // (right - left) // f, 1) * f
    found = []
    for start in range(first, stop, step):  # the pooled tile is small, what it is made of is not
        some = slice(start, min(start + step, stop))
        block = one.part(chosen[0], some, slice(left, right))
        for h in chosen[1:]:
            block = block + one.part(h, some, slice(left, right))
        found.append(pooled(block, f) / np.float32(len(chosen)))
    made: Floats = np.concatenate(found)
    return made


class _Handler(BaseHTTPRequestHandler):
    view: View
    content: bytes
    secret: str
    lock: threading.Lock

    def do_GET(self) -> None:
        """The page, or a tile of it."""
        parts = urlsplit(self.path)
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        known = parts.path.startswith(f"/{self.secret}/") and host in ("127.0.0.1", "localhost")
        name = parts.path.rpartition("/")[2]
        if known and not name:
            self._answer(200, "text/html; charset=utf-8", self.content)
        elif known and name == "tile":
            self._tile(dict(parse_qsl(parts.query)))
        else:
            self._answer(404, "text/plain", b"")

    def _tile(self, asked: dict[str, str]) -> None:
        try:
            head = None if asked["head"] == "mean" else int(asked["head"])
            numbers = {name: int(asked[name]) for name in ("m", "r", "c", "h", "w", "f")}
            with self.lock:
                made = tile(self.view, numbers, head)
        except (KeyError, ValueError, RequestError) as error:
            self._answer(400, "text/plain", str(error).encode())
            return
        self._answer(200, "application/octet-stream", made.astype("<f4").tobytes())

    def _answer(self, code: int, kind: str, content: bytes) -> None:
        with suppress(ConnectionError):  # a page that was closed waits for nothing
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the library does not print."""
