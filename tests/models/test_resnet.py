"""Residual blocks against their equations in NumPy, and against another program's."""

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.layers.norm import BatchNorm
from regard.models.resnet import ResidualBlocks, ResNet
from tests.models.slow import count, numbers, shaken

SMALL = {"widths": [3, 4], "convolutions": [1, 1], "stem": "small"}


def convolved(x, weight, stride=1):
    """(C, H, W), zeros around it, one place after the other."""
    side = weight.shape[-1]
    around = np.pad(x, ((0, 0), (side // 2,) * 2, (side // 2,) * 2))
    high, wide = (-(-s // stride) for s in x.shape[1:])
    made = np.zeros((len(weight), high, wide))
    for y in range(high):
        for z in range(wide):
            seen = around[:, stride * y : stride * y + side, stride * z : stride * z + side]
            made[:, y, z] = (weight * seen[None]).sum((1, 2, 3))
    return made


def normalized(x, p, name):
    """By the mean and variance that were kept."""
    mean, variance, weight, bias = (
        p[f"{name}.{part}"][:, None, None]
        for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / np.sqrt(variance + 1e-5) * weight + bias


def residual(x, p, name, stride):
    made = normalized(convolved(x, p[f"{name}.conv1.weight"], stride), p, f"{name}.bn1")
    made = normalized(convolved(np.maximum(made, 0), p[f"{name}.conv2.weight"]), p, f"{name}.bn2")
    if f"{name}.downsample.0.weight" in p:
        x = convolved(x, p[f"{name}.downsample.0.weight"], stride)
        x = normalized(x, p, f"{name}.downsample.1")
    return np.maximum(made + x, 0)


def trained_a_little(net):
    """Means and variances that are not those of the start."""
    generator = torch.Generator().manual_seed(5)
    for name, one in net.state_dict().items():
        if name.rpartition(".running_")[1]:
            drawn = torch.rand(one.shape, generator=generator, dtype=one.dtype)
            one.copy_(drawn + 0.5 if name.endswith("var") else drawn - 0.5)
    return net.eval()


def test_it_computes_the_papers_equations():
    torch.manual_seed(1)
    net = trained_a_little(shaken(ResNet(2, 4, **SMALL)))
    p = numbers(net)
    pictures = torch.randn(2, 2, 6, 5, dtype=torch.float64)
    logits, regions = net(pictures).logits, net.regions(pictures)
    assert regions.shape == (2, 3 * 3, 4)
    for row in range(2):
        x = convolved(pictures[row].numpy(), p["features.conv1.weight"])
        x = np.maximum(normalized(x, p, "features.bn1"), 0)
        x = residual(x, p, "features.layer1.0", 1)
        x = residual(x, p, "features.layer2.0", 2)
        np.testing.assert_allclose(regions[row].detach().numpy(), x.reshape(4, -1).T, atol=1e-10)
        expected = p["output.weight"] @ x.mean((1, 2)) + p["output.bias"]
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("block", ["basic", "bottleneck"])
def test_it_is_transformers_network(block):
    """The large stem, its maximum and bottlenecks too."""
    transformers = pytest.importorskip("transformers")
    ours = trained_a_little(ResidualBlocks(3, [4, 6], [2, 1], block, "large").double())
    sizes = [4, 6] if block == "basic" else [16, 24]
    config = transformers.ResNetConfig(
        num_channels=3, embedding_size=4, hidden_sizes=sizes, depths=[2, 1], layer_type=block,
    )  # fmt: skip
    theirs = transformers.ResNetModel(config).double().eval()
    weights = [*ours.state_dict().items()]
    # Theirs has the shortcut before the convolutions of a block.
    weights.sort(key=lambda one: _place(one[0]))
    names = [name for name in theirs.state_dict() if not name.endswith("tracked")]
    given = {n: one for n, (_, one) in zip(names, weights, strict=True)}
    theirs.load_state_dict(given, strict=False)
    pictures = torch.randn(2, 3, 33, 40, dtype=torch.float64)
    expected = theirs(pictures).last_hidden_state
    torch.testing.assert_close(ours(pictures), expected, atol=1e-10, rtol=0)


def _place(name):
    """Of a tensor: its stage, its block, and whether it is no shortcut's; the stem is stage 0."""
    parts = name.split(".")
    if not name.startswith("layer"):
        return 0, name.startswith("bn"), False
    return int(parts[0][5:]), int(parts[1]), "downsample" not in name


def test_batch_norm_is_torchs():
    """In training, its averages too, and in use."""
    torch.manual_seed(2)
    ours, theirs = BatchNorm(3).double(), torch.nn.BatchNorm2d(3).double()
    for step in range(4):
        given = torch.randn(2, 3, 4, 5, dtype=torch.float64) * (step + 1) + step
        torch.testing.assert_close(ours(given), theirs(given))
    own = theirs.state_dict()
    del own["num_batches_tracked"]
    torch.testing.assert_close(ours.state_dict(), own, check_stride=False)
    torch.testing.assert_close(ours.eval()(given), theirs.eval()(given))


def test_the_papers_sizes():
    """ResNet-18 and -50 with 1,000 classes, as torchvision counts them, and the averages."""
    averages = 2 * (64 + 4 * 64 + 5 * (128 + 256 + 512))
    assert count(ResNet, 3, 1000) == 11_689_512 + averages


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"widths": []}, "a number of blocks"),
        ({"convolutions": [1]}, "a number of blocks"),
        ({"block": "basics"}, "no block 'basics'.*'basic'"),
        ({"stem": "huge"}, "no stem 'huge'"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(RequestError, match=said):
        ResNet(1, 2, **{**SMALL, **settings})
