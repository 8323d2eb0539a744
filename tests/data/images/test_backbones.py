"""Networks of others in files: what they give, what is kept on disk, and what is refused."""

import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from regard.data.images import backbones
from regard.data.images.backbones import Backbone, backbone_of
from regard.errors import RegardError, RequestError
from regard.models.resnet import ResidualBlocks, ResNet
from regard.models.vgg import VGG, ConvolutionBlocks
from regard.system.extras import install
from tests.models.test_resnet import trained_a_little

PIXELS = np.random.default_rng(1).integers(0, 256, (16, 12, 3), np.uint8)
PLAIN = {"mean": (0.0,) * 3, "deviation": (1.0,) * 3}
PICTURE = torch.from_numpy(PIXELS.astype(np.float32) / 255).permute(2, 0, 1)[None]


def onnx_file(path, *, head=True, size=(None, 3, None, None), kind=1, seed=1):
    """A convolution of 3 x 3, a rectifier, and where wanted the mean and a layer of 2 classes."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    h, numpy = onnx.helper, onnx.numpy_helper
    random = np.random.default_rng(seed)
    weight = random.normal(size=(5, size[1] or 3, 3, 3)).astype(np.float32)
    nodes = [
        h.make_node("Conv", ["pictures", "w"], ["c"], pads=[1] * 4, strides=[2, 2]),
        h.make_node("Relu", ["c"], ["maps"]),
    ]
    weights = [numpy.from_array(weight, "w")]
    out = h.make_tensor_value_info("maps", kind, [None, 5, None, None])
    if head:
        nodes += [
            h.make_node("GlobalAveragePool", ["maps"], ["pooled"]),
            h.make_node("Flatten", ["pooled"], ["flat"]),
            h.make_node("MatMul", ["flat", "v"], ["logits"]),
        ]
        weights.append(numpy.from_array(np.ones((5, 2), np.float32), "v"))
        out = h.make_tensor_value_info("logits", kind, [None, 2])
    given = h.make_tensor_value_info("pictures", kind, size)
    graph = h.make_graph(nodes, "net", [given], [out], weights)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(path))
    return torch.from_numpy(weight)


@pytest.mark.parametrize("head", [True, False])
def test_the_last_maps_of_an_onnx_file_are_regions(head, tmp_path):
    """Those of its output, or within it where its output is classes."""
    weight = onnx_file(tmp_path / "net.onnx", head=head)
    found = Backbone(str(tmp_path / "net.onnx"), **PLAIN).regions(PIXELS)
    expected = torch.relu(nn.functional.conv2d(PICTURE, weight, stride=2, padding=1))
    np.testing.assert_allclose(found, expected[0].flatten(1).T.numpy(), atol=1e-5)
    assert found.shape == (8 * 6, 5)


def test_a_tensor_of_an_onnx_file_is_named(tmp_path):
    weight = onnx_file(tmp_path / "net.onnx")
    found = Backbone(str(tmp_path / "net.onnx"), output="c", **PLAIN).regions(PIXELS)
    expected = nn.functional.conv2d(PICTURE, weight, stride=2, padding=1)
    np.testing.assert_allclose(found, expected[0].flatten(1).T.numpy(), atol=1e-5)
    for name, said in (("x", "has no tensor 'x'.*logits"), ("logits", r"shape \(1, 2\)")):
        with pytest.raises(RequestError, match=said):
            Backbone(str(tmp_path / "net.onnx"), output=name).regions(PIXELS)


def test_colors_are_scaled_as_imagenets_or_as_is_said(tmp_path):
    weight = onnx_file(tmp_path / "net.onnx")
    path = str(tmp_path / "net.onnx")
    mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    deviation = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    expected = nn.functional.conv2d((PICTURE - mean) / deviation, weight, stride=2, padding=1)
    found = Backbone(path).regions(PIXELS)
    np.testing.assert_allclose(
        found, torch.relu(expected)[0].flatten(1).T.numpy(), atol=1e-4, rtol=1e-4
    )
    same = backbone_of({"path": path, "mean": mean.flatten().tolist()}, 3)
    assert same is not None
    np.testing.assert_array_equal(same.regions(PIXELS), found)


class Torchvision(nn.Module):
    """A VGG as torchvision numbers its layers."""

    def __init__(self, *, normalized):
        super().__init__()
        layers = []
        for size, width, halves in ((3, 4, False), (4, 4, True), (4, 6, False), (6, 6, True)):
            layers.append(nn.Conv2d(size, width, 3, padding=1))
            layers += [nn.BatchNorm2d(width)] * normalized + [nn.ReLU()]
            layers += [nn.MaxPool2d(2)] * halves
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(6, 2)

    def maps(self, x):
        return self.features[:-1](x)


@pytest.mark.parametrize("normalized", [False, True])
def test_weights_of_a_vgg(normalized, tmp_path):
    torch.manual_seed(2)
    net = trained_a_little(Torchvision(normalized=normalized))
    save_file(net.state_dict(), tmp_path / "vgg.safetensors")
    found = Backbone(str(tmp_path / "vgg.safetensors"), **PLAIN).regions(PIXELS)
    with torch.no_grad():
        expected = net.maps(PICTURE)[0].flatten(1).T.numpy()
    assert expected.shape == (8 * 6, 6)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: VGG(3, 2, widths=[4, 6], convolutions=[1, 2], ffn_dim=3),
        lambda: ConvolutionBlocks(3, [4, 6], [2, 1]),
        lambda: ResNet(3, 2, widths=[4, 6], convolutions=[1, 2], stem="small"),
        lambda: ResidualBlocks(3, [4, 6, 8], [1, 1, 1], "bottleneck", "large"),
    ],
)
def test_weights_of_our_own_networks(make, tmp_path):
    torch.manual_seed(3)
    net = trained_a_little(make())
    save_file({n: one.half() for n, one in net.state_dict().items()}, tmp_path / "n.safetensors")
    found = Backbone(str(tmp_path / "n.safetensors"), **PLAIN).regions(PIXELS)
    with torch.no_grad():
        expected = (
            net.regions(PICTURE)[0] if hasattr(net, "regions") else net(PICTURE)[0].flatten(1).T
        )
    np.testing.assert_allclose(found, expected.numpy(), atol=0.02, rtol=0.02)


def test_regions_are_computed_once_and_kept_whole(tmp_path, monkeypatch):
    onnx_file(tmp_path / "net.onnx")
    kept = tmp_path / "kept"
    backbone = Backbone(str(tmp_path / "net.onnx"), cache=str(kept))
    computed = []
    plain = Backbone._computed
    monkeypatch.setattr(
        Backbone, "_computed", lambda self, pixels: computed.append(1) or plain(self, pixels)
    )
    first = backbone.regions(PIXELS)
    np.testing.assert_array_equal(backbone.regions(PIXELS), first)
    assert len(computed) == 1
    (file,) = kept.rglob("*.npy")
    file.write_bytes(file.read_bytes()[:-3])  # cut short by somebody else
    np.testing.assert_array_equal(backbone.regions(PIXELS), first)
    assert len(computed) == 2
    backbone.regions(255 - PIXELS)  # another picture
    Backbone(str(tmp_path / "net.onnx"), cache=str(kept), output="c").regions(PIXELS)
    assert len(computed) == 4
    onnx_file(tmp_path / "net.onnx", seed=2)  # another network under the same name
    assert not np.array_equal(backbone.regions(PIXELS), first)
    assert len([*kept.rglob("*.npy")]) == 4
    assert not [one for one in kept.rglob("*") if one.is_file() and one.suffix != ".npy"]


def test_a_cache_that_cannot_be_written_says_so(tmp_path):
    onnx_file(tmp_path / "net.onnx")
    (tmp_path / "file").write_text("")
    with pytest.raises(RegardError, match="could not be written"):
        Backbone(str(tmp_path / "net.onnx"), cache=str(tmp_path / "file")).regions(PIXELS)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.onnx", b"", "is no ONNX file"),
        ("a.onnx", b"not a network at all", "is no ONNX file"),
        ("a.safetensors", b"short", "is no safetensors file"),
        ("a.pt", b"x", "expected an .onnx or .safetensors file"),
    ],
)
def test_files_that_are_no_networks(name, content, said, tmp_path):
    pytest.importorskip("onnx")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError, match=said):
        Backbone(str(tmp_path / name)).regions(PIXELS)


def test_networks_that_cannot_be_used(tmp_path):
    file = tmp_path / "net.safetensors"
    weights = ResidualBlocks(3, [4, 6], [1, 1]).state_dict()
    for changed, said in (
        ({"a": torch.zeros(2)}, "expected those of a VGG"),
        ({**weights, "layer1.0.se.weight": torch.zeros(2)}, "layer1.0.se.weight belongs to no"),
        ({n: w for n, w in weights.items() if n != "layer2.0.bn2.bias"}, "bn2.bias is missing"),
        ({**weights, "layer2.0.bn2.bias": torch.zeros(2)}, r"has the shape \(2,\)"),
    ):
        save_file(changed, file)
        with pytest.raises(RequestError, match=said):
            Backbone(str(file)).regions(PIXELS)
    save_file(weights, file)
    with pytest.raises(RequestError, match=r"reads 3 channels, task.channels is 1"):
        Backbone(str(file), 1).regions(PIXELS[..., :1])
    with pytest.raises(RequestError, match=r"only tensors of an .onnx file"):
        Backbone(str(file), output="maps").regions(PIXELS)
    fixed = tmp_path / "net.onnx"
    onnx_file(fixed, size=(1, 3, 32, 32))
    with pytest.raises(RequestError, match=r"reads pictures \(1, 3, 32, 32\).*task.size"):
        Backbone(str(fixed)).regions(PIXELS)
    with pytest.raises(RequestError, match="there is no"):
        Backbone(str(tmp_path / "none.onnx")).regions(PIXELS)
    with pytest.raises(RequestError, match="is no file"):
        Backbone(str(tmp_path)).regions(PIXELS)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"file": "a.onnx"}, "no key 'file'"),
        ({"path": 3}, "path: expected a text, got 3"),
        ({"path": "a", "mean": "b"}, "mean: expected a list of numbers"),
        ({"path": "a", "mean": [0.5]}, "mean: expected 3 numbers"),
        ({"path": "a", "deviation": [1, 0, 1]}, "deviation: expected 3 numbers above 0"),
        ({"cache": "a"}, "expected a path"),
    ],
)
def test_settings_that_are_refused(told, said):
    with pytest.raises(RequestError, match=said):
        backbone_of(told, 3)


def test_without_onnxruntime_it_says_what_to_install(tmp_path, monkeypatch):
    onnx_file(tmp_path / "net.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    backbones._opened.cache_clear()
    with pytest.raises(RequestError, match=re.escape(install("backbone"))):
        Backbone(str(tmp_path / "net.onnx")).regions(PIXELS)
