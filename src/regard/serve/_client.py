"""A client of `regard serve`, blocking and asynchronous, with the same methods."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from regard.serve._errors import ServerError

__all__ = ["AsyncClient", "Client"]


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
        made = getattr(httpx, self.kind)
        self.http: Any = made(base_url=address, **{"headers": headers, "timeout": 60.0, **more})

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

    def stream(self, input: str, **more: Any) -> Any:
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

    async def stream(self, input: str, **more: Any) -> AsyncIterator[Any]:
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
        ours = response.headers.get("Content-Type") == "application/json"
        sentence = response.json()["error"] if ours else response.text[:200]
        raise ServerError(response.status_code, sentence, response.headers.get("Retry-After"))
    if key in ("", "svg", "html"):
        return response.text if key else response
    return response.json() if key == "json" else response.json()[key]


def _event(line: str) -> Any:
    if "error" in (found := json.loads(line[5:])):
        raise ServerError(500, found["error"])
    return found
