"""Tanh by either form, and which processor takes which."""

import platform
from pathlib import Path

import pytest
import torch

from regard.layers import _gated
from regard.native.processor import is_amd


@pytest.mark.parametrize("amd", [False, True])
def test_both_forms_of_tanh(monkeypatch, amd):
    monkeypatch.setattr(_gated, "AMD", amd)
    x = torch.linspace(-30, 30, 1001)
    right = torch.tanh(x.double())
    torch.testing.assert_close(_gated.tanh(x).double(), right, rtol=0, atol=2e-7)
    torch.testing.assert_close(x, torch.linspace(-30, 30, 1001))  # not in place unless said
    strided = torch.stack([x, x], 1)[:, 0]
    assert _gated.tanh(strided, out=strided) is strided
    torch.testing.assert_close(strided.double(), right, rtol=0, atol=2e-7)


@pytest.mark.parametrize(
    ("told", "info", "amd"),
    [
        ("", "vendor_id\t: AuthenticAMD\n", True),  # Linux
        ("AMD64 Family 25 Model 33 Stepping 0, AuthenticAMD", None, True),  # Windows
        ("", "vendor_id\t: GenuineIntel\n", False),
        ("arm", None, False),
    ],
)
def test_who_made_the_processor(monkeypatch, told, info, amd):
    def read(self, **more):
        if info is None:
            raise FileNotFoundError(self)
        return info

    monkeypatch.setattr(platform, "processor", lambda: told)
    monkeypatch.setattr(Path, "read_text", read)
    is_amd.cache_clear()
    try:
        assert is_amd() == amd
    finally:
        is_amd.cache_clear()
