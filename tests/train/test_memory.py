"""Freed memory: kept from step to step, and handed back now and then."""

import gc
import os
import subprocess
import sys

import pytest

from regard.recipe import load
from regard.system import heap
from regard.train import fit, loop
from tests.train import runs

pytestmark = pytest.mark.usefixtures("steps_by_pytorch")

PROGRAM = """
from pathlib import Path
import torch
from regard.system.heap import hand_back, keep_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

assert keep_freed_memory()
before = resident()
blocks = [torch.zeros(1 << 18) for _ in range(200)]  # 200 MiB, a MiB each
held = blocks[::20]
del blocks
assert resident() > before + 150
assert hand_back()
assert resident() < before + 60
assert all(not x.any() for x in held)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
@pytest.mark.skipif("REGARD_SANITIZED" in os.environ, reason="of glibc, not of ASan's allocator")
def test_holes_are_handed_back_between_what_is_held():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)


def test_what_is_frozen_is_counted_and_frozen_once(monkeypatch):
    frozen, asked = [], []

    def count():
        asked.append(None)
        return len(frozen)

    monkeypatch.setattr(heap, "_frozen", False)
    monkeypatch.setattr(gc, "get_freeze_count", count)
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(None))
    gc.disable()
    with heap.uncollected():
        pass
    gc.enable()
    assert not frozen  # the collector was off before
    for first in (True, False, False):
        with heap.uncollected():
            assert gc.isenabled() is not first
        assert gc.isenabled()
    assert (len(frozen), len(asked)) == (1, 2)


@pytest.mark.slow
def test_a_training_hands_back_after_a_while(monkeypatch, tmp_path):
    called = []
    monkeypatch.setattr(loop, "hand_back", lambda: called.append(1))
    monkeypatch.setattr(loop, "TIDY", 0.0)
    fit(load(str(runs.recipe(tmp_path, steps=3))), tmp_path / "run")
    assert called
