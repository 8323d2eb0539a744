"""A process that serves programs: `server.serve` where PyTorch is not installed."""

import logging
import socket
from collections.abc import Callable

from regard.serve._logs import start_logging
from regard.serve._program_routes import build
from regard.serve.server import run
from regard.serve.settings import Settings

__all__ = ["serve"]


def serve(
    settings: Settings,
    sockets: list[socket.socket],
    level: int = logging.INFO,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal comes.

    Args:
        ready: called when programs are loaded and connections are taken.

    Raises:
        RequestError: a folder has no program that can be used.
    """
    start_logging(level)
    app = build(settings)
    run(app, app.state.service.gate, settings, sockets, ready)
