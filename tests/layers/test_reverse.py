"""Reversal keeps the padding on the right."""

import torch

from regard.layers.reverse import reverse

X = torch.tensor([[5, 6, 7, 3, 0], [8, 3, 0, 0, 0], [0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([4, 2, 0])


def test_only_the_words_are_reversed():
    expected = [[3, 7, 6, 5, 0], [3, 8, 0, 0, 0], [0, 0, 0, 0, 0]]
    assert reverse(X, LENGTHS).tolist() == expected


def test_one_less_keeps_the_last_word_at_the_end():
    assert reverse(X, LENGTHS - 1).tolist() == [[7, 6, 5, 3, 0], [8, 3, 0, 0, 0], [0] * 5]


def test_reversing_twice_is_the_identity_with_padding_on_the_right():
    x = torch.randn(3, 5, 2)
    assert torch.equal(reverse(reverse(x, LENGTHS), LENGTHS), x)


def test_the_gradient_goes_back_where_the_value_came_from():
    x = torch.randn(3, 5, 2, requires_grad=True)
    weights = torch.randn(3, 5, 2)
    (reverse(x, LENGTHS) * weights).sum().backward()
    for row, length in enumerate([4, 2, 0]):
        order = list(range(length))[::-1] + list(range(length, 5))
        for place, taken in enumerate(order):
            assert torch.equal(x.grad[row, taken], weights[row, place])
