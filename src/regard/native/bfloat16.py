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
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return has_bf16()
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return has_bf16() and any(getattr(torch.cpu, name, has_bf16)() for name in names)
