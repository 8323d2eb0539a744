"""Connections: how many there can be, and an end for those that only wait.

A connection costs a file of the process, of which the system allows a limited number (`ulimit -n`).
Nobody but the server ends a connection whose other side is silent: a client that sends half a
request, one that never reads its answer, one that has vanished without a word.
"""

import asyncio
import logging
import math
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

__all__ = ["AT_ONCE", "BACKLOG", "Keeper", "room"]

log = logging.getLogger(__name__)

OWN = 128
"""Files beside connections: models, weights, what is read and drawn."""
AT_ONCE = 16
"""Connections that are accepted before anything else is done: far fewer than `OWN`."""
BACKLOG = 2_048
"""Connections that the system holds until they are accepted."""
WANTED = 65_536
FEW = 1_024


def room() -> int:
    """How many connections there can be; raises the process's limit of files as far as it may.

    Says so where they are few.
    """
    try:
        import resource
    except ImportError:  # Windows, where sockets are no files
        return WANTED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):  # some systems allow less than they say
            log.debug("the limit of %d open files stays", soft)
    most = WANTED if soft == resource.RLIM_INFINITY else soft
    found = max(most - OWN, most // 4, 1)
    if found < FEW:
        log.warning(
            "%d files may be open at once (ulimit -n), so about %d connections: raise it for more",
            most,
            found,
            extra={"about": {"connections": found}},
        )
    return found


@dataclass
class _Rest:
    """Since when a connection has had no request that is being answered, and after which one."""

    cycle: Any
    since: float


class Keeper:
    """Ends connections that only wait: after this many seconds, or when they take up all room.

    A connection waits while no request of it is being answered: it has sent nothing, or a part of
    the head of a request, or has not read its last answer to the end. The one that has waited
    longest goes first. A request that is being answered is never cut off here.

    Args:
        connections: uvicorn's, which it keeps up to date.
        most: connections beyond which those that wait must go.
        seconds: that a connection may wait.
    """

    def __init__(self, connections: Collection[Any], most: int, seconds: float) -> None:
        self.connections, self.most, self.seconds = connections, most, seconds
        self.ended, self._said = 0, -math.inf
        self._resting: dict[Any, _Rest] = {}

    async def keep(self) -> None:
        """Look at all of them, again and again."""
        while True:
            await asyncio.sleep(min(1.0, self.seconds / 4))
            self.look(time.monotonic())

    def counted(self, protocol: type[Any]) -> type[Any]:
        """A protocol of uvicorn that makes room as soon as a connection too many has come."""
        keeper = self

        class Counted(protocol):  # type: ignore[misc]
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                if len(keeper.connections) > keeper.most:
                    keeper.look(time.monotonic())

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                # uvicorn's timer for the next request would keep a connection that was reset.
                timer = getattr(self, "timeout_keep_alive_task", None)
                if timer is not None:
                    timer.cancel()

        return Counted

    def look(self, now: float) -> int:
        """End those that have waited too long, and say how many."""
        resting = []
        # Made again each time: what is kept of a connection would keep it when it is gone.
        before, self._resting = self._resting, {}
        every = [*self.connections]
        for one in every:
            cycle = getattr(one, "cycle", None)
            answering = cycle is not None and not cycle.response_complete
            if answering and not one.transport.is_closing():  # it closes once all is read
                continue
            rest = before.get(one)
            if rest is None or rest.cycle is not cycle:
                rest = _Rest(cycle, now)
            self._resting[one] = rest
            resting.append((rest.since, one))
        resting.sort(key=lambda own: own[0])
        over, ended = len(every) - self.most, 0
        some = over + self.most // 16 if over > 0 else 0  # not at every one that comes
        for since, one in resting:
            if now - since < self.seconds and ended >= some:
                break
            self._resting.pop(one, None)
            one.transport.abort()  # to close waits until everything is read, which may be never
            ended += 1
        self.ended += ended
        if over > 0 and now - self._said >= 1.0:
            self._said = now
            about = {"connections": len(every), "ended": self.ended}
            log.warning(
                "connections that only wait are ended: more than %d came",
                self.most,
                extra={"about": about},
            )
        return ended
