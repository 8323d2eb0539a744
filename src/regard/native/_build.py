"""Build the shared library. Imports only the standard library, because the wheel's build uses it.

The library is cached under a hash of everything that it depends on: version, compiler, machine. It
is written under a temporary name and moved into place. Its digest is stored beside it and checked
before each load, because loading a truncated library crashes the process. Of several processes one
builds and the others wait. The object files are cached too, so after a change only the changed
sources are compiled.
"""

import errno
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NAME", "WARNINGS", "BuildError", "build", "cached", "shipped"]

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
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wno-psabi",  # vectors are handed between functions of one level of one file alone
    "-Wno-maybe-uninitialized",  # false of arrays that are written by vectors and read by floats
    "-Werror",
)
"""What the C is free of: a test compiles it with these in place of `-w`."""
SECONDS = 300
_NAMED = re.compile(r'^\s*#\s*(?:include|define\s+TEMPLATE)\s+"([\w.]+)"', re.MULTILINE)


class BuildError(Exception):
    """The library cannot be built."""


class _Stopped(Exception):
    """The compiler was stopped before it had said anything about the source."""


def shipped(folder: Path) -> Path | None:
    """The library of the wheel."""
    path = folder / NAME
    return path if path.is_file() else None


def cached(
    folder: Path, level: int | None = None, told: Callable[[], None] = lambda: None
) -> tuple[Path, str | None]:
    """The cached library, built if necessary; and which sources could not be compiled.

    Args:
        level: the one level of instructions to compile (see `regard.h`); default: every level.
        told: called before a compilation.

    Raises:
        BuildError: no compiler, no output, or no writable folder.
    """
    compiler = _compiler()
    sources = sorted(folder.glob("*.c"))
    key = hashlib.sha256()
    for path in sorted([*sources, *folder.glob("*.h"), *folder.glob("*.inc")]):
        key.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    made = os.stat(compiler[0])
    flags = _flags(level)
    about = (compiler, made.st_size, made.st_mtime_ns, flags, sys.platform, platform.machine())
    key.update(repr(about).encode())
    place = _cache()
    path = place / f"{key.hexdigest()[:24]}.so"
    try:
        note = _whole(path)
        if note is None:
            place.mkdir(parents=True, exist_ok=True)
            with _alone(place / "lock"):
                note = _whole(path)
                if note is None:
                    told()
                    note = _into(place, path, sources, compiler, flags)
    except OSError as error:
        raise BuildError(f"the cache {place} cannot be written ({error.strerror})") from error
    return path, note or None


def _whole(path: Path) -> str | None:
    """The note stored with an intact library ("" if everything compiled); else None."""
    try:
        said = path.with_suffix(".sum").read_text(encoding="utf-8", errors="replace")
        digest, _, note = said.partition("\n")
        return note if digest == hashlib.sha256(path.read_bytes()).hexdigest() else None
    except FileNotFoundError:
        return None


def _into(
    place: Path, path: Path, sources: list[Path], compiler: list[str], flags: Sequence[str]
) -> str:
    with tempfile.TemporaryDirectory(dir=place) as work:
        made = Path(work) / NAME
        note = build(sources, made, compiler, keep=place / "objects", flags=flags) or ""
        _put(made, path, note)
    return note


def _put(made: Path, path: Path, note: str = "") -> None:
    """Move into place, digest and note first, after syncing to disk in case of a crash."""
    beside = made.with_suffix(".sum")
    said = f"{hashlib.sha256(made.read_bytes()).hexdigest()}\n{note}"
    beside.write_text(said, encoding="utf-8")
    for file, place in ((beside, path.with_suffix(".sum")), (made, path)):
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())
        os.replace(file, place)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock that other processes wait for, if the system has file locks."""
    try:
        import fcntl
    except ImportError:  # Windows: processes may build at the same time, which is only slower
        yield
        return
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(
    sources: list[Path],
    path: Path,
    compiler: list[str] | None = None,
    keep: Path | None = None,
    flags: Sequence[str] | None = None,
) -> str | None:
    """Compile and link `sources`; return a clause about those that do not compile, or None.

    Args:
        keep: a folder that caches object files.
        flags: of the compiler; default: those of every level.

    Raises:
        BuildError: no compiler, nothing compiles, or the compiler was stopped from outside.
    """
    compiler = _compiler() if compiler is None else compiler
    flags = _flags() if flags is None else flags
    told = (path.parent, compiler, keep, flags)
    with ThreadPoolExecutor(max(1, min(len(sources), os.cpu_count() or 1))) as pool:
        asked = [pool.submit(_object, source, *told) for source in sources]
    try:
        # Those that were stopped, once more, one by one: together they may have had no memory.
        made = [
            _object(source, *told) if isinstance(one.exception(), _Stopped) else one.result()
            for source, one in zip(sources, asked, strict=True)
        ]
    except _Stopped as error:  # which says nothing about the source, so it must not be cached
        raise BuildError(f"{compiler[0]} was stopped twice ({error}); is memory short?") from error
    objects = [str(file) for file, _ in made if file is not None]
    failed = [source.name for source, (file, _) in zip(sources, made, strict=True) if file is None]
    said = next((why for _, why in made if why), None)
    if objects:
        try:
            said = _run([*compiler, *flags, *objects, "-o", str(path), "-lm"]) or said
        except _Stopped as error:
            said = str(error)
    if not path.is_file():
        raise BuildError(f"{compiler[0]} cannot build the C kernels ({said})")
    return f"{' and '.join(failed)} did not compile" if failed else None


def _object(
    source: Path, work: Path, compiler: list[str], keep: Path | None, flags: Sequence[str]
) -> tuple[Path | None, str | None]:
    """The object file of one source, compiled or cached; or None and the reason.

    Raises:
        _Stopped: it is unknown whether it compiles.
    """
    read = _read_with(source)
    key = hashlib.sha256(repr((compiler, flags, os.stat(compiler[0]).st_mtime_ns)).encode())
    for path in read:
        key.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    kept = None if keep is None else keep / f"{source.stem}-{key.hexdigest()[:24]}.o"
    if kept is not None and _whole(kept) is not None:
        return kept, None
    made = work / f"{source.stem}.o"
    alone = [flag for flag in flags if flag != "-shared"]
    said = _run([*compiler, *alone, "-c", str(source), "-o", str(made)])
    if said is not None:
        return None, said
    if kept is None:
        return made, None
    kept.parent.mkdir(parents=True, exist_ok=True)
    _put(made, kept)
    return kept, None


def _read_with(source: Path) -> list[Path]:
    """A source and all files of its folder that it includes, or that these include."""
    found = [source]
    for path in found:  # grows
        names = _NAMED.findall(path.read_text(encoding="utf-8"))
        named = dict.fromkeys(path.parent / name for name in names)
        found += [one for one in named if one.is_file() and one not in found]
    return found


def _flags(level: int | None = None) -> tuple[str, ...]:
    """FLAGS, followed by $REGARD_CFLAGS, for example for sanitizers (`make sanitize`)."""
    one = () if level is None else (f"-DREGARD_ONLY={level}",)
    return (*FLAGS, *one, *shlex.split(os.environ.get("REGARD_CFLAGS", "")))


def _compiler() -> list[str]:
    """$CC, else cc, gcc or clang."""
    said = os.environ.get("CC", "")
    try:
        asked = shlex.split(said)
    except ValueError as error:
        raise BuildError(f"CC={said} is no command ({error})") from error
    for names in [asked] if asked else [["cc"], ["gcc"], ["clang"]]:
        path = shutil.which(names[0])
        if path is not None:
            return [path, *names[1:]]
    raise BuildError(f"there is no C compiler ({asked[0] if asked else 'cc'})")


def _run(command: list[str]) -> str | None:
    """None on success, else the first line of the error.

    Raises:
        _Stopped: by a signal, after `SECONDS`, or before it began, where memory is short.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _Stopped(str(error)) from error
    except OSError as error:
        if error.errno in (errno.ENOMEM, errno.EAGAIN):
            raise _Stopped(str(error)) from error
        return str(error)
    if done.returncode == 0 and Path(command[command.index("-o") + 1]).is_file():
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    wrong = [line for line in lines if "error" in line] or lines
    if done.returncode < 0:
        raise _Stopped(f"by signal {-done.returncode}")
    if killed := [line for line in lines if "signal terminated program" in line]:
        raise _Stopped(killed[0])  # the driver of GCC goes on without its compiler
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
