"""`make fuzz`: many broken inputs to every reader, each with a result or a refusal in our words.

    python -m tests.fuzz.run                      every target, 300 inputs each
    python -m tests.fuzz.run --inputs 20000       more of them
    python -m tests.fuzz.run tsv seen --minutes 5 these, as many as go
    python -m tests.fuzz.run --again seen:1:577   one input again, with the trace of its error

An input is made from (target, seed, number) alone. Inputs are read in a process of their own,
which may take `--megabytes` more memory than it has at the beginning and `--seconds` for each of
them; one that crashes or hangs is killed, and the next process goes on behind its input. Findings
are written to `--out`, a line of JSON each; the exit code is 1 where there is any.
"""

import argparse
import faulthandler
import json
import logging
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from tests.forked import forked
from tests.fuzz.targets import MAKERS, Target, target

__all__ = ["Finding", "input_of", "main", "tried"]

LONGEST = 2_000
"""Characters of a refusal; it is to be read by people."""

Finding = dict[str, Any]


class Hang(BaseException):
    """An input took too long."""


def input_of(one: Target, name: str, seed: int, number: int) -> bytes:
    """The input of a number; the seeds themselves come first."""
    if number < len(one.seeds):
        return one.seeds[number]
    return one.mutate(random.Random(f"{name}:{seed}:{number}"), one.seeds)


def tried(one: Target, content: bytes) -> tuple[str, str, str] | None:
    """What is wrong with how an input was taken: (kind, what was said, where); None: nothing."""
    from regard.errors import RegardError

    try:
        one.use(content)
    except RegardError as error:
        said = str(error)
        if not said or "\n" in said or len(said) > LONGEST:
            return "no sentence", said, _place(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return type(error).__name__, str(error), _place(error)
    return None


def _place(error: BaseException) -> str:
    """The last two lines of regard's that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f"{os.sep}regard{os.sep}" in f.filename] or frames[-1:]
    return " < ".join(
        f"{f.filename.rpartition(os.sep + 'regard' + os.sep)[2]}:{f.lineno}"
        for f in reversed(own[-2:])
    )


def _child(name: str, options: Any, start: int, end: float, counter: mmap.mmap, out: Path) -> None:
    """Inputs from `start` on; findings go to a file, the number of the present one to memory."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    faulthandler.disable()
    sys.setswitchinterval(0.05)
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-", dir=options.folder))
    os.chdir(folder)  # nothing that an input names is found by chance
    try:
        made = target(name, folder / "files")
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + options.megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

        def stop(*_: object) -> None:
            raise Hang(f"more than {options.seconds} s")

        signal.signal(signal.SIGPROF, stop)
        with out.open("a") as file:
            for number in range(start, options.inputs):
                if time.monotonic() > end:
                    break
                counter[:8] = struct.pack("<q", number)
                content = input_of(made, name, options.seed, number)
                signal.setitimer(signal.ITIMER_PROF, options.seconds)
                try:
                    found = tried(made, content)
                except Hang as error:  # it came between two lines of ours
                    found = ("Hang", str(error), "")
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0)
                if found is not None:
                    kind, said, place = found
                    told = {"target": name, "seed": options.seed, "number": number, "kind": kind,
                            "said": said[:300], "place": place}  # fmt: skip
                    file.write(json.dumps(told) + "\n")
                    file.flush()
            else:
                number = options.inputs
            counter[8:16] = struct.pack("<q", number)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)


def _prepare() -> None:
    """Import once what every process needs."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would not outlive a fork
    import torch

    import regard.folder.reading  # noqa: F401

    torch.set_num_threads(1)


def _fuzz(name: str, options: Any, out: Path) -> int:
    """All inputs of a target; how many were read."""
    counter = mmap.mmap(-1, 16)
    begun = time.monotonic()
    start, end = 0, begun + (options.minutes * 60 if options.minutes else 1e9)
    while start < options.inputs and time.monotonic() < end:
        counter[:16] = struct.pack("<qq", start - 1, -1)
        child = forked(partial(_child, name, options, start, end, counter, out))
        died = _watch(child, counter, options.seconds)
        at, done = struct.unpack("<qq", counter[:16])
        if done >= 0:
            start = done
            break
        told = {"target": name, "seed": options.seed, "number": at, "kind": died, "said": "",
                "place": name}  # fmt: skip
        with out.open("a") as file:
            file.write(json.dumps(told) + "\n")
        if at < start:  # it did not come to an input
            break
        start = at + 1
    took = time.monotonic() - begun
    print(f"{name:20} {start:9,} inputs  {took:7.1f} s  {start / max(took, 1e-9):8,.0f}/s",
          flush=True)  # fmt: skip
    return start


def _watch(child: int, counter: mmap.mmap, seconds: float) -> str:
    """Wait for a process; one that stays at an input is killed. How it ended."""
    last, since = None, time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "ended" if status == 0 else f"crash {os.waitstatus_to_exitcode(status)}"
        now = counter[:8]
        if now != last:
            last, since = now, time.monotonic()
        # The first input waits for what is made and imported before it.
        if time.monotonic() - since > 12 * seconds + (60 if last == struct.pack("<q", -1) else 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hang"
        time.sleep(0.05)


def _again(told: str) -> int:
    """One input again."""
    name, seed, number = told.split(":")
    with tempfile.TemporaryDirectory() as folder:
        made = target(name, Path(folder) / "files")
        content = input_of(made, name, int(seed), int(number))
        print(f"{len(content)} bytes: {content[:2000]!r}", flush=True)
        print(made.use(content))
    return 0


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Broken inputs to every reader.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(MAKERS))
    parser.add_argument("--inputs", type=int, default=300, help="of each target")
    parser.add_argument("--minutes", type=float, default=0.0, help="at most, for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0, help="of the CPU, for an input")
    parser.add_argument("--megabytes", type=int, default=768, help="of memory, beside the first")
    parser.add_argument("--out", type=Path, default=None, help="a file of findings")
    parser.add_argument("--folder", default=None, help="where inputs are written")
    parser.add_argument("--again", metavar="TARGET:SEED:NUMBER")
    options = parser.parse_args(words)
    if options.again:
        return _again(options.again)
    unknown = [name for name in options.targets if name not in MAKERS]
    if unknown:
        parser.error(f"no target {unknown[0]!r}; there are {', '.join(MAKERS)}")
    memory = Path("/dev/shm")
    options.folder = options.folder or (str(memory) if os.access(memory, os.W_OK) else None)
    out = options.out or Path(tempfile.mkdtemp(prefix="fuzz-")) / "findings.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.touch()
    before, begun = out.stat().st_size, time.monotonic()
    _prepare()
    total = sum(_fuzz(name, options, out.resolve()) for name in options.targets or MAKERS)
    with out.open() as file:
        file.seek(before)
        found = [json.loads(line) for line in file]
    places: dict[tuple[str, str, str], list[Finding]] = {}
    for one in found:
        places.setdefault((one["target"], one["kind"], one["place"]), []).append(one)
    for (name, kind, place), several in places.items():
        first = several[0]
        print(f"{name}: {kind} at {place} ({len(several)} times): {first['said'][:160]!r}\n"
              f"    --again {name}:{first['seed']}:{first['number']}")  # fmt: skip
    took = (time.monotonic() - begun) / 60
    print(f"{total:,} inputs in {took:.1f} minutes; {len(places)} places with findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
