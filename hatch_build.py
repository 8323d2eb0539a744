"""The wheel's build: compile the C kernels where there is a compiler, and ship the object.

Without a compiler, or with one that compiles only some of them, the wheel is pure Python: the
kernels are built where they are used, as far as they can be, and `regard doctor` says what is
missing. With REGARD_NATIVE=require a wheel without all of them is an error: for releases. An
editable install builds nothing: the sources change.
"""

import importlib.util
import os
import shutil
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "native"


class Native(BuildHookInterface):
    """Hatch finds it by its base class."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is for this platform."""
        if self.target_name != "wheel" or version == "editable":
            return
        sources = Path(self.root) / "src" / "regard" / FOLDER
        spec = importlib.util.spec_from_file_location("_build", sources / "_build.py")
        assert spec is not None
        assert spec.loader is not None
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        self.work = tempfile.mkdtemp()
        made = Path(self.work) / build.NAME
        try:
            note = build.build(sorted(sources.glob("*.c")), made)
        except build.BuildError as error:
            note = str(error)
        if note is not None:  # some of them in the wheel would hide what the cache can build
            said = f"the wheel has no C kernels: {note}"
            if os.environ.get("REGARD_NATIVE") == "require":
                raise RuntimeError(said)
            self.app.display_warning(said)
            return
        build_data["force_include"][str(made)] = f"regard/{FOLDER}/{build.NAME}"
        build_data["pure_python"] = False
        here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        platform = os.environ.get("REGARD_WHEEL_PLATFORM") or here  # tools/wheels.py: another's
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact: str) -> None:
        """Leave nothing behind."""
        if getattr(self, "work", None) is not None:
            shutil.rmtree(self.work, ignore_errors=True)
