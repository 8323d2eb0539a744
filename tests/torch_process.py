"""Programs in processes of their own that need not import PyTorch: each in a fork of one that has.

To import PyTorch takes most of the time of a small program. Nothing of ours is imported before.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

SERVER = """
import json, os, sys
import torch
for line in sys.stdin:
    code, words, env, folder, out, err = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    import traceback
    for name, number in ((os.devnull, 0), (out, 1), (err, 2)):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.argv[1:] = words
    status = 0
    try:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1 if end.code else 0
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        status = 1
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
"""


class TorchProcess:
    """A Python that has imported PyTorch, and waits for programs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, code: str, *words: str, cwd: Path | str = ".", **env: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run the program, with `env` added to the environment."""
        self.count += 1
        out, err = (self.folder / f"{self.count}.{kind}" for kind in ("out", "err"))
        asked = code, words, {**os.environ, **env}, os.path.abspath(cwd), str(out), str(err)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        return subprocess.CompletedProcess([code, *words], status, out.read_text(), err.read_text())

    def close(self) -> None:
        with suppress(OSError):
            self.process.communicate()


@pytest.fixture(scope="session")
def torch_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not hasattr(os, "fork"):
        pytest.skip("processes do not fork here")
    made = TorchProcess(tmp_path_factory.mktemp("torch"))
    yield made
    made.close()
