"""Disks for tests: small ones that are soon full, and ones that nothing can be written to."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["disk", "read_only"]


@contextmanager
def disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A disk of this size at a place, in memory; the test is skipped where it may not be had."""
    place.mkdir(exist_ok=True)
    _ask("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place))
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Nothing can be written to a disk within this, by nobody."""
    _ask("mount", "-o", "remount,ro", str(place))
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True, capture_output=True)


def _ask(*command: str) -> None:
    try:
        asked = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if asked.returncode:
        pytest.skip(f"disks may not be mounted here: {asked.stderr.strip()}")
