"""Building the shared object. It imports nothing but the standard library: the wheel's build does.

The object lies in a cache under a key of all that decides what it is, so that two versions of the
package, two compilers or two machines never meet. It is written under another name and moved into
place, so that processes may build at the same time.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["NAME", "BuildError", "build", "cached", "shipped"]

NAME = "_native.so"
FLAGS = (
    "-O3",
    "-std=gnu11",
    "-fPIC",
    "-shared",
    "-pthread",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-w",
)
SECONDS = 300


class BuildError(Exception):
    """Why there is no shared object."""


def shipped(folder: Path) -> Path | None:
    """The object that came with the package."""
    path = folder / NAME
    return path if path.is_file() else None


def cached(folder: Path) -> tuple[Path, str | None]:
    """The object in the cache, built where it is not there; and what of it could not be compiled.

    Raises:
        BuildError: where there is no compiler, or it makes nothing, or there is nowhere to write.
    """
    compiler = _compiler()
    sources = sorted(folder.glob("*.c"))
    key = hashlib.sha256()
    for path in sorted([*sources, *folder.glob("*.h"), *folder.glob("*.inc")]):
        key.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    made = os.stat(compiler[0])
    told = (compiler, made.st_size, made.st_mtime_ns, FLAGS, sys.platform, platform.machine())
    key.update(repr(told).encode())
    place = _cache()
    path = place / f"{key.hexdigest()[:24]}.so"
    left = path.with_suffix(".txt")
    try:
        if not path.is_file():
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place) as work:
                note = build(sources, Path(work) / NAME, compiler)
                if note is not None:
                    (Path(work) / "note").write_text(note)
                    os.replace(Path(work) / "note", left)
                os.replace(Path(work) / NAME, path)
        return path, left.read_text() if left.is_file() else None
    except OSError as error:
        raise BuildError(f"the cache {place} cannot be written ({error.strerror})") from error


def build(sources: list[Path], path: Path, compiler: list[str] | None = None) -> str | None:
    """Compile and link `sources`; give a clause about those that do not compile, None for all well.

    Raises:
        BuildError: where there is no compiler, or nothing compiles.
    """
    compiler = _compiler() if compiler is None else compiler
    end = [*map(str, sources), "-o", str(path), "-lm"]
    said = _run([*compiler, *FLAGS, *end])
    if said is None:
        return None
    objects, failed = [], []
    for source in sources:
        made = path.with_name(source.stem + ".o")
        flags = [flag for flag in FLAGS if flag != "-shared"]
        if _run([*compiler, *flags, "-c", str(source), "-o", str(made)]) is None:
            objects.append(str(made))
        else:
            failed.append(source.name)
    if not objects or _run([*compiler, *FLAGS, *objects, "-o", str(path), "-lm"]) is not None:
        raise BuildError(f"{compiler[0]} cannot build the C kernels ({said})")
    return f"{' and '.join(failed)} did not compile" if failed else None


def _compiler() -> list[str]:
    """$CC, else cc, gcc or clang."""
    asked = shlex.split(os.environ.get("CC", ""))
    for names in [asked] if asked else [["cc"], ["gcc"], ["clang"]]:
        path = shutil.which(names[0])
        if path is not None:
            return [path, *names[1:]]
    raise BuildError(f"there is no C compiler ({asked[0] if asked else 'cc'})")


def _run(command: list[str]) -> str | None:
    """None where it went well, else the first line that says why not."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0 and Path(command[command.index("-o") + 1]).is_file():
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    wrong = [line for line in lines if "error" in line] or lines
    return wrong[0] if wrong else f"it ended with {done.returncode}"


def _cache() -> Path:
    """$REGARD_CACHE, else the user's cache folder."""
    named = os.environ.get("REGARD_CACHE")
    if named:
        return Path(named) / "native"
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "regard" / "native"
    except RuntimeError as error:
        raise BuildError("there is no home folder to cache in") from error
