"""Low precision throughout: only when asked for, and no worse than it says."""

import pytest
import torch

from regard.attention import (
    Attention,
    Causal,
    InverseEuclidean,
    Lengths,
    attend,
    explain,
    kernels,
)
from regard.errors import RequestError


def test_never_chosen_silently():
    x = torch.randn(1, 2, 600, 8, dtype=torch.bfloat16)
    assert "chunks" not in str(explain(Attention())[""])
    with kernels("chunks"):
        assert explain(Attention())[""].kernel == "chunks"
        with pytest.raises(RequestError, match="bf16 and fp16"):
            attend(x.float(), x.float())
        with pytest.raises(RequestError, match="not a dot product"):
            attend(x, x, score=InverseEuclidean())


@pytest.mark.parametrize("mask", [None, Causal(), Lengths(torch.tensor([[300], [0]]))])
def test_error_is_what_its_docstring_says(mask):
    inputs = [torch.randn(2, 4, 300, 64, dtype=torch.bfloat16, requires_grad=True) for _ in "qkv"]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    with kernels("chunks"):
        got = attend(*inputs, mask=mask).context
    with kernels("reference"):
        expected = attend(*exact, mask=mask).context
    assert got.dtype == torch.bfloat16
    assert (got.double() - expected).abs().max() <= 1.2e-2 * max(1.0, expected.abs().max().item())
    got.sum().backward()
    expected.sum().backward()
    for low, high in zip(inputs, exact, strict=True):
        assert low.grad.isfinite().all()
        assert (low.grad.double() - high.grad).abs().max() <= 3e-2 * max(1, high.grad.abs().max())
