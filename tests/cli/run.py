"""How the tests call the command line: in this process, with what it wrote and its exit code."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.cli.app import main

SOURCE = Path(__file__).parents[2] / "src"


@dataclass
class Ran:
    """One run."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> Any:
        """The JSON object on the last line; every line must be JSON."""
        return [json.loads(line) for line in self.out.splitlines()][-1]


def run(capsys: Any, *words: str) -> Ran:
    """`regard WORDS`, in this process."""
    capsys.readouterr()
    code = main(words)
    out, err = capsys.readouterr()
    return Ran(code, out, err)


def run_alone(*words: str, python: tuple[str, ...] = ("-m", "regard"), **more: str) -> Ran:
    """`regard WORDS` in a process of its own, with `more` environment variables."""
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *python, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **more},
        timeout=120,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
