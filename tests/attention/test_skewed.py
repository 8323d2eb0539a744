"""Fixed biases under PyTorch's fused kernel: the reference, at any place, without tiles."""

import pytest
import torch

from regard.attention import (
    ALiBi,
    Attention,
    DistanceMask,
    General,
    Lengths,
    MultiHead,
    NegativeSquaredEuclidean,
    RelativeBias,
    RelativeKeys,
    ScaledDot,
    Softmax,
    WeightedSum,
    attend,
    explain,
    kernels,
)
from regard.attention._kernels.skewed import supports_skewed
from regard.attention.call import Call


def biased(heads):
    position = RelativeBias(3, heads)
    torch.nn.init.normal_(position.table)
    return position.requires_grad_(False)


@pytest.mark.parametrize(("queries", "keys", "at"), [(7, 7, 0), (1, 9, 8), (5, 9, 4), (9, 4, -2)])
@pytest.mark.parametrize("score", [ScaledDot(), General(8, 8), NegativeSquaredEuclidean()])
@pytest.mark.parametrize("position", [ALiBi(3), DistanceMask(0.7), biased(3), biased(None)])
def test_it_is_the_reference(queries, keys, at, score, position):
    torch.manual_seed(0)
    query = torch.randn(2, 3, queries, 8, requires_grad=True)
    key, value = (torch.randn(2, 3, keys, 8, requires_grad=True) for _ in range(2))
    given = {"score": score, "position": position, "select": Softmax(temperature=1.7), "at": at}
    upstream = torch.randn(2, 3, queries, 8)
    found = []
    for backend in ("relative", "reference"):
        with kernels(backend):
            context = attend(query, key, value, **given).context
        found.append([context, *torch.autograd.grad(context, (query, key, value), upstream)])
    for ours, want in zip(*found, strict=True):
        torch.testing.assert_close(ours, want, rtol=1e-5, atol=1e-5)


def test_explain_names_the_backend():
    def backend(read=None, **more):
        layer = Attention(**more, **({} if read is None else {"read": read}))
        return str(explain(layer)[""])

    assert "fused" in backend(position=ALiBi(3))
    assert "fused" not in backend(position=ALiBi(3), read=WeightedSum(dropout=0.1))
    assert "fused" not in backend(score=RelativeKeys(2, 4))


def test_a_gradient_of_the_biases_needs_tiles():
    x, position = torch.randn(3, 8, 4), RelativeBias(2, 3)
    call = Call(ScaledDot(), Softmax(), WeightedSum(), position, query=x, key=x, value=x)
    assert not supports_skewed(call)
    with torch.no_grad():
        assert supports_skewed(call)


def test_what_is_masked_and_what_learns_goes_by_tiles_and_agrees():
    torch.manual_seed(0)
    layer, x = MultiHead(12, 3, Attention(position=RelativeBias(2, 3))), torch.randn(2, 5, 12)
    torch.nn.init.normal_(layer.attention.position.table)
    learning = layer(x, x).context
    with torch.no_grad():
        torch.testing.assert_close(layer(x, x).context, learning)
    whole = layer(x, x, mask=Lengths(torch.tensor([5, 5]))).context
    torch.testing.assert_close(whole, learning)
    (grad,) = torch.autograd.grad(learning.sum(), layer.attention.position.table)
    assert grad.abs().max() > 0
