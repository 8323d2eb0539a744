"""What is said of a processor's bfloat16."""

import platform

import pytest
import torch

from regard.native.bfloat16 import bf16_is_fast, has_bf16


@pytest.mark.parametrize(
    ("avx512", "bf16", "amx", "fast"),
    [
        (True, True, True, True),  # Sapphire Rapids
        (True, True, False, True),  # Zen 4, Cooper Lake
        (True, False, False, False),  # Skylake, Ice Lake: converted to float32 and back
        (False, False, False, False),  # AVX2 alone: imitated
    ],
)
def test_what_multiplies_in_bfloat16(monkeypatch, avx512, bf16, amx, fast):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr("regard.native.bfloat16.has_bf16", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert bf16_is_fast() == fast


def test_other_processors_are_believed(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert bf16_is_fast() == has_bf16()
