"""Several processes of one training on this machine, started like `torchrun` does.

`torchrun` ends with a traceback and exit code 1 on Ctrl-C, regardless of its processes. Here the
exit code is that of the processes: 130 after saving.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

__all__ = ["launch"]

GRACE, SAYING = 30.0, 3.0
"""Seconds that the others have to end when one was interrupted, and when one failed: on a busy
machine the first takes as long to say the same and to end."""
INTERRUPTED = 130
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""What ends a process at once: Windows has one signal that does."""

Process = subprocess.Popen[bytes]


def launch(words: Sequence[str], processes: int) -> int:
    """Run `regard WORDS` in several processes as one training; return their exit code.

    An error is printed once: by the first process, or else by the one that failed.
    """
    with ExitStack() as stack:
        port, started, talks = _free_port(), list[Process](), list[Any]()
        for rank in range(processes):
            talk = stack.enter_context(tempfile.TemporaryFile()) if rank else None
            talks.append(talk)
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "regard", *words],
                    env={**os.environ, **_environment(rank, processes, port)},
                    stderr=talk,
                )
            )
        stack.callback(_stop, started, KILL)
        with _passing_on(started) as asked:
            codes = _wait(started)
        if asked or INTERRUPTED in codes:
            return INTERRUPTED
        failed = next((i for i, code in enumerate(codes) if code > 0), None)
        failed = (
            next((i for i, code in enumerate(codes) if code), None) if failed is None else failed
        )
        if failed is None:
            return 0
        if talks[failed] is not None:
            talks[failed].seek(0)
            sys.stderr.write(talks[failed].read().decode("utf-8", "replace"))
        return max(codes[failed], 1)


def _environment(rank: int, processes: int, port: int) -> dict[str, str]:
    """The environment variables of torchrun."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "regard",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait(started: Sequence[Process]) -> list[int]:
    """The exit codes; if one process fails, the others are stopped."""
    until = None
    while any(process.poll() is None for process in started):
        if until is None and any(process.poll() for process in started):
            until = time.monotonic() + GRACE
            if not any(process.poll() == INTERRUPTED for process in started):
                until = time.monotonic() + SAYING
        if until is not None and time.monotonic() > until:
            _stop(started, KILL)
        time.sleep(0.05)
    return [int(process.wait()) for process in started]


def _stop(started: Sequence[Process], number: int) -> None:
    for process in started:
        if process.poll() is None:
            process.send_signal(number)


@contextmanager
def _passing_on(started: Sequence[Process]) -> Iterator[list[int]]:
    """Forward an interruption to all; a second one stops them immediately."""
    asked: list[int] = []

    def stop(number: int, frame: Any) -> None:
        _stop(started, KILL if asked else signal.SIGINT)
        asked.append(number)

    before = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
