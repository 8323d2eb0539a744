"""A client of `regard serve`, blocking and asynchronous, with the same methods."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from regard.errors import RegardError

__all__ = ["AsyncClient", "Client", "ServerError"]


class ServerError(RegardError):
    """The server refused: its sentence, the `status` of HTTP, the seconds to wait (`retry`)."""

    def __init__(self, status: int, sentence: str, retry: str | None = None) -> None:
        super().__init__(sentence)
        self.status, self.retry = status, None if retry is None else float(retry)


class Client:
    """Each method blocks until its answer is there; its keywords are other keys, as `model`.

    Args:
        address: of the server.
        key: where it wants one.
        more: arguments of httpx's client, which is `http` and can be closed.

    Raises:
        ServerError: by every method, where the server refuses.
    """

    kind = "Client"

    def __init__(
        self, address: str = "http://127.0.0.1:8000", *, key: str | None = None, **more: Any
    ) -> None:
        import httpx

        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        told = {"base_url": address, "headers": headers, "timeout": 60.0, **more}
        self.http: Any = getattr(httpx, self.kind)(**told)

    def models(self) -> Any:
        """What is served."""
        return self._ask("/models", "models")

    def predict(self, inputs: str | Sequence[str], **more: Any) -> Any:
        """A prediction for each input."""
        return self._ask("/predict", "predictions", {"inputs": inputs, **more})

    def align(self, inputs: str | Sequence[str], **more: Any) -> Any:
        """Predictions, and which of their words belong together."""
        return self._ask("/align", "predictions", {"inputs": inputs, **more})

    def score(self, pairs: Sequence[tuple[str, str]], **more: Any) -> Any:
        """How likely outputs are, given as (input, output)."""
        told = [{"input": given, "output": output} for given, output in pairs]
        return self._ask("/score", "scores", {"pairs": told, **more})

    def look(self, input: str, **more: Any) -> Any:
        """What was looked at: values, or text where `format` is "svg" or "html"."""
        return self._ask("/look", more.get("format", "json"), {"input": input, **more})

    def stream(self, input: str, **more: Any) -> Iterator[Any]:
        """The output so far after each step; the last has the whole `prediction`."""
        with self.http.stream("POST", "/stream", json={"input": input, **more}) as response:
            if response.is_error:
                response.read()
            for line in _found(response).iter_lines():
                if line[:5] == "data:":
                    yield _event(line)

    def _ask(self, route: str, key: str, body: Any = None) -> Any:
        return _found(self.http.request("POST" if body else "GET", route, json=body), key)


class AsyncClient(Client):
    """The same; methods are awaited, and `async for` goes over `stream`."""

    kind = "AsyncClient"

    async def stream(  # type: ignore[override]
        self, input: str, **more: Any
    ) -> AsyncIterator[Any]:
        """The output so far after each step; the last has the whole `prediction`."""
        async with self.http.stream("POST", "/stream", json={"input": input, **more}) as response:
            if response.is_error:
                await response.aread()
            async for line in _found(response).aiter_lines():
                if line[:5] == "data:":
                    yield _event(line)

    async def _ask(self, route: str, key: str, body: Any = None) -> Any:
        return _found(await self.http.request("POST" if body else "GET", route, json=body), key)


def _found(response: Any, key: str = "") -> Any:
    if response.is_error:
        ours = "json" in response.headers.get("Content-Type", "")
        sentence = response.json()["error"] if ours else response.text[:200]
        raise ServerError(response.status_code, sentence, response.headers.get("Retry-After"))
    if key in ("svg", "html"):
        return response.text
    return response if not key else response.json() if key == "json" else response.json()[key]


def _event(line: str) -> Any:
    found = json.loads(line[5:])
    if "error" in found:
        raise ServerError(500, found["error"])
    return found
