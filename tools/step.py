"""Run a command, pass its output on, and show that it lives: a line at least every 5 seconds.

    python tools/step.py --label mypy -- mypy --strict src

Standard library only. The exit code is the command's.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time

EVERY = 4.0  # seconds without a finished line before one is shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--label", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    shown = Shown(options.label)
    shown.line("starts")
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        shown.line(f"cannot run {command[0]}: {error.strerror}")
        return 127
    # Ctrl-C reaches the child by itself: stay, and pass on what it says while it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    over = threading.Event()
    watcher = threading.Thread(target=watch, args=(shown, over), daemon=True)
    watcher.start()
    assert child.stdout is not None
    while piece := os.read(child.stdout.fileno(), 65536):
        shown.write(piece)
    code = child.wait()
    over.set()
    watcher.join()
    shown.end()
    return code if code >= 0 else 128 - code


class Shown:
    """What is on the screen: the command's own bytes, and our lines between its lines."""

    def __init__(self, label: str) -> None:
        self.label, self.began, self.last, self.whole = label, time.monotonic(), 0.0, True
        self.lock = threading.Lock()

    def write(self, piece: bytes) -> None:
        with self.lock:
            self._put(piece)
            self.whole = piece.endswith(b"\n")
            if b"\n" in piece:
                self.last = time.monotonic()

    def line(self, text: str) -> None:
        with self.lock:
            start = b"" if self.whole else b"\n"
            self._put(start + f"[{self.label}] {text}\n".encode())
            self.whole, self.last = True, time.monotonic()

    def end(self) -> None:
        with self.lock:
            if not self.whole:
                self._put(b"\n")

    def _put(self, piece: bytes) -> None:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


def watch(shown: Shown, over: threading.Event) -> None:
    while not over.wait(0.5):
        if time.monotonic() - shown.last >= EVERY:
            shown.line(f"{time.monotonic() - shown.began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
