"""Run tests with the C kernels built under AddressSanitizer and UBSan (for `make sanitize`).

    python tools/sanitize.py [pytest's options]

Standard library only. A read or write outside its memory, and whatever C leaves undefined, ends the
run with a report of the line. Leaks are not looked for: Python keeps what it has until the end.
Without a compiler that has the sanitizers it says so, and gives 0: there is nothing to check.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
FLAGS = (
    "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1"
)
LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so.6")
"""Loaded before Python; the last one so that exceptions of PyTorch are known from the start."""


def main() -> int:
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    found = [where(compiler, name) for name in LIBRARIES]
    if not all(found):
        missing = [n for n, path in zip(LIBRARIES, found, strict=True) if not path]
        print(f"sanitize: {compiler[0]} has no {', '.join(missing)}: nothing was checked")
        return 0
    environment = {
        **os.environ,
        "CC": shlex.join(compiler),
        "REGARD_CFLAGS": FLAGS,
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "REGARD_SANITIZED": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    return subprocess.run(command, cwd=TOP, env=environment, check=False).returncode


def where(compiler: "list[str]", name: str) -> str:
    """The path of a library that comes with the compiler; "" where there is none."""
    try:
        asked = subprocess.run(
            [*compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    path = asked.stdout.strip()
    return path if asked.returncode == 0 and os.path.isabs(path) else ""


if __name__ == "__main__":
    sys.exit(main())
