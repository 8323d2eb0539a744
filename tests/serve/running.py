"""Servers for the tests: in this process without a network, on a free port, or as a command."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from regard.serve._models import Models
from regard.serve._routes import build
from regard.serve.settings import Limits, Settings, named

SOURCE = Path(__file__).parents[2] / "src"


def settings(*folders: str, limits: dict[str, Any] | None = None, **more: Any) -> Settings:
    return Settings(
        models=named(folders), **{"reload": 0.0, "limits": Limits(**(limits or {})), **more}
    )


def application(*folders: str, models: Models | None = None, **more: Any) -> Any:
    return build(settings(*folders, **more), models)


class Direct:
    """Requests to an application in this process, each awaited to its end."""

    def __init__(self, app: Any, **more: Any) -> None:
        self.app, self.more = app, more

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        import asyncio

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            options = {
                "base_url": "http://127.0.0.1",
                "timeout": 60,
                "trust_env": False,
                **self.more,
            }
            async with httpx.AsyncClient(transport=transport, **options) as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, json: Any = None, **more: Any) -> httpx.Response:
        return self.request("POST", path, json=json, **more)


@contextmanager
def live(app: Any) -> Iterator[str]:
    """Its address, while it listens on a port that was free."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


def _few_files(count: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


class Command:
    """`regard serve …` as a process of its own; its address once it serves, and its log.

    Args:
        files: that it may have open; 0: as many as this process.
        wait: for the line for people that ends so, not for the record of the log.
    """

    def __init__(self, *words: str, files: int = 0, wait: str = "", **more: str) -> None:
        self.wait = wait
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "regard", "serve", *words, "--port", "0"],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(_few_files, files) if files else None,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more},
        )
        self.lines: list[str] = []
        self.address = ""
        self.serving = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self.serving.wait(300):  # a slow machine loads PyTorch for long
            self.process.kill()
            raise AssertionError(self.lines)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if self.wait and line.rstrip().endswith(self.wait):
                self.address = line.removesuffix("\n").removesuffix(self.wait).strip()
                self.serving.set()
            elif (
                not self.wait
                and line.startswith("{")
                and json.loads(line).get("message") == "serving"
            ):
                self.address = json.loads(line)["address"]
                self.serving.set()
        self.serving.set()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def end(self, signal: int | None = None) -> int:
        if signal is not None:
            self.process.send_signal(signal)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self._reader.join(5)
            if self.process.stderr is not None:
                self.process.stderr.close()
