"""The product of the house against float64 and PyTorch."""

import pytest
import torch
from torch import nn

from regard import native
from regard.native import gemm

pytestmark = pytest.mark.skipif(
    native.unavailable_reason("regard_gemm") is not None, reason="no C functions here"
)


@pytest.fixture
def here(monkeypatch):
    """As on a machine where it is_faster."""
    monkeypatch.setattr(gemm, "_machine_is_faster", lambda: True)


def strided(rows, columns, layout):
    if layout == "turned":
        return torch.randn(columns, rows).t()
    if layout == "apart":
        return torch.randn(rows, 2 * columns)[:, ::2]
    if layout == "within":
        return torch.randn(rows, columns + 5)[:, 3 : 3 + columns]
    return torch.randn(rows, columns)


@pytest.mark.parametrize("level", ["AVX-512", "AVX2", "portable"])
@pytest.mark.parametrize("layout", ["plain", "turned", "apart", "within"])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (13, 5, 3), (64, 64, 64), (100, 1500, 77), (250, 64, 300), (7, 2100, 33)]
)
def test_products_of_any_strides(level, layout, sizes):
    torch.manual_seed(0)
    rows, terms, columns = sizes
    a, b = strided(rows, terms, layout), strided(terms, columns, layout)
    bias, onto = torch.randn(columns), torch.randn(rows, columns)
    exact = a.double() @ b.double()
    scale = (a.double().abs() @ b.double().abs()).max()
    with native.at_level(level):
        assert ((gemm.product(a, b) - exact).abs().max() / scale) < 4e-7
        assert ((gemm.product(a, b, bias) - exact - bias).abs().max() / scale) < 4e-7
        before = onto.clone()
        gemm.add_product(onto, a, b)
        assert ((onto - before - exact).abs().max() / scale) < 4e-7


def test_two_threads_give_the_same_bits():
    a, b = torch.randn(700, 300), torch.randn(300, 200)
    before, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append((gemm.product(a, b), gemm.product(a.t().contiguous().t(), b)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_and_its_gradients(here, bias):
    torch.manual_seed(1)
    layer = nn.Linear(70, 90, bias=bias)
    x = torch.randn(4, 30, 70, requires_grad=True)
    leaves = (x, *layer.parameters())
    one, two = gemm.linear(layer, x), layer(x)
    assert "_Linear" in str(one.grad_fn.next_functions)
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)
    grad = torch.randn_like(one)
    for a, b in zip(
        torch.autograd.grad(one, leaves, grad), torch.autograd.grad(two, leaves, grad), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_second_derivatives_are_pytorch_s(here):
    torch.manual_seed(2)
    layer, x = nn.Linear(64, 64), torch.randn(80, 64, requires_grad=True)

    def penalty(call):
        (grad,) = torch.autograd.grad(call(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), (x, layer.weight))

    for a, b in zip(penalty(lambda y: gemm.linear(layer, y)), penalty(layer), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


def test_what_is_unusual_is_called_as_it_is(here):
    class Own(nn.Linear):
        pass

    def taken(layer, x):
        found = gemm.linear(layer, x)
        return "_Linear" in f"{found.grad_fn}{found.grad_fn.next_functions}"

    x = torch.randn(100, 64)
    assert taken(nn.Linear(64, 64), x)
    assert not taken(Own(64, 64), x)
    assert not taken(nn.Linear(64, 8), x)
    assert not taken(nn.Linear(64, 64), x[:10])
    assert not taken(nn.Linear(64, 64).double(), x.double())
    with torch.autocast("cpu", torch.bfloat16):
        assert not taken(nn.Linear(64, 64), x)
    seen = []
    hooked = nn.Linear(64, 64)
    hooked.register_forward_hook(lambda *_: seen.append(1))
    assert not taken(hooked, x)
    assert seen == [1]
    plain = nn.Linear(64, 64)
    made = torch.func.vmap(lambda y: gemm.linear(plain, y))(x[None])
    assert made.shape == (1, 100, 64)


def test_elsewhere_pytorch_multiplies(monkeypatch):
    monkeypatch.setattr(gemm, "_machine_is_faster", lambda: False)
    layer = nn.Linear(64, 64)
    assert "_Linear" not in str(gemm.linear(layer, torch.randn(100, 64)).grad_fn)
