"""Runs pytest; with RERUN=1 in the environment, what failed once more, alone.

    python tools/tests.py -n 2 -m slow        # pytest -q -n 2 -m slow
    RERUN=1 python tools/tests.py -n 2 -m slow
    python tools/tests.py --forks 3           # in forked processes (tests/forks.py)

Many slow tests kill processes at random moments, or wait for one, beside another test on the same
machine. CI fails where a test fails twice, the second time with nothing beside it. What failed once
is named. A run that broke off, or could not collect its tests, is not run again.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

FAILED = 1
"""pytest's exit code where all was run and some of it failed."""
ALONE = ("-n", "0", "--last-failed", "--last-failed-no-failures=none", "-x", "-rA", "--tb=short")


def spread(words: Sequence[str], system: str = sys.platform) -> tuple[list[str], list[str]]:
    """What asks for several processes, in the words of the system, and the other words."""
    if "--forks" not in words:
        return [], list(words)
    at = words.index("--forks")
    count = words[at + 1]
    several = ["-p", "tests.forks", "--forks", count] if system == "linux" else ["-n", count]
    return several, [*words[:at], *words[at + 2 :]]


def run(words: Sequence[str], rerun: bool) -> int:
    """pytest's exit code: of the second run, where there is one."""
    several, words = spread(words)
    pytest = [sys.executable, "-m", "pytest", "-q", *words]
    # Compiled modules are kept, also where the surroundings forbid it: pytest's rewriting of
    # assertions and the checks of shapes take a third of the collection, in each process.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    code = subprocess.run([*pytest, *several], check=False, env=env).returncode
    if code != FAILED or not rerun:
        return code
    print("tests: what failed runs once more, alone", flush=True)
    code = subprocess.run([*pytest, *ALONE], check=False, env=env).returncode
    if code == 0:
        print("tests: all that failed passed when run again", flush=True)
    return code


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:], os.environ.get("RERUN") == "1"))
