"""The build of a wheel: compile the C kernels where there is a compiler; minify pages' scripts.

Without a compiler, or with one that compiles only some of them, the wheel is pure Python: the
kernels are built where they are used, as far as they can be, and `regard doctor` says what is
missing. Without esbuild (`npm install`) pages hold their scripts as they are written. For releases
REGARD_NATIVE=require and REGARD_PAGES=require make an error of either. An editable install
builds nothing: the sources change.
"""

import importlib.util
import os
import shutil
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "native"


class Native(BuildHookInterface):
    """Hatch finds it by its base class."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, minify, and say that the wheel is for this platform."""
        if self.target_name != "wheel" or version == "editable":
            return
        self.work = tempfile.mkdtemp()
        self._kernels(build_data)
        self._scripts(build_data)

    def _kernels(self, build_data: dict[str, Any]) -> None:
        sources = Path(self.root) / "src" / "regard" / FOLDER
        build = _module(sources / "_build.py")
        made = Path(self.work) / build.NAME
        try:
            note = build.build(sorted(sources.glob("*.c")), made)
        except build.BuildError as error:
            note = str(error)
        if note is not None:  # some of them in the wheel would hide what the cache can build
            self._without("REGARD_NATIVE", f"the wheel has no C kernels: {note}")
            return
        build_data["force_include"][str(made)] = f"regard/{FOLDER}/{build.NAME}"
        build_data["pure_python"] = False
        here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        platform = os.environ.get("REGARD_WHEEL_PLATFORM") or here  # tools/wheels.py: another's
        build_data["tag"] = f"py3-none-{platform}"

    def _scripts(self, build_data: dict[str, Any]) -> None:
        folder = Path("viewer") / "page"
        scripts = _module(Path(self.root) / "src" / "regard" / folder / "scripts.py")
        try:
            files = scripts.packed()
        except RuntimeError as error:
            self._without("REGARD_PAGES", str(error))
            return
        for name, text in files.items():
            made = Path(self.work) / name
            made.write_text(text, encoding="utf-8")
            place = Path("regard") / folder / scripts.PACKED / name
            build_data["force_include"][str(made)] = place.as_posix()

    def _without(self, setting: str, said: str) -> None:
        if os.environ.get(setting) == "require":
            raise RuntimeError(said)
        self.app.display_warning(said)

    def finalize(self, version: str, build_data: dict[str, Any], artifact: str) -> None:
        """Leave nothing behind."""
        if getattr(self, "work", None) is not None:
            shutil.rmtree(self.work, ignore_errors=True)


def _module(path: Path) -> ModuleType:
    """A file of the package by its path: nothing that the package needs is there at its build."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
