"""Batches are made ready on a thread of their own while the step before is computed."""

import queue
import threading
from collections.abc import Generator, Iterable
from typing import Any, TypeVar

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(items: Iterable[T], count: int) -> Generator[T, None, None]:
    """The same items in the same order, up to `count` of them made before they are asked for.

    An error of the thread is raised where its item would have come. Closing the iterator ends the
    thread, as does the end of the program. With 0 nothing runs beside the caller.

    Args:
        items: made by one thread, so what they draw from is drawn in their order.
        count: how many may wait.
    """
    if count <= 0:
        yield from items
        return
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(count)
    over = threading.Event()

    def put(kind: str, what: Any) -> bool:
        while not over.is_set():
            try:
                waiting.put((kind, what), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=work, name="regard-batches", daemon=True)
    thread.start()
    try:
        while True:
            kind, what = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                raise what
            yield what
    finally:
        over.set()
        thread.join(timeout=1.0)
