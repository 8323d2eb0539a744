"""Second derivatives: right, or refused; never left out."""

import pytest
import torch

from regard.attention import Additive, Attention, Sparsemax, kernels
from regard.attention._ops.cpu import additive
from regard.native.derivatives import double_backward, double_backward_wanted, once_differentiable


class Cube(torch.autograd.Function):
    """x^3 that keeps x, with a gradient that autograd does not see."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return 3 * ctx.saved_tensors[0] ** 2 * grad


class Blind(torch.autograd.Function):
    """The same, keeping nothing that depends on x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(3 * x.detach() ** 2)
        return x**3

    @staticmethod
    @once_differentiable
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


@pytest.mark.skipif(additive.unsupported_reason() is not None, reason="no compiled library")
@pytest.mark.parametrize("select", [None, Sparsemax()])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("step", [False, True])
def test_additive_attention_in_c_has_second_derivatives(select, power, step):
    layer = Attention(score=Additive(4, 4, 6), **({} if select is None else {"select": select}))
    x = torch.randn(2, 3, 4, requires_grad=True)

    def second():
        memory = layer.remember(x) if step else x
        context = layer(x[:, :1] if step else x, memory).context
        (first,) = torch.autograd.grad(context.pow(power).sum(), x, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum() + x.sum(), x)[0]

    found = second()
    with kernels("reference"):
        torch.testing.assert_close(found, second(), atol=1e-4, rtol=1e-4)


class Twice(torch.autograd.Function):
    """x y^2 of two inputs, the gradients of which autograd sees where they are asked for again."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y**2

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        if double_backward_wanted():
            return double_backward(lambda x, y: x * y**2, (x, y), (grad,), ctx.needs_input_grad)
        return grad * y**2, 2 * grad * x * y


def test_a_function_that_is_computed_again_has_all_derivatives():
    """One input may depend on the other: each has its own share."""
    x = torch.tensor([1.5, -2.0], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0.5, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(Twice.apply, (x, y))
    assert torch.autograd.gradgradcheck(lambda x: Twice.apply(x, x.sin()), (x,))
    assert torch.autograd.gradgradcheck(lambda x: Twice.apply(x, x), (x,))
    fixed = y.detach()
    assert torch.autograd.gradgradcheck(lambda x: Twice.apply(x**2, fixed), (x,))
