"""What a user gets from `pip install .`: the wheel has code, recipes, shipped data and licences."""

import re
import subprocess
import sys
import zipfile
from ctypes import CDLL
from pathlib import Path

import pytest

from regard.native import _build
from regard.viewer.page.scripts import PACKED, minifier, packed
from tests.repo.tree import SOURCE, TOP, tracked

pytestmark = [pytest.mark.nohook, pytest.mark.slow]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Built without isolation, so without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=TOP,
        check=True,
        capture_output=True,
    )
    (file,) = folder.glob("regard-*.whl")
    return file


@pytest.fixture(scope="module")
def wheel(built):
    """The files in it and their sizes."""
    with zipfile.ZipFile(built) as inside:
        return {name: inside.getinfo(name).file_size for name in inside.namelist()}


def test_everything_of_the_package_is_in_it(wheel):
    for path in tracked():
        if SOURCE in path.parents:
            assert wheel[f"regard/{path.relative_to(SOURCE)}"] == path.stat().st_size


def test_recipes_are_in_it(wheel):
    names = [path.relative_to(TOP / "recipes") for path in (TOP / "recipes").glob("*/*.yaml")]
    assert names
    assert all(f"regard/recipes/{name}" in wheel for name in names)


def test_the_command_and_the_licences_are_in_it(wheel):
    ends = [name.split(".dist-info/")[-1] for name in wheel if ".dist-info/" in name]
    assert {"entry_points.txt", "licenses/LICENSE", "licenses/NOTICE"} <= set(ends)


@pytest.mark.skipif(minifier() is None, reason="needs esbuild: npm install")
def test_minified_scripts_are_in_it(wheel):
    for name, text in packed().items():
        assert wheel[f"regard/viewer/page/{PACKED}/{name}"] == len(text.encode())


def test_nothing_else_is_in_it(wheel):
    tops = {name.split("/")[0] for name in wheel if ".dist-info/" not in name}
    assert tops == {"regard"}
    assert not [name for name in wheel if "__pycache__" in name or name.endswith(".pyc")]


def test_the_c_kernels_are_in_it(built, wheel, tmp_path):
    """Whole and for this platform, where there is a compiler; else it is pure Python."""
    name = f"regard/native/{_build.NAME}"
    try:
        _build._compiler()
    except _build.BuildError:
        assert name not in wheel
        assert built.name.endswith("-py3-none-any.whl")
        return
    assert "-py3-none-" in built.name
    assert not built.name.endswith("-any.whl")
    with zipfile.ZipFile(built) as inside:
        found = CDLL(inside.extract(name, tmp_path))
    functions = {
        file.name: re.findall(r"^REGARD_API .*?(\w+)\(", file.read_text(), re.M)
        for file in Path(_build.__file__).parent.glob("*.c")
    }
    assert [file for file, names in functions.items() if not names] == ["threads.c"]  # C's alone
    assert not [name for names in functions.values() for name in names if not hasattr(found, name)]
