"""Weights as arrays are those that PyTorch reads, of any dtype."""

import json

import numpy as np
import pytest

from regard import loading
from regard.convert import export
from regard.layers.positional_encoding import sinusoid
from regard.runtime.weights import FILE, read_weights, sinusoid_table
from tests.folder import toy


def noted(folder):
    return json.loads((folder / "config.json").read_text())["weights"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int7", "int6"])
def test_weights_are_those_of_the_model(dtype, tmp_path):
    folder = toy.make(tmp_path / "toy", "transformer")
    export(folder, "regard", tmp_path / "small", quantization=dtype)
    found = read_weights(tmp_path / "small", noted(tmp_path / "small"))
    expected = loading.load(tmp_path / "small").model.state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], value.numpy())


def test_a_damaged_file_has_none(tmp_path):
    folder = toy.make(tmp_path / "toy", "rnnsearch")
    path = folder / FILE
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert read_weights(folder, noted(folder)) is None
    path.unlink()
    assert read_weights(folder, noted(folder)) is None


@pytest.mark.parametrize("layout", ["interleaved", "grouped", "halves"])
@pytest.mark.parametrize("dim", [1, 6, 7])
def test_sinusoids_are_those_of_the_layer(dim, layout):
    expected = sinusoid(40, dim, layout).numpy()
    np.testing.assert_allclose(sinusoid_table(40, dim, layout), expected, atol=1e-7)
