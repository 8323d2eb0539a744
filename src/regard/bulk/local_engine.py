"""The engine `local`: processes on this machine, or none but this one."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from regard.bulk.finished_files import Made
from regard.bulk.job import BulkJob, answer, loaded, understood
from regard.bulk.shards import Shard
from regard.bulk.worker import END
from regard.data.files.packing import Unreadable
from regard.system.processes import environment, raise_said

__all__ = ["here", "local"]

TRIES = 2
"""How often a shard is begun whose process dies."""


def here(
    job: BulkJob, shards: Sequence[Shard], told: Callable[[int], None]
) -> Iterator[tuple[Shard, Made | Unreadable]]:
    """Make shards in this process, one after another."""
    model = loaded(job.plain())
    for shard in shards:
        yield shard, understood(answer(model, shard.plain(), told))


def local(
    job: BulkJob, shards: Sequence[Shard], told: Callable[[int], None]
) -> Iterator[tuple[Shard, Made | Unreadable]]:
    """Make shards in processes, each of which takes the next one when it is done with one.

    Raises:
        RegardError: what ends the whole run, as a disk that is full.
    """
    todo, events = deque(shards), queue.SimpleQueue[Any]()
    every = [_Hand(job, todo, events) for _ in range(min(job.workers, len(shards)))]
    for one in every:
        one.start()
    try:
        busy = len(every)
        while busy:
            event = events.get()
            if event is None:
                busy -= 1
            elif isinstance(event, BaseException):
                raise event
            elif isinstance(event, int):
                told(event)
            else:
                yield event
    finally:
        todo.clear()
        for one in every:
            one.stop()


class _Died(Exception):
    """A process ended in the middle of its work."""


class _Hand(threading.Thread):
    """Hands shards to one process, and puts what it says among the events."""

    def __init__(
        self, job: BulkJob, todo: "deque[Shard]", events: "queue.SimpleQueue[Any]"
    ) -> None:
        super().__init__(daemon=True)
        self.job, self.todo, self.events = job, todo, events
        self.process: subprocess.Popen[str] | None = None
        self.stopped = False

    def run(self) -> None:
        try:
            while (shard := self._next()) is not None:
                self.events.put((shard, self._made(shard)))
            if self.process is not None:
                with suppress(BrokenPipeError):  # it has nothing left to do
                    self._tell(END)
                self._close()
        except BaseException as error:
            self.events.put(error)
        else:
            self.events.put(None)

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.stopped = True
        if (process := self.process) is not None:
            process.kill()
        self.join()
        self._close()

    def _close(self) -> int | None:
        """Be done with a process that ends; its exit code."""
        if self.process is None:
            return None
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self.process = None
        return code

    def _next(self) -> Shard | None:
        try:
            return self.todo.popleft()
        except IndexError:
            return None

    def _made(self, shard: Shard) -> Made | Unreadable:
        code = None
        for _ in range(TRIES):
            if self.stopped:
                break
            try:
                if self.process is None:
                    self.process = self._opened()
                self._tell(json.dumps(shard.plain()))
                while "lines" in (said := self._said()):
                    self.events.put(said["lines"])
                return understood(said)
            except (_Died, BrokenPipeError):
                code = self._close()
        return Unreadable(f"the process that made it ended {TRIES} times (exit code {code})")

    def _opened(self) -> "subprocess.Popen[str]":
        self.process = subprocess.Popen(
            [sys.executable, "-m", "regard.bulk.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **environment(self.job.order.threads)},
        )
        if self.stopped:  # while this waited
            self.process.kill()
        self._tell(json.dumps(self.job.plain()))
        raise_said(self._said())
        return self.process

    def _tell(self, line: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _said(self) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            raise _Died
        said: dict[str, Any] = json.loads(line)
        return said
