"""Sparse rows times a matrix, against the dense product."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layers.sparse import CSRMatrix, SparseLinear


def rows_of(dense):
    row, column = dense.nonzero(as_tuple=True)
    order = torch.randperm(len(row))
    value = dense[row, column]
    return CSRMatrix(row[order], column[order], value[order], tuple(dense.shape))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000), n=st.integers(1, 7), f=st.integers(1, 6), share=st.floats(0.0, 1.0)
)
def test_product_and_gradient_are_those_of_the_dense_product(seed, n, f, share):
    torch.manual_seed(seed)
    dense = torch.randn(n, f, dtype=torch.float64) * (torch.rand(n, f) < share)
    layer = SparseLinear(f, 3).double()
    weight = layer.weight.detach().clone().requires_grad_()
    found, right = layer(rows_of(dense)), dense @ weight
    assert torch.allclose(found, right)
    outer = torch.randn_like(right)
    found.backward(outer)
    right.backward(outer)
    assert torch.allclose(layer.weight.grad, weight.grad)
    assert torch.allclose(layer(dense), right)


def test_dropout_is_that_of_a_dense_input_and_its_gradient_fits():
    torch.manual_seed(3)
    dense = (torch.rand(200, 50) < 0.3).double()
    layer = SparseLinear(50, 4, dropout=0.5).double()
    rows = rows_of(dense)
    value = rows.dropout(0.5)
    assert set(value.tolist()) == {0.0, 2.0}
    assert 0.45 < (value == 0).double().mean() < 0.55
    product = rows.matmul(value, layer.weight)
    kept = torch.zeros(200, 50, dtype=torch.float64)
    at = torch.repeat_interleave(torch.arange(200), rows.offsets.diff())
    kept[at, rows.column] = value
    assert torch.allclose(product, kept @ layer.weight)
    (gradient,) = torch.autograd.grad(product.sum(), layer.weight)
    assert torch.allclose(gradient, kept.sum(0)[:, None].expand(50, 4))
    layer.eval()
    assert torch.allclose(layer(rows), dense @ layer.weight)


def test_values_of_one_place_add_up():
    rows = CSRMatrix(
        torch.tensor([0, 0]), torch.tensor([1, 1]), torch.tensor([2.0, 3.0], dtype=torch.float64),
        (1, 2),
    )  # fmt: skip
    layer = SparseLinear(2, 2).double()
    assert torch.allclose(layer(rows), 5 * layer.weight[1:])
