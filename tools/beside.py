"""Runs jobs beside a command: their output is shown whole when each ends.

    python tools/beside.py --job mypy mypy --strict src --job lint ruff check . --then pytest -q

Standard library only. The exit code is the command's, or else that of a job that failed. pytest's
5, no test was selected, is no failure of a job. Where the command is interrupted, all jobs end.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from types import FrameType

NO_TESTS = 5
EVERY = 4.0  # seconds without an ended job before one that still runs is named


class Job:
    """A command in a session of its own, whose output is kept until it ends."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name, self.began = name, time.monotonic()
        self.output = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        self.waiter = threading.Thread(target=self._wait, daemon=True)
        self.waiter.start()

    def _wait(self) -> None:
        code = self.process.wait()
        self.output.seek(0)
        how = "ended" if code in (0, NO_TESTS) else f"failed with exit code {code}"
        title = f"\n[{self.name}] {how} after {time.monotonic() - self.began:.0f} s\n"
        sys.stdout.buffer.write(title.encode() + self.output.read())
        sys.stdout.buffer.flush()

    def code(self) -> int:
        """Its exit code, when it has ended."""
        while self.waiter.is_alive():
            self.waiter.join(EVERY)
            if self.waiter.is_alive():
                print(f"[{self.name}] {time.monotonic() - self.began:.0f} s", flush=True)
        code = self.process.returncode
        return 0 if code == NO_TESTS else 128 - code if code < 0 else code

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)


class Signals:
    """Raise KeyboardInterrupt, but not before all jobs are known: one that starts would stay."""

    def __init__(self) -> None:
        self.held, self.came = True, False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle)

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        if not self.held:
            raise KeyboardInterrupt

    def release(self) -> None:
        self.held = False
        if self.came:
            raise KeyboardInterrupt


def parsed(words: Sequence[str]) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Names and commands of the jobs, and the command."""
    at = words.index("--then")
    starts = [n for n in range(at) if words[n] == "--job"]
    jobs = [
        (words[start + 1], list(words[start + 2 : stop]))
        for start, stop in zip(starts, [*starts[1:], at], strict=True)
    ]
    return jobs, list(words[at + 1 :])


def main(words: Sequence[str]) -> int:
    wanted, command = parsed(words)
    signals = Signals()
    jobs: list[Job] = []
    try:
        for name, own in wanted:
            jobs.append(Job(name, own))
        signals.release()
        code = subprocess.run(command, check=False).returncode
        return next((one for one in (code, *(job.code() for job in jobs)) if one), 0)
    except KeyboardInterrupt:
        return 130
    finally:
        for job in jobs:
            job.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
