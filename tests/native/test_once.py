"""Second derivatives: right, or refused; never left out."""

import pytest
import torch

from regard.attention import Additive, Attention, Sparsemax, kernels
from regard.attention._kernels.cpu import additive
from regard.native.once import once


class Cube(torch.autograd.Function):
    """x^3 that keeps x, with a gradient that autograd does not see."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once
    def backward(ctx, grad):
        return 3 * ctx.saved_tensors[0] ** 2 * grad


class Blind(torch.autograd.Function):
    """The same, keeping nothing that depends on x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(3 * x.detach() ** 2)
        return x**3

    @staticmethod
    @once
    def backward(ctx, grad):
        return ctx.saved_tensors[0] * grad


def test_first_derivatives_are_as_they_were():
    x = torch.tensor(2.0, requires_grad=True)
    for cube in (Cube, Blind):
        assert torch.autograd.grad(cube.apply(x), x)[0] == 12
    (first,) = torch.autograd.grad(Cube.apply(x), x, create_graph=True)
    assert first == 12


def test_a_second_derivative_beside_another_way_to_the_input_is_refused():
    x = torch.tensor(2.0, requires_grad=True)
    (first,) = torch.autograd.grad(Cube.apply(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="Cube computes its gradient outside autograd"):
        torch.autograd.grad(first + x, x)
    with pytest.raises(RuntimeError, match="Blind computes its gradient outside autograd"):
        torch.autograd.grad(Blind.apply(x), x, create_graph=True)


@pytest.mark.skipif(additive.refuses() is not None, reason="no compiled library")
@pytest.mark.parametrize("select", [None, Sparsemax()])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("step", [False, True])
def test_additive_attention_in_c_refuses(select, power, step):
    layer = Attention(score=Additive(4, 4, 6), **({} if select is None else {"select": select}))
    x = torch.randn(2, 3, 4, requires_grad=True)

    def second():
        memory = layer.remember(x) if step else x
        context = layer(x[:, :1] if step else x, memory).context
        (first,) = torch.autograd.grad(context.pow(power).sum(), x, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum() + x.sum(), x)[0]

    with pytest.raises(RuntimeError, match="outside autograd"):
        second()
    with kernels("reference"):
        assert second().isfinite().all()
