"""Several processes at one address, each with its own queue; their weights are in memory once.

Where the system has it, processes are forked from a server that has imported everything and loaded
the models, so that they share whatever nobody writes to. Elsewhere they start afresh. In both cases
weights are mapped from one file (`regard.system.sharing`), also those that are loaded later.
"""

import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

from regard.errors import RegardError
from regard.serve.settings import Settings

__all__ = ["serve_together"]

log = logging.getLogger(__name__)

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
AGAIN = 1.0
"""Seconds before a process that died is restarted."""


def serve_together(
    settings: Settings,
    listening: socket.socket,
    count: int,
    level: int = logging.INFO,
    ready: Callable[[], None] = lambda: None,
) -> int:
    """Serve with this many processes until a signal comes; one that dies is restarted.

    Args:
        ready: called when the first process takes connections.

    Returns:
        The exit code: not 0 where no process could begin.
    """
    with tempfile.TemporaryDirectory(prefix="regard-serve-") as name:
        numbers = Path(name) / "numbers"
        numbers.mkdir()
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(numbers)
        settings = replace(settings, shared=Path(name))
        context: Any = multiprocessing.get_context(METHOD)
        if METHOD == "forkserver":
            os.environ["REGARD_SERVE_PRELOAD"] = _written(settings, Path(name))
            context.set_forkserver_preload(["regard.serve._preload"])
        return _Supervisor(settings, listening, context, level).run(count, ready)


def _written(settings: Settings, folder: Path) -> str:
    """The settings in a file, without keys, for the server that forks."""
    path = folder / "preload.json"
    told = {
        "models": settings.models,
        "changes": settings.changes,
        "threads": settings.threads,
        "shared": str(settings.shared),
    }
    path.write_text(json.dumps(told), "utf-8")
    return str(path)


def _work(settings: Settings, listening: socket.socket, level: int, ready: Any) -> None:
    """One of the processes."""
    from regard.serve import _preload
    from regard.serve._models import Models
    from regard.serve.server import serve

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    try:
        models = Models(settings, _preload.LOADED)
    except RegardError as error:
        sys.stderr.write(f"regard: {error}\n")
        sys.exit(error.exit_code)
    serve(settings, [listening], models, level, ready.set)


class _Supervisor:
    def __init__(
        self, settings: Settings, listening: socket.socket, context: Any, level: int
    ) -> None:
        self.settings, self.listening, self.context, self.level = (
            settings,
            listening,
            context,
            level,
        )
        self.stopping = threading.Event()
        self.ready = context.Event()

    def run(self, count: int, ready: Callable[[], None]) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        # The first alone: it writes the weights that the others map.
        every = [self._start()]
        while not self.ready.wait(0.1):
            if self.stopping.is_set() or not every[0].is_alive():
                every[0].terminate()
                every[0].join()
                return 0 if self.stopping.is_set() else every[0].exitcode or 1
        ready()
        every += [self._start() for _ in range(count - 1)]
        while not self.stopping.wait(0.2):
            for place, one in enumerate(every):
                if not one.is_alive():
                    log.error("process %s ended (%s), another one starts", one.pid, one.exitcode)
                    self._forget(one)
                    time.sleep(AGAIN)
                    every[place] = self._start()
        for one in every:
            if one.is_alive():
                one.terminate()
        for one in every:
            one.join(self.settings.limits.seconds + self.settings.grace + 10)
            if one.is_alive():
                one.kill()
                one.join()
        return 0

    def _start(self) -> BaseProcess:
        made: BaseProcess = self.context.Process(
            target=_work, args=(self.settings, self.listening, self.level, self.ready)
        )
        made.start()
        return made

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping.set()

    @staticmethod
    def _forget(one: BaseProcess) -> None:
        """Its gauges count no more."""
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(one.pid)  # type: ignore[no-untyped-call]
