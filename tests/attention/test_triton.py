"""The Triton kernels in Triton's interpreter, on the CPU.

The interpreter is chosen when Triton is imported, so the cases run in a process of their own.
"""

import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from regard.attention import Additive, Attention
from regard.attention._ops import triton

CASES = Path(__file__).with_name("triton_cases.py")


def release(text):
    return tuple(int(part) for part in text.split(".")[:2])


def no_interpreter():
    """Why Triton's interpreter does not run here; None where it does."""
    if find_spec("triton") is None:
        return "Triton is not installed"
    ours, numpys = version("triton"), version("numpy")
    if release(ours) < (3, 9) and release(numpys) >= (2, 4):
        return f"Triton {ours}'s interpreter does not run with NumPy {numpys}"
    return None


@pytest.mark.nohook
@pytest.mark.skipif(no_interpreter() is not None, reason=no_interpreter() or "")
def test_kernels_are_right_in_the_interpreter():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", CASES],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": ""},
        cwd=CASES.parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout


@pytest.mark.nohook
def test_triton_is_not_imported_before_it_is_needed(torch_process):
    program = "import sys, regard.attention, torch; sys.exit('triton' in sys.modules)"
    assert torch_process.run(program).returncode == 0


def test_what_it_takes(monkeypatch):
    x = torch.randn(1, 2, 3)
    assert not triton.supports(x)
    if not torch.cuda.is_available():
        assert (
            "no CUDA device" in triton.unavailable_reason()
            or "not installed" in triton.unavailable_reason()
        )
    monkeypatch.setattr(triton, "find_spec", lambda name: None)
    triton._missing.cache_clear()
    assert triton.unavailable_reason() == "Triton is not installed"
    triton._missing.cache_clear()
    assert Attention(Additive(3, 3, 4))(x, x).context.shape == (1, 2, 3)
