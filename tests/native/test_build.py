"""The shared object: found, built, broken, missing, switched off; its levels and its threads."""

import os
import subprocess
import sys
import threading
from ctypes import CDLL
from pathlib import Path

import pytest
import torch

from regard import native
from regard.attention import Additive, Attention, explain
from regard.attention._ops.cpu import additive as c
from regard.native import _build, loading

FOLDER = Path(_build.__file__).parent
VECTORS = "#include <immintrin.h>\n"
SMALL = """#include "regard.h"
REGARD_API int regard_answer(void) { return 42; }
"""


@pytest.fixture
def fresh(monkeypatch):
    """Nothing found yet, no level forced, and nothing kept afterwards."""
    for name in ("REGARD_LEVEL", "REGARD_AVX_VNNI"):
        monkeypatch.delenv(name, raising=False)
    native.reset()
    yield
    native.reset()


@pytest.fixture
def sources(tmp_path):
    """A folder like the package's with a source of our own.

    To read the header of vectors takes most of a compiler's time here.
    """
    folder = tmp_path / "sources"
    folder.mkdir()
    header = (FOLDER / "regard.h").read_text()
    assert VECTORS in header
    (folder / "regard.h").write_text(header.replace(VECTORS, ""))
    (folder / "threads.c").write_text((FOLDER / "threads.c").read_text())
    (folder / "small.c").write_text(SMALL)
    return folder


def need_compiler():
    try:
        _build._compiler()
    except _build.BuildError:
        pytest.skip("no C compiler here")


def test_it_is_built_once_into_the_cache(sources, tmp_path, monkeypatch):
    need_compiler()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    path, note = _build.cached(sources)
    assert note is None
    assert path.parent == tmp_path / "cache" / "native"
    assert CDLL(str(path)).regard_answer() == 42
    stamp = path.stat().st_mtime_ns
    assert _build.cached(sources) == (path, None)
    assert path.stat().st_mtime_ns == stamp
    left = {p.name for p in path.parent.iterdir()} - {"lock", "objects"}
    assert left == {path.name, path.with_suffix(".sum").name}  # nothing half done
    (sources / "small.c").write_text(SMALL.replace("42", "43"))
    other, _ = _build.cached(sources)
    assert other != path
    assert CDLL(str(other)).regard_answer() == 43


def test_where_the_cache_is(tmp_path, monkeypatch):
    monkeypatch.delenv("REGARD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _build._cache() == tmp_path / "regard" / "native"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert _build._cache() == tmp_path / "home" / ".cache" / "regard" / "native"


def test_a_source_that_does_not_compile_takes_no_other_down(sources, tmp_path, monkeypatch):
    need_compiler()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (sources / "wrong.c").write_text("int broken(\n")
    for _ in range(2):  # built, then found
        path, note = _build.cached(sources)
        assert note == "wrong.c did not compile"
        assert CDLL(str(path)).regard_answer() == 42


KILLED = """#!/bin/sh
case "$*" in *" -c "*small.c*)
  echo x >> {count}
  if [ $(wc -l < {count}) -le {times} ]; then {how}; fi;;
esac
exec {compiler} "$@"
"""
HOW = {
    "itself": "kill -9 $$",
    "its program": "echo 'cc: Killed signal terminated program cc1' >&2; exit 1",
}


@pytest.mark.parametrize("how", HOW)
def test_a_compiler_that_was_killed_says_nothing_about_the_source(
    how, sources, tmp_path, monkeypatch
):
    need_compiler()
    compiler, cc, count = _build._compiler()[0], tmp_path / "cc", tmp_path / "count"
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(cc))
    cc.write_text(KILLED.format(count=count, times=3, how=HOW[how], compiler=compiler))
    cc.chmod(0o755)
    with pytest.raises(_build.BuildError, match=r"stopped twice .*is memory short"):
        _build.cached(sources)
    path, note = _build.cached(sources)  # killed once more, then compiled alone
    assert note is None
    assert CDLL(str(path)).regard_answer() == 42
    assert count.read_text() == "x\n" * 4


def test_builds_at_the_same_time_all_get_a_whole_object(sources, tmp_path, monkeypatch):
    need_compiler()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    found, wrong = [], []

    def build():
        try:
            path, _ = _build.cached(sources)
            found.append((path, CDLL(str(path)).regard_answer()))
        except Exception as error:
            wrong.append(error)

    workers = [threading.Thread(target=build) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert {answer for _, answer in found} == {42}
    assert len({path for path, _ in found}) == 1


@pytest.mark.parametrize("harm", ["cut", "zeros", "other", "no sum", "strange sum"])
def test_a_broken_object_in_the_cache_is_built_anew(harm, sources, tmp_path, monkeypatch):
    """Opened as it is, half an object ends Python with a bus error."""
    need_compiler()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (sources / "wrong.c").write_text("int broken(\n")
    path, note = _build.cached(sources)
    beside, whole = path.with_suffix(".sum"), path.read_bytes()
    if "sum" in harm:
        beside.unlink() if harm == "no sum" else beside.write_bytes(b"\xff\n")
    else:
        path.write_bytes(
            {"cut": whole[:1000], "zeros": bytes(len(whole)), "other": whole + b"!"}[harm]
        )
    assert _build.cached(sources) == (path, note)
    assert CDLL(str(path)).regard_answer() == 42
    stamp = path.stat().st_mtime_ns
    assert _build.cached(sources) == (path, "wrong.c did not compile")
    assert path.stat().st_mtime_ns == stamp


def test_a_change_in_a_file_that_is_included_by_another_is_compiled(tmp_path):
    seen = '__attribute__((visibility("default")))'
    text = f'#include "b.inc"\n{seen} int a(void) {{ return NUMBER; }}\n'
    (tmp_path / "a.c").write_text(text)
    (tmp_path / "b.inc").write_text('#define TEMPLATE "c.inc"\n#include TEMPLATE\n')
    found = []
    for number in (3, 4, 4):
        (tmp_path / "c.inc").write_text(f"#define NUMBER {number}\n")
        path = tmp_path / f"{len(found)}.so"
        assert _build.build([tmp_path / "a.c"], path, keep=tmp_path / "objects") is None
        found.append(CDLL(str(path)).a())
    assert found == [3, 4, 4]
    assert len(list((tmp_path / "objects").glob("*.o"))) == 2


def test_a_broken_object_that_was_kept_is_compiled_again(sources, tmp_path, monkeypatch):
    need_compiler()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    path, _ = _build.cached(sources)
    for kept in (path.parent / "objects").glob("*.o"):
        kept.write_bytes(kept.read_bytes()[:100])
    path.unlink()
    assert _build.cached(sources) == (path, None)
    assert CDLL(str(path)).regard_answer() == 42


@pytest.mark.parametrize("compiler", ["/nowhere/cc", "false", "true", 'cc "'])
def test_a_missing_or_broken_compiler_is_no_error(compiler, fresh, tmp_path, monkeypatch):
    """`false` fails; `true` says it went well and makes nothing; the last is no command."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setattr(loading, "shipped", lambda folder: None)
    assert native.library() is None
    assert compiler.split("/")[-1] in native.missing()
    assert native.raw("regard_get_level") is None
    assert native.level() == "none"
    layer = Attention(score=Additive(4, 4, 4))
    x = torch.randn(2, 3, 4, requires_grad=True)
    layer(x, x).context.sum().backward()
    assert x.grad.isfinite().all()
    said = str(explain(layer)[""])
    assert said.startswith("streaming (PyTorch blocks: no C, ")
    with native.at_level("portable"):
        assert native.library() is None


def test_a_cache_that_cannot_be_written_is_no_error(fresh, tmp_path, monkeypatch):
    need_compiler()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(loading, "shipped", lambda folder: None)
    assert native.library() is None
    assert "cannot be written" in native.missing()


def test_an_object_for_another_machine_is_built_anew(fresh, sources, tmp_path, monkeypatch):
    need_compiler()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (sources / _build.NAME).write_bytes(b"not an object")
    monkeypatch.setattr(loading, "FOLDER", sources)
    assert native.library().regard_answer() == 42


def test_what_is_shipped_is_taken_and_no_compiler_asked(fresh, sources, monkeypatch):
    need_compiler()
    assert _build.build(sorted(sources.glob("*.c")), sources / _build.NAME) is None
    monkeypatch.setattr(loading, "FOLDER", sources)
    monkeypatch.setenv("CC", "/nowhere/cc")
    assert native.library().regard_answer() == 42
    assert native.missing() is None


def test_switched_off(fresh, monkeypatch):
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert native.library() is None
    assert native.missing() == "REGARD_NATIVE=0 switches it off"
    assert c.unsupported_reason() == "no C, REGARD_NATIVE=0 switches it off"


@pytest.mark.nohook
def test_the_package_works_in_a_process_without_it(torch_process):
    code = (
        "import torch; from regard.attention import *\n"
        "layer = Attention(score=Additive(4, 4, 4)); x = torch.randn(2, 3, 4)\n"
        "memory = layer.remember(x)\n"
        "assert isinstance(memory.prepared, torch.Tensor)\n"
        "assert layer(x, memory).context.shape == (2, 3, 4)\n"
        "print(explain(layer)[''])"
    )
    done = torch_process.run(code, REGARD_NATIVE="0")
    assert "REGARD_NATIVE=0" in done.stdout, done.stderr


def test_levels_can_be_forced_down_and_come_back():
    if native.library() is None:
        pytest.skip(native.missing())
    best = native.level()
    with native.at_level("portable"):
        assert native.level() == "portable"
    with native.at_level("AVX-512"):
        assert native.level() == best
    assert native.level() == best


def test_a_variable_forces_the_level_of_a_process(torch_process):
    if native.library() is None:
        pytest.skip(native.missing())
    code = """
import os
from regard import native
print(native.level())
with native.at_level("AVX-512"):
    print(native.level())
print(native.level())
"""
    for name, said in (("portable", "portable\n" * 3), ("AVX", "")):
        done = torch_process.run(code, REGARD_LEVEL=name)
        assert done.stdout == said
        assert bool(done.returncode) is not bool(said)
    assert "REGARD_LEVEL: expected one of portable, AVX2, AVX-512, got 'AVX'" in done.stderr


@pytest.fixture
def leveled(sources):
    """Small sources with a function that says for which level it was compiled."""
    for name in ("levels.h", "cpu_level.c"):
        (sources / name).write_text((FOLDER / name).read_text())
    (sources / "lanes.h").write_text("")  # operations on vectors, which this function has none of
    (sources / "small.inc").write_text("static int NAME(lanes)(void) { return LANES; }\n")
    (sources / "small.c").write_text(LEVELED)
    return sources


LEVELED = """#include "regard.h"
#define TEMPLATE "small.inc"
#include "levels.h"
REGARD_API int regard_answer(void) { int n; n = 0; REGARD_DISPATCH(n = lanes, ()); return n; }
"""


@pytest.mark.parametrize("forced", ["", "AVX2", "portable"])
def test_one_level_is_compiled_at_first_and_all_when_another_is_asked(
    forced, fresh, leveled, tmp_path, monkeypatch, caplog
):
    need_compiler()
    best = native.level()
    if best == "portable":
        pytest.skip("there is one level alone")
    if not forced and os.environ.get("ATEN_CPU_CAPABILITY"):
        pytest.skip("the first library has the level that PyTorch is held to, the next has all")
    native.reset()
    caplog.clear()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_NATIVE", "1")
    monkeypatch.setenv("REGARD_LEVEL", forced)
    monkeypatch.setattr(loading, "FOLDER", leveled)
    monkeypatch.setattr(loading, "_all", False)
    first = forced or best
    lanes = {"portable": 4, "AVX2": 8, "AVX-512": 16}
    assert native.level() == first
    assert native.library().regard_answer() == lanes[first]
    with native.at_level("AVX-512"):
        assert native.level() == first
    assert [r.getMessage() for r in caplog.records] == [
        f"compiling the C kernels for {first}, once: this takes about a minute"
    ]
    text = Path(native.library()._name).read_bytes()
    assert not [n for n in lanes if n != first and f"lanes_{n}".encode() in text]
    with native.at_level("portable"):
        assert native.level() == "portable"
        assert native.library().regard_answer() == 4
    assert native.level() == first
    assert native.library().regard_answer() == lanes[first]
    assert len(caplog.records) == (1 if forced == "portable" else 2)
    native.reset()
    assert native.level() == first
    assert len(caplog.records) == (1 if forced == "portable" else 2), "found in the cache"


def test_threads_are_few_for_little_work(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert native.threads(10) == 1
    assert native.threads(10**9) == 4
    assert native.threads(2 * native.GRAIN) == 2


def hook(root, code, **environment):
    """What the wheel's hook does with the sources under `root`; then `code`."""
    return subprocess.run(
        [sys.executable, "-c", HOOK + code, str(root)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def checkout(sources, tmp_path):
    """A folder like the repository with the small sources in it."""
    top = FOLDER.parents[2]
    if not (top / "hatch_build.py").is_file():
        pytest.skip("an installed package has no hook")
    folder = tmp_path / "top" / "src" / "regard" / "native"
    folder.parent.mkdir(parents=True)
    (tmp_path / "top" / "hatch_build.py").write_text((top / "hatch_build.py").read_text())
    sources.rename(folder)
    (folder / "_build.py").write_text((FOLDER / "_build.py").read_text())
    page = Path("viewer") / "page" / "scripts.py"  # without esbuild: nothing is packed
    (folder.parent / page).parent.mkdir(parents=True)
    (folder.parent / page).write_text((FOLDER.parent / page).read_text())
    return tmp_path / "top"


def test_the_build_hook_ships_the_object(checkout):
    need_compiler()
    done = hook(checkout, SHIPS, REGARD_NATIVE="require")
    assert done.returncode == 0, done.stderr
    tag, target = done.stdout.split()
    assert tag.startswith("py3-none-")
    assert target == "regard/native/_native.so"


def test_the_build_hook_says_that_pages_stay_long(checkout):
    need_compiler()
    done = hook(checkout, SHIPS)
    assert "no esbuild" in done.stdout + done.stderr
    strict = hook(checkout, SHIPS, REGARD_PAGES="require")
    assert strict.returncode == 1
    assert strict.stderr.splitlines()[-1].startswith("RuntimeError: pages stay long: no esbuild")


def test_the_build_hook_takes_the_tag_of_another_platform(checkout):
    """As tools/wheels.py asks for it, with a compiler for that platform."""
    need_compiler()
    done = hook(checkout, SHIPS, REGARD_NATIVE="require", REGARD_WHEEL_PLATFORM="win_amd64")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "py3-none-win_amd64"


@pytest.mark.parametrize("compiler", ["half", "/nowhere/cc", "false", "true", 'cc "'])
def test_the_build_hook_ships_none_where_not_all_compile(compiler, checkout, monkeypatch):
    """As on the cache's road: a user who installs from source gets a package that works."""
    monkeypatch.setenv("REGARD_NATIVE", "1")
    said = "the wheel has no C kernels: "
    if compiler == "half":
        need_compiler()
        folder = checkout / "src" / "regard" / "native"
        (folder / "wrong.c").write_text("int broken(\n")
        said += "wrong.c did not compile"
    else:
        monkeypatch.setenv("CC", compiler)
    done = hook(checkout, SHIPS_NONE)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout + done.stderr
    strict = hook(checkout, SHIPS_NONE, REGARD_NATIVE="require")
    assert strict.returncode == 1
    assert strict.stderr.splitlines()[-1].startswith(f"RuntimeError: {said}")


HOOK = """
import sys
from pathlib import Path
root = Path(sys.argv[1])
sys.path.insert(0, str(root))
from ctypes import CDLL
from hatch_build import Native
hook = Native(str(root), {}, None, None, str(root), "wheel")
data = {"force_include": {}, "pure_python": True}
hook.initialize("standard", data)
"""
SHIPS = """
(source, target), = data["force_include"].items()
assert CDLL(source).regard_answer() == 42
assert data["pure_python"] is False
print(data["tag"], target)
hook.finalize("standard", data, source)
assert not Path(source).exists()
"""
SHIPS_NONE = """
assert data == {"force_include": {}, "pure_python": True}
hook.finalize("standard", data, "")
assert not Path(hook.work).exists()
"""


@pytest.mark.slow
def test_a_library_of_one_level_loads_whole(tmp_path):
    """Its own sources, from an empty cache: an undefined symbol would switch all of C off."""
    code = (
        "from regard import native; "
        "print(native.missing(), native.level(), native.library() is not None)"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith("REGARD_")}
    environ["REGARD_CACHE"] = str(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["None", native.level(), "True"], ran.stdout + ran.stderr
    assert "undefined symbol" not in ran.stderr
