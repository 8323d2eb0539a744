"""Whether this processor has bfloat16."""

import torch

__all__ = ["has_bf16"]


def has_bf16() -> bool:
    """Whether oneDNN, PyTorch's library of products, has bfloat16 on this processor.

    It wants AVX-512, or AVX2 with the instructions of its own. Elsewhere PyTorch imitates bfloat16,
    slowly, and its LSTM under autocast fails.
    """
    known = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return known is None or bool(known())
