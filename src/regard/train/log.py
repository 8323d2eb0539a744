"""The log of a training: JSON in a file, a bar on a terminal, a line per interval elsewhere."""

import json
import logging
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.system.files import said_of

__all__ = ["Log"]

_talk = logging.getLogger("regard.train")


class Log:
    """The log of one run.

    Args:
        file: the file of JSON lines; None: no file (in processes other than the first).
        length: the length of the file at the checkpoint to continue from; later lines are dropped,
            because their steps are repeated.
        bar: show a progress bar if stderr is a terminal.
    """

    def __init__(self, file: Path | None, *, length: int = 0, bar: bool = True) -> None:
        """Open the file, cut to `length` bytes."""
        self._file = None
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._file = file.open("ab", buffering=0)  # nothing is left over to fail in `close`
            self._file.truncate(min(length, self._file.tell()))
        self._bar = _Bar() if bar and file is not None and sys.stderr.isatty() else None
        self._said = 0.0

    @property
    def length(self) -> int:
        """The size of the file in bytes, saved in checkpoints."""
        return self._file.seek(0, os.SEEK_END) if self._file else 0

    def write(self, **values: Any) -> None:
        """Write one line of JSON."""
        if self._file:
            line = json.dumps(_finite(values)).encode() + b"\n"
            try:
                while line:
                    line = line[self._file.write(line) :]
            except OSError as error:
                name = self._file.name
                raise RegardError(f"{name}: could not be written: {said_of(error)}") from error

    def train(self, values: Mapping[str, Any], progress: float) -> None:
        """Log an interval of training; print at most about one line in five seconds."""
        self.write(**values)
        if self._file is None:
            return
        if self._bar:
            self._bar.show(values, progress)
        elif time.monotonic() - self._said >= 4.5:
            self._said = time.monotonic()
            _talk.info("%s", _line(values, progress))

    def say(self, text: str) -> None:
        """Print a line, from one process only."""
        if self._file is None:
            return
        if self._bar:
            self._bar.print(text)
        else:
            _talk.info("%s", text)

    def close(self) -> None:
        """Close the file and remove the bar."""
        if self._bar:
            self._bar.stop()
        if self._file:
            self._file.close()


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _line(values: Mapping[str, Any], progress: float) -> str:
    return (
        f"step {values['step']} ({100 * progress:.0f} %)  loss {values['loss']:.3f}  "
        f"lr {values['lr']:.2e}  {values['tokens/s']:.0f} tokens/s  "
        f"norm {values['norm']:.2f}  {values['cpu']:.0f} s CPU"
    )


class _Bar:
    """A progress bar by rich, below the printed lines."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            refresh_per_second=2,
            transient=True,
        )
        self.task = self.progress.add_task("", total=1.0)
        self.progress.start()

    def show(self, values: Mapping[str, Any], progress: float) -> None:
        self.progress.update(
            self.task,
            completed=progress,
            description=f"step {values['step']}  loss {values['loss']:.3f}  "
            f"{values['tokens/s']:.0f} tokens/s",
        )

    def print(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False)

    def stop(self) -> None:
        self.progress.stop()
