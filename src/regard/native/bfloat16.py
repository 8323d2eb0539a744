"""Whether this processor has bfloat16."""

import platform

import torch

__all__ = ["bf16_is_fast", "has_bf16"]


def has_bf16() -> bool:
    """Whether oneDNN, PyTorch's library of products, has bfloat16 on this processor.

    It wants AVX-512, or AVX2 with the instructions of its own. Elsewhere PyTorch imitates bfloat16,
    slowly, and its LSTM under autocast fails.
    """
    known = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return known is None or bool(known())


def bf16_is_fast() -> bool:
    """Whether this processor multiplies in bfloat16 itself (AVX512_BF16, AMX).

    With AVX-512 alone oneDNN takes bfloat16 and converts it to float32 and back: a training step
    of `summarization/abs-headlines` takes three times as long as in float32.
    """
    asked = [
        getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile")
    ]
    if platform.machine().lower() not in ("x86_64", "amd64") or None in asked:
        return has_bf16()
    return has_bf16() and any(ask() for ask in asked if ask is not None)
