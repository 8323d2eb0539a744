"""Keys that are values, known from the papers' equations, and a memory that was made before."""

import pytest
import torch

from regard.attention import Attention, Dot, MultiHead
from regard.catalog import entry, load
from regard.claims.experiments.catalog_count import SIZE, counting, read
from regard.settings.check import given_by_data, optional_of_data


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rnnsearch", {"attention": True}),  # annotations are scored and summed
        ("convs2s", {"decoder.0.attention": False, "decoder.1.attention": False}),  # z, and z + e
        ("memn2n-lm", {"attention": False}),  # the matrices A and C
        ("deepatt", {"layers.0.attention": True, "layers.1.attention": True}),
        ("ram", {}),
    ],
)
def test_a_papers_keys_and_values(name, expected):
    made = load(name)
    sizes = set(given_by_data(made)) - optional_of_data(made)
    model = made(**dict.fromkeys(sizes, SIZE), **entry(name).tiny).eval()
    with counting(model) as found:
        read(model, name)
    assert found == expected


@pytest.mark.parametrize("layer", [Attention(Dot()), MultiHead(8, 2)])
def test_memories_and_arguments_are_told_apart(layer):
    x, other = torch.randn(2, 2, 3, 8)
    for given, same in [((x,), True), ((x, x), True), ((x, other), False)]:
        with counting(layer) as found:
            layer(x, *given)
        assert found == {"": same}
        with counting(layer) as found:
            layer(x, layer.remember(*given))
        assert found == {"": same}
