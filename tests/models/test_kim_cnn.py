"""The convolution of sentences against its equations in NumPy."""

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.models.kim_cnn import KimCNN
from tests.models.slow import count, numbers, ragged, sentences, shaken

SIZES = {"embed": 5, "widths": [2, 4], "filters": 3, "dropout": 0.0}


def model(**changes):
    torch.manual_seed(1)
    return shaken(KimCNN(12, 5, **{**SIZES, **changes}))


def encoded(p, ids, widths):
    """Every window of every filter, one by one."""
    xs, z = p["encoder.embed.weight"][ids], []
    for n, width in enumerate(widths):
        rows = np.concatenate([xs, np.zeros((max(0, width - len(xs)), xs.shape[1]))])
        w = p[f"encoder.convolutions.{n}.weight"]  # (filters, embed, width)
        b = p[f"encoder.convolutions.{n}.bias"]
        windows = [rows[i : i + width] for i in range(len(rows) - width + 1)]
        for filter, bias in zip(w, b, strict=True):
            z.append(max(max(0.0, (filter.T * window).sum() + bias) for window in windows))
    return np.array(z)


@pytest.mark.parametrize("widths", [[2, 4], [3], [1, 7]])
def test_it_computes_the_papers_equations(widths):
    net = model(widths=widths)
    p, (source, lengths, _) = numbers(net), ragged()
    logits, vectors = net(source, lengths).logits, net.embedding(source, lengths)
    for row, ids in enumerate(sentences(source, lengths)):
        z = encoded(p, ids, widths)
        np.testing.assert_allclose(vectors[row].detach().numpy(), z, atol=1e-12)
        expected = p["head.output.weight"] @ z + p["head.output.bias"]
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-12)


def test_the_papers_sizes():
    filters = sum(100 * (300 * width + 1) for width in (3, 4, 5))
    assert count(KimCNN, 20, 2) == 20 * 300 + filters + 300 * 2 + 2


@pytest.mark.parametrize("widths", [[], [0, 2]])
def test_wrong_widths_are_refused(widths):
    with pytest.raises(RequestError, match="expected widths of 1 word or more"):
        model(widths=widths)
