"""How far a command is, on stderr: a bar on a terminal, a line now and then elsewhere."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regard.cli._common import say

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["Count", "counted"]

EVERY = 10.0
"""Seconds between two lines; what takes less says nothing."""


class Count:
    """Counts inputs, and says so."""

    def __init__(self, what: str, total: int | None = None, *, quiet: bool = False) -> None:
        self.what, self.total, self.done, self.quiet = what, total, 0, quiet
        self._began = self._said = time.monotonic()
        talks = logging.getLogger("regard").isEnabledFor(logging.INFO)
        shown = talks and sys.stderr.isatty() and not quiet
        self._bar = _bar(what, total) if shown else None

    def add(self, more: int) -> None:
        """So many more are done."""
        self.done += more
        now = time.monotonic()
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, completed=self.done, total=self.total)
        elif not self.quiet and now - self._said >= EVERY:
            self._said = now
            of = f" of {self.total:,}" if self.total else ""
            rate = self.done / (now - self._began)
            say(f"{self.done:,}{of} {self.what}, {rate:.{0 if rate >= 10 else 1}f} a second")

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar[0].stop()


def _bar(what: str, total: int | None) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        refresh_per_second=2,
        transient=True,
    )
    bar.start()
    return bar, bar.add_task("", total=total)


class _Counting:
    """A decoder whose sentences are counted as they are decoded; else it is the decoder."""

    def __init__(self, decoder: Any, count: Count) -> None:
        self._decoder, self._count = decoder, count

    def __call__(self, model: Any, source: Any, *rest: Any, **more: Any) -> Any:
        found = self._decoder(model, source, *rest, **more)
        self._count.add(len(source))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


@contextmanager
def counted(loaded: "Loaded", what: str, *, quiet: bool = False) -> Iterator["Loaded"]:
    """The same model, which says how many inputs it has decoded.

    Args:
        quiet: results stand on the terminal as they come, and say it themselves.
    """
    count = Count(what, quiet=quiet)
    try:
        yield replace(loaded, decoder=_Counting(loaded.decoder, count))
    finally:
        count.close()
