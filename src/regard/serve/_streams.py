"""Outputs that grow: each decoded in a thread of its own, one step after the other."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from regard.data.addresses import only_bytes
from regard.serve._errors import busy
from regard.serve._models import Served
from regard.tasks import Prediction

__all__ = ["Streams"]

BEHIND = 64
"""Steps that may wait for a slow client; the decoder waits where there are more."""


class Streams:
    """The threads that stream, at most this many at once."""

    def __init__(self, most: int, prepare: Callable[[], None] = lambda: None) -> None:
        self.most, self.count = most, 0
        self._threads = ThreadPoolExecutor(
            most, thread_name_prefix="regard-stream", initializer=prepare
        )

    def close(self) -> None:
        """Take no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def open(
        self, served: Served, text: str, asked: Mapping[str, Any], seconds: float
    ) -> AsyncIterator[Prediction]:
        """The best so far after each step of the decoder.

        Closing the iterator ends the work before its next step.

        Raises:
            Refusal: 429, there are as many streams as there may be.
        """
        if self.count >= self.most:
            raise busy(f"{self.count} outputs are being streamed, the most that may be at once")
        self.count += 1
        return self._steps(served, text, asked, seconds)

    async def _steps(
        self, served: Served, text: str, asked: Mapping[str, Any], seconds: float
    ) -> AsyncIterator[Prediction]:
        loop = asyncio.get_running_loop()
        found: asyncio.Queue[Any] = asyncio.Queue()
        room, left = threading.Semaphore(BEHIND), threading.Event()

        def put(item: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(found.put_nowait, item)

        def decode() -> None:
            end = time.monotonic() + seconds
            try:
                with only_bytes():
                    steps = served.loaded.stream(text, deadline=seconds, **asked)
                    came = False
                    for step in steps:
                        came = True
                        while not room.acquire(timeout=0.5):
                            if left.is_set() or time.monotonic() > end:
                                return
                        if left.is_set():
                            return
                        put(step)
                    if not came:  # an empty input has an empty output, a refused one its reason
                        put(served.loaded.predict([text])[0])
            except Exception as error:
                put(error)
            finally:
                put(None)

        try:
            work = loop.run_in_executor(self._threads, decode)
            while (item := await found.get()) is not None:
                room.release()
                if isinstance(item, Exception):
                    raise item
                yield item
            await work
        finally:
            left.set()
            self.count -= 1
