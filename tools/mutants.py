"""Break the kernels by hand, one place at a time: do the tests notice (`make mutants`)?

    python tools/mutants.py [--list] [--only NAME ...] [--seconds N]

Standard library only. A mutant is one plausible mistake in one file: a sign, a bound, a stride, a
dtype. `mutants_c.toml` and `mutants_python.toml` have them, each with the tests of its file:

    ["native/entropy.inc"]
    tests = ["tests/losses/test_smoothed_cross_entropy.py"]
    mutants = [
        ["name", 'the text as it is, which occurs once', 'the text as it might have been'],
    ]

A fourth element, a list, names other tests than those of the file. `src` is copied once into a
folder of its own, and so is the cache of what is compiled, so a mutant costs one C file, without
optimization, and its tests up to the first that fails. The unmutated copy passes all of them first,
or a failure would mean nothing. A mutant is killed by a test that fails, by a process that dies,
and by the time limit. One that survives, does not compile or does not apply makes the exit code 1.
"""

import argparse
import ast
import importlib.util
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

TOP = Path(__file__).resolve().parent.parent
TABLES = ("mutants_c.toml", "mutants_python.toml")
SECONDS = 120
OPTIONS = ("-x", "-q", "--tb=line", "-p", "no:cacheprovider", "--hypothesis-profile=unshrunk", "-m",
           "not slow and not gpu")  # fmt: skip
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Mutant(NamedTuple):
    """One mistake: in which file of `src/regard`, what becomes what, which tests must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: "tuple[str, ...]"

    def wrong(self, source: Path) -> "str | None":
        """Why it cannot be made of what lies in `source`, in a clause."""
        path = source / "regard" / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        count = path.read_text(encoding="utf-8").count(self.old)
        if count != 1:
            return f"its text occurs {count} times in {self.file}"
        return "it changes nothing" if self.old == self.new else None


def mutants() -> "list[Mutant]":
    """All of the tables."""
    found = []
    for table in TABLES:
        for file, said in tomllib.loads((TOP / "tools" / table).read_text("utf-8")).items():
            for name, old, new, *other in said["mutants"]:
                tests = tuple(other[0] if other else said["tests"])
                found.append(Mutant(f"{Path(file).name}:{name}", file, old, new, tests))
    return found


def missing(test: str) -> bool:
    """Whether a file, or a `file::test`, is not there."""
    file, _, name = test.partition("::")
    path = TOP / file
    if not path.is_file():
        return True
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {x.name for x in tree.body if isinstance(x, ast.FunctionDef | ast.ClassDef)}
    return bool(name) and name not in named


class Bench:
    """A copy of `src` and a cache of its own, and tests that are run with them."""

    def __init__(self, place: Path, seconds: float) -> None:
        self.source, self.cache, self.seconds = place / "src", place / "cache", seconds
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(TOP / "src", self.source, ignore=ignored)
        os.environ.update(
            PYTHONPATH=str(self.source),
            REGARD_CFLAGS="-O1",
            REGARD_CACHE=str(self.cache),
            OMP_NUM_THREADS="1",
            MKL_NUM_THREADS="1",
        )
        os.environ.pop("REGARD_NATIVE", None)
        self.build = _module(self.source / "regard" / "native" / "_build.py")

    def compiles(self) -> "str | None":
        """Build the C as it is now; a clause where it does not compile."""
        folder = self.source / "regard" / "native"
        try:
            return self.build.cached(folder)[1]
        except self.build.BuildError as error:
            return str(error)

    def run(self, *arguments: str) -> "tuple[int | None, str]":
        """The exit code (None: out of time) and what was said by Python with these arguments."""
        child = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=TOP,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = child.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return None, ""
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        return child.returncode, said

    def tests(self, *tests: str) -> "tuple[int | None, str]":
        """Run tests up to the first failure."""
        return self.run("-m", "pytest", *OPTIONS, *tests)

    def put(self, file: str, text: str) -> None:
        """Write a file of the copy, and forget what Python compiled of it."""
        path = self.source / "regard" / file
        path.write_text(text, encoding="utf-8")
        for kept in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            kept.unlink()

    def judge(self, mutant: Mutant) -> "tuple[bool, str]":
        """Whether the tests notice a mutant, and what is to be said of it."""
        wrong = mutant.wrong(self.source)
        if wrong is not None:
            return False, f"did not apply: {wrong}"
        before = (self.source / "regard" / mutant.file).read_text(encoding="utf-8")
        self.put(mutant.file, before.replace(mutant.old, mutant.new))
        try:
            if mutant.file.endswith(".py"):
                said = None
                compile(before.replace(mutant.old, mutant.new), mutant.file, "exec")
            else:
                said = self.compiles()
            if said is not None:
                return False, f"did not apply: {said}"
            return verdict(*self.tests(*mutant.tests))
        except SyntaxError as error:
            return False, f"did not apply: {error}"
        finally:
            self.put(mutant.file, before)


def verdict(code: "int | None", said: str) -> "tuple[bool, str]":
    """Whether a mutant was noticed, by pytest's exit code and what it printed."""
    if code is None:
        return True, "killed by the time limit: it hangs"
    if code < 0:
        return True, f"killed: the process died of {signal.Signals(-code).name}"
    found = FAILED.search(said)
    if code == 1 and found:
        return True, f"killed by {found[1]}"
    if code == 0:
        return False, "SURVIVED"
    lines = said.strip().splitlines()
    return False, f"did not apply: pytest ended with {code} ({lines[-1] if lines else 'silent'})"


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("regard_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the mutants and end")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="those with this in their names")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit of a mutant")
    options = parser.parse_args()
    chosen = [m for m in mutants() if any(x in m.name for x in options.only or [""])]
    if not chosen:
        print(f"mutants: no name has {' or '.join(options.only)} in it (see --list)")
        return 2
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name}  {' '.join(mutant.tests)}")
        return 0
    with tempfile.TemporaryDirectory(prefix="regard-mutants-") as place:
        return check(Bench(Path(place), options.seconds), chosen)


def check(bench: Bench, chosen: "list[Mutant]") -> int:
    """Run the unmutated tests, then each mutant's."""
    began, alive = time.monotonic(), 0
    said = bench.compiles()
    if said is not None:
        print(f"mutants: the C kernels are not to be had here: {said}")
        return 1
    code, said = bench.run("-c", "import regard; print(regard.__file__)")
    if code != 0 or not said.startswith(str(bench.source)):
        print(f"mutants: Python imports another regard than the copy: {said.strip()}")
        return 1
    limit, bench.seconds = bench.seconds, 60 * bench.seconds
    code, said = bench.tests(*sorted({test for mutant in chosen for test in mutant.tests}))
    bench.seconds = limit
    if code != 0:
        print(f"{said}\nmutants: the tests fail without a mutant, so nothing can be said")
        return 1
    print(f"as it is: {said.strip().splitlines()[-1]}", flush=True)
    for mutant in chosen:
        start = time.monotonic()
        noticed, what = bench.judge(mutant)
        alive += not noticed
        print(f"{mutant.name}: {what} ({time.monotonic() - start:.0f} s)", flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (used.ru_utime + used.ru_stime) / 60
    print(
        f"{len(chosen)} mutants, {alive} survive or do not apply "
        f"({cpu:.0f} CPU-minutes, {(time.monotonic() - began) / 60:.0f} minutes)"
    )
    return 1 if alive else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
