"""Wheels of other platforms: kernels under emulation, and what a library must have."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regard import native
from regard.native import _build
from tests.repo.tree import TOP

pytestmark = pytest.mark.nohook

SOURCES = (
    "gemm", "int8_products", "cpu_level", "threads",
    "dropout", "best", "entropy", "fingerprint",
)  # fmt: skip
ARM = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-static"]
QEMU = "qemu-aarch64-static"


@pytest.fixture
def wheels():
    spec = importlib.util.spec_from_file_location("wheels", TOP / "tools" / "wheels.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def ran(compiler, runner, made):
    """What the driver of kernels prints; it fails where a result is wrong."""
    files = [str(native.FOLDER / f"{name}.c") for name in SOURCES]
    driver = str(TOP / "tests" / "native" / "driver.c")
    flags = ["-O1", "-std=gnu11", "-w", "-pthread", f"-I{native.FOLDER}"]
    subprocess.run([*compiler, *flags, driver, *files, "-o", str(made), "-lm"], check=True)
    done = subprocess.run([*runner, str(made)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_kernels_give_the_same_on_aarch64(tmp_path):
    """Under qemu, compiled by Zig; the portable level on this machine where they are missing."""
    try:
        compiler = _build._compiler()
    except _build.BuildError as error:
        pytest.skip(str(error))
    here = ran([*compiler, "-DREGARD_ONLY=0"], [], tmp_path / "here")
    assert len(here.splitlines()) == 8
    if importlib.util.find_spec("ziglang") is None or shutil.which(QEMU) is None:
        pytest.skip("aarch64: needs pip install ziglang, and qemu-user-static")
    assert ran(ARM, [QEMU], tmp_path / "arm") == here


def test_a_library_without_a_function_is_found(wheels, tmp_path):
    names = wheels.exported()
    assert {"regard_gemm", "regard_get_level", "regard_packed_product"} <= set(names)
    library = tmp_path / "_native.so"
    library.write_bytes(b"".join(f"{name}\0".encode() for name in names))
    assert wheels.missing(library) == []
    library.write_bytes(b"".join(f"{name}\0".encode() for name in names if name != "regard_gemm"))
    assert wheels.missing(library) == ["regard_gemm"]
    if native.library() is not None:
        assert wheels.missing(Path(native.library()._name)) == []
