"""A process that serves: uvicorn, with an end that loses nothing."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from regard.serve._connections import AT_ONCE, BACKLOG, Keeper, room
from regard.serve._guard import Gate
from regard.serve._logs import start_logging
from regard.serve.settings import Settings

if TYPE_CHECKING:
    from regard.serve._models import Models

__all__ = ["Server", "run", "serve"]

log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """Ends on SIGTERM or SIGINT: not ready, then no new requests, then the last answer, then over.

    A second signal ends at once.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        settings: Settings,
        gate: Gate,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self.settings, self.gate, self.ready = settings, gate, ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        self._loop = asyncio.get_running_loop()
        most = room()
        keeper = Keeper(self.server_state.connections, most, self.settings.limits.seconds)
        self.config.http_protocol_class = keeper.counted(self.config.http_protocol_class)
        await super().startup(sockets)
        self._keeping = asyncio.create_task(keeper.keep())
        for one in sockets or ():
            one.listen(BACKLOG)
        if sockets:
            host, port = sockets[0].getsockname()[:2]
            names = [name for name, _ in self.settings.models]
            about = {"models": names, "address": f"http://{host}:{port}", "connections": most}
            log.info("serving", extra={"about": about})
            self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and wait for the last answers."""
        await super().shutdown(sockets)
        if self._keeping is not None:
            self._keeping.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came."""
        if self.gate.draining or self._loop is None:
            super().handle_exit(sig, frame)
            return
        self.gate.draining = True
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._ending = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        """Answer what was taken; new requests get 503."""
        log.info("stopping", extra={"about": {"active": self.gate.active}})
        await asyncio.sleep(self.settings.grace)
        loop = asyncio.get_running_loop()
        end = loop.time() + self.settings.limits.seconds
        while self.gate.active and loop.time() < end:
            await asyncio.sleep(0.01)
        self.should_exit = True


def serve(
    settings: Settings,
    sockets: list[socket.socket],
    models: "Models | None" = None,
    level: int = logging.INFO,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal comes.

    Args:
        ready: called when models are loaded and connections are taken.
    """
    from regard.serve._routes import build

    start_logging(level)
    app = build(settings, models)
    run(app, app.state.service.gate, settings, sockets, ready)


def run(
    app: Any,
    gate: Gate,
    settings: Settings,
    sockets: list[socket.socket],
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve an ASGI application until a signal comes; see `serve`."""
    options: dict[str, Any] = {}
    if settings.proxy:
        options = {"forwarded_allow_ips": ",".join(settings.proxy)}
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        proxy_headers=bool(settings.proxy),
        backlog=AT_ONCE,
        lifespan="on",
        timeout_graceful_shutdown=max(1, round(settings.limits.seconds)),
        **options,
    )
    server = Server(config, settings, gate, ready)
    server.run(sockets=sockets)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
