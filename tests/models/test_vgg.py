"""The convolutions of pictures against their equations in NumPy."""

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.models.vgg import VGG
from tests.models.slow import count, numbers, shaken

SIZES = {"widths": [3, 4], "convolutions": [2, 1], "ffn_dim": 5, "dropout": 0.0}


def convolved(x, weight, bias):
    """(C, H, W), zeros around it, one place after the other."""
    high, wide = x.shape[1:]
    around = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    made = np.zeros((len(weight), high, wide))
    for y in range(high):
        for z in range(wide):
            made[:, y, z] = (weight * around[None, :, y : y + 3, z : z + 3]).sum((1, 2, 3)) + bias
    return np.maximum(made, 0)


def halved(x):
    high, wide = x.shape[1] // 2, x.shape[2] // 2
    return x[:, : 2 * high, : 2 * wide].reshape(len(x), high, 2, wide, 2).max((2, 4))


def test_it_computes_the_papers_equations():
    torch.manual_seed(1)
    net = shaken(VGG(2, 4, **SIZES))
    p = numbers(net)
    picture = torch.randn(2, 2, 6, 5, dtype=torch.float64)
    logits, regions = net(picture).logits, net.regions(picture)
    assert regions.shape == (2, 3 * 2, 4)
    for row in range(2):
        x = picture[row].numpy()
        for path in ("0.0", "0.1"):
            x = convolved(x, p[f"features.blocks.{path}.weight"], p[f"features.blocks.{path}.bias"])
        x = convolved(halved(x), p["features.blocks.1.0.weight"], p["features.blocks.1.0.bias"])
        np.testing.assert_allclose(regions[row].detach().numpy(), x.reshape(4, -1).T, atol=1e-10)
        z = x.mean((1, 2))
        h = np.maximum(p["head.hidden.0.weight"] @ z + p["head.hidden.0.bias"], 0)
        expected = p["head.output.weight"] @ h + p["head.output.bias"]
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)


def test_the_papers_sizes():
    """The 13 convolutions of configuration D, as published: 14,714,688 numbers."""
    assert count(VGG, 3, 1000) == 14_714_688 + 513 * 4096 + 4097 * 1000


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"widths": []}, "a number of convolutions"), ({"convolutions": [1]}, "a number of conv")],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(RequestError, match=said):
        VGG(1, 2, **{**SIZES, **settings})


def test_a_picture_that_cannot_be_halved_is_refused():
    with pytest.raises(RequestError, match="too few"):
        VGG(1, 2, **{**SIZES, "widths": [2, 2, 2, 2], "convolutions": [1] * 4})(
            torch.zeros(1, 1, 6, 9)
        )
