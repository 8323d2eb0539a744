"""Maxout takes consecutive pieces, as Cho et al. and Bahdanau et al. print it."""

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.layers.maxout import Maxout, maxout


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_it_is_the_largest_of_consecutive_features(pieces):
    x = torch.randn(4, 5, 6, dtype=torch.float64)
    expected = [
        [[max(row[i * pieces : (i + 1) * pieces]) for i in range(6 // pieces)] for row in rows]
        for rows in x.tolist()
    ]
    assert maxout(x, pieces).tolist() == expected


def test_it_is_linear_on_equal_pairs():
    a, b = torch.randn(2, 7, dtype=torch.float64)
    doubled = torch.stack([a, a], -1).flatten()
    other = torch.stack([b, b], -1).flatten()
    torch.testing.assert_close(maxout(2 * doubled - 3 * other), 2 * a - 3 * b)


def test_the_layer_is_a_linear_map_and_maxima():
    layer = Maxout(3, 2).double()
    x = torch.randn(5, 3, dtype=torch.float64)
    weight, bias = layer.linear.weight.detach().numpy(), layer.linear.bias.detach().numpy()
    s = x.numpy() @ weight.T + bias
    expected = np.stack([np.maximum(s[:, 0], s[:, 1]), np.maximum(s[:, 2], s[:, 3])], -1)
    np.testing.assert_allclose(layer(x).detach().numpy(), expected)


def test_a_size_that_does_not_divide_is_refused():
    with pytest.raises(RequestError, match="multiple of pieces=2, got 5"):
        maxout(torch.zeros(5))
