"""Wheels for five platforms from one machine; Zig compiles the C kernels (`pip install ziglang`).

    python tools/wheels.py [--out dist] [PLATFORM ...]

Each wheel has the same Python files and a library of its own. Linux's need glibc 2.17 or newer
(manylinux2014), macOS's version 11. What was run of them: docs/howto/deploy.md.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PLATFORMS = {  # the wheel's tag: Zig's target
    "manylinux2014_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux2014_aarch64": "aarch64-linux-gnu.2.17",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM", help=", ".join(PLATFORMS))
    parser.add_argument("--out", type=Path, default=TOP / "dist")
    options = parser.parse_args()
    wrong = sorted({*options.platforms} - {*PLATFORMS})
    if wrong:
        parser.error(f"no platform {wrong[0]}; expected {', '.join(PLATFORMS)}")
    for platform in options.platforms or PLATFORMS:
        began = time.monotonic()
        made = wheel(platform, options.out)
        size = made.stat().st_size / 2**20
        print(f"{made.name}: {size:.1f} MiB, {time.monotonic() - began:.0f} s", flush=True)
    return 0


def wheel(platform: str, folder: Path) -> Path:
    """Build one wheel; the hook of hatch_build.py compiles with this CC and takes this tag."""
    environment = {
        **os.environ,
        "CC": f"{sys.executable} -m ziglang cc -target {PLATFORMS[platform]}",
        "REGARD_NATIVE": "require",
        "REGARD_PAGES": "require",
        "REGARD_WHEEL_PLATFORM": platform,
    }
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=TOP, env=environment, check=True, stdout=subprocess.DEVNULL)
    (made,) = folder.glob(f"regard-*-py3-none-{platform}.whl")
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        only = ["--platform", platform, "--target", place, "--no-deps", "--only-binary=:all:"]
        subprocess.run([*pip, *only, str(made)], check=True)
        lost = missing(Path(place) / "regard" / "native" / "_native.so")
    if lost:
        raise SystemExit(f"{made.name}: its library lacks {', '.join(lost)}")
    return made


def exported() -> "list[str]":
    """The functions of the C sources that Python calls."""
    sources = sorted((TOP / "src" / "regard" / "native").glob("*.c"))
    found = [re.findall(r"^REGARD_API .*?(\w+)\(", p.read_text("utf-8"), re.M) for p in sources]
    return [name for names in found for name in names]


def missing(library: Path) -> "list[str]":
    """Exported functions whose names a library of any platform (ELF, Mach-O, PE) does not have."""
    content = library.read_bytes()
    return [name for name in exported() if f"{name}\0".encode() not in content]


if __name__ == "__main__":
    sys.exit(main())
