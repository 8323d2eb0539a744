"""Set up `.venv` for one of the levels demo, test, docs (for the Makefile; standard library only).

A level is skipped when its stamp in `.venv/stamps` says that it was installed from the same
requirements with the same settings. Settings that are not given now
(TORCH, PIP_ARGS, SYSTEM_TORCH, LOCK) stay as they were at the last set-up. pip is silent for
minutes at a time, so every command runs under `tools/step.py`, which shows a line every few
seconds.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LOCK = TOP / "requirements" / "lock.txt"
OLDEST = (3, 11)
TORCH = "torch==2.13.0"
TORCH_RANGE = ((2, 11), (2, 16))
LEVELS = {
    "demo": ["view"],
    "test": ["view", "serve", "dev"],
    "docs": ["view", "serve", "dev", "docs"],
}
REST = {
    "demo": "regard's other dependencies, about 80 MB",
    "test": "regard's other dependencies and test tools, about 210 MB",
    "docs": "regard's other dependencies, test and page tools, about 225 MB",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("level", choices=LEVELS)
    parser.add_argument("--venv", type=Path, default=TOP / ".venv")
    options = parser.parse_args()
    level, venv = options.level, options.venv
    stamps = venv / "stamps"
    settings = remembered(stamps)
    stamp, wanted = stamps / level, digest(level, settings)
    if stamp.is_file() and stamp.read_text() == wanted and python(venv).exists():
        return 0
    base = newest_python()
    if base is None:
        return fail(
            f"regard needs Python {dotted(OLDEST)} or newer, and {sys.executable} is "
            f"{dotted(sys.version_info[:2])}: say `make PYTHON=python3.12 …` with one that is there"
        )
    system = settings["SYSTEM_TORCH"] == "1"
    if system and (wrong := wrong_torch(base)):
        return fail(wrong)
    announce(level, settings)
    whole = python(venv).exists() and (python(venv).parent / "pip").exists()
    if not whole or with_system(venv) != system:
        if venv.exists():
            why = "its way of finding torch changes" if whole else "it is not complete"
            say(f"making {venv.name} anew: {why}")
            shutil.rmtree(venv)
        more = ["--system-site-packages"] if system else []
        if step("virtual environment", [base, "-m", "venv", *more, str(venv)]):
            return fail("could not make .venv: on Debian and Ubuntu, install `python3-venv` first")
    extras = f"{TOP}[{','.join(LEVELS[level])}]"
    packages = [*([] if system else [settings["TORCH"]]), "--editable", extras]
    pip = [str(python(venv)), "-m", "pip", "install", "--disable-pip-version-check"]
    failed = step("install", [*pip, *pip_args(settings), *packages])
    if failed:
        return fail(
            "pip could not install what is needed (see its lines above). No network? Give it a "
            'folder of wheels: make venv PIP_ARGS="--find-links DIR"; '
            'another torch: make venv TORCH="torch==2.12.0"; one that is installed: SYSTEM_TORCH=1'
        )
    stamps.mkdir(exist_ok=True)
    (stamps / "settings.json").write_text(json.dumps(settings, indent=1))
    for lower in LEVELS:
        (stamps / lower).write_text(digest(lower, settings))
        if lower == level:
            break
    say(f"ready: {venv.name}/bin/regard")
    return 0


def remembered(stamps: Path) -> dict:
    """TORCH, PIP_ARGS, SYSTEM_TORCH, LOCK as given now, else as last time, else the defaults."""
    settings = {"TORCH": TORCH, "PIP_ARGS": "", "SYSTEM_TORCH": "0", "LOCK": "0"}
    file = stamps / "settings.json"
    if file.is_file():
        settings.update(json.loads(file.read_text()))
    settings.update({k: os.environ[k] for k in settings if os.environ.get(k)})
    return settings


def pip_args(settings: dict) -> "list[str]":
    """What pip is given besides the packages: LOCK=1 holds all of them at versions."""
    lock = ["-c", str(LOCK)] if settings["LOCK"] == "1" else []
    return [*lock, *shlex.split(settings["PIP_ARGS"])]


def digest(level: str, settings: dict) -> str:
    """What an installation depends on: the requirements of this level, and the settings."""
    text = (TOP / "pyproject.toml").read_text(encoding="utf-8")
    project = text.split("\n[tool.ruff", 1)[0]  # nothing below is about installing
    about = [project, level, settings["TORCH"], settings["SYSTEM_TORCH"]]
    if settings["LOCK"] == "1":
        about.append(LOCK.read_text(encoding="utf-8"))
    return hashlib.sha256(repr(about).encode()).hexdigest()


def newest_python() -> "str | None":
    """This Python if it is new enough, else another on the path that is."""
    if sys.version_info >= OLDEST:
        return sys.executable
    return next(filter(None, map(shutil.which, ("python3.13", "python3.12", "python3.11"))), None)


def python(venv: Path) -> Path:
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def with_system(venv: Path) -> bool:
    config = (venv / "pyvenv.cfg").read_text() if (venv / "pyvenv.cfg").is_file() else ""
    return bool(re.search(r"include-system-site-packages\s*=\s*true", config))


def wrong_torch(base: str) -> str:
    """What is wrong with the installed torch for SYSTEM_TORCH=1, or nothing."""
    code = "import importlib.metadata as m; print(m.version('torch'))"
    if sys.prefix != sys.base_prefix:  # inside another environment: .venv will see beyond it only
        base = getattr(sys, "_base_executable", base)
    asked = subprocess.run([base, "-c", code], capture_output=True, text=True, check=False)
    if asked.returncode:
        return (
            f"SYSTEM_TORCH=1, but {base} has no torch: install it there, or leave SYSTEM_TORCH out"
        )
    found = asked.stdout.strip()
    version = tuple(int(n) for n in re.findall(r"\d+", found)[:2])
    if not TORCH_RANGE[0] <= version < TORCH_RANGE[1]:
        low, high = map(dotted, TORCH_RANGE)
        return f"SYSTEM_TORCH=1, but {base} has torch {found}, and regard needs >={low},<{high}"
    return ""


def announce(level: str, settings: dict) -> None:
    """Say what will be downloaded before anything is."""
    if settings["SYSTEM_TORCH"] == "1":
        say("uses the torch that is installed; downloads what is not here yet of:")
    else:
        say("downloads what pip does not have yet of:")
        say(
            f"  {settings['TORCH']}: about 190 MB as a CPU build; the default build for Linux "
            "brings CUDA along, 5.5 GB on the disk (README: how to get the CPU build)"
        )
    say(f"  {REST[level]}")


def step(label: str, command: "list[str]") -> int:
    runner = [sys.executable, str(TOP / "tools" / "step.py"), "--label", label, "--"]
    return subprocess.run([*runner, *command], cwd=TOP, check=False).returncode


def dotted(version: "tuple[int, ...]") -> str:
    return ".".join(map(str, version))


def say(text: str) -> None:
    print(f"regard: {text}", flush=True)


def fail(text: str) -> int:
    print(f"regard: {text}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
