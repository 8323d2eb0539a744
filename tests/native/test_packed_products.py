"""Products with packed weights: the same at every level, and right by a slow reference."""

from pathlib import Path

import pytest
import torch

from regard import native
from regard.native.packed_products import PRECISIONS, PackedProduct
from regard.native.quantize import row_bytes

needs_c = pytest.mark.skipif(native.library() is None, reason="no compiled library")


@pytest.fixture(params=["AVX-512", "AVX-512 without VNNI", "AVX2", "AVX2 with VNNI", "portable"])
def level(request):
    """On a machine without AVX-VNNI, AVX2 with VNNI has AVX-512's encoding of it."""
    found, how, _ = request.param.partition(" with")
    out = request.param.endswith("without VNNI")
    if how and not out and "vnni" not in flags():
        pytest.skip("this machine has no VNNI")
    native.library().regard_set_vnni(0 if out else 2 if how else 1)
    with native.at_level(found.strip()):
        yield
    native.library().regard_set_vnni(1)


def flags():
    """What Linux says of the processor; everything where it says nothing."""
    about = Path("/proc/cpuinfo")
    return about.read_text() if about.is_file() else "vnni"


def numbers(rows, out, inputs):
    generator = torch.Generator().manual_seed(rows)
    draw = [torch.randn(n, inputs, generator=generator) for n in (rows, out)]
    for x in draw:  # the ends of the range, where two products of bytes leave 16 bits
        x[0] = 1.0
        x[-1] = torch.tensor([1.0, -1.0]).repeat(inputs // 2)
    if rows > 2:  # two terms of which a weight of 255, as AVX2 has it, makes more than 16 bits
        draw[0][1] = torch.tensor([65.0, 64.0]).repeat(inputs // 2) / 127
        draw[0][1, :2] = torch.tensor([1.0, 0.0])
    return draw


@needs_c
@pytest.mark.parametrize("rows", [1, 2, 5, 12, 13, 40])
def test_int8_sums_are_the_same_integers_at_every_level(rows, level):
    x, weight = numbers(rows, 77, 96 if rows < 12 else 272)
    (bytes_x, step_x), (bytes_w, step_w) = row_bytes(x), row_bytes(weight)
    whole = bytes_x.long() @ bytes_w.long().T
    expected = whole.float() * step_x * step_w.T  # in C's order: by the row's step first
    found = PackedProduct(weight, "int8")(x)
    assert torch.equal((found.double() / step_x / step_w.T).round().long(), whole)
    torch.testing.assert_close(found, expected, rtol=3e-7, atol=0)
    with native.at_level("portable"):
        assert torch.equal(PackedProduct(weight, "int8")(x), found)


@needs_c
@pytest.mark.parametrize("precision", PRECISIONS[:2])
@pytest.mark.parametrize("rows", [1, 2, 5, 12, 13, 40])
def test_products_of_rounded_weights(rows, precision, level):
    x, weight = numbers(rows, 77, 96)
    rounded = weight.bfloat16() if precision == "bfloat16" else weight
    found = PackedProduct(weight, precision)(x)
    torch.testing.assert_close(
        found.double(), x.double() @ rounded.double().T, rtol=1e-5, atol=1e-5
    )


@needs_c
def test_rows_of_another_width_are_an_error():
    with pytest.raises(ValueError, match="x: expected 96 columns, got 80"):
        PackedProduct(torch.randn(32, 96))(torch.randn(3, 80))
    with pytest.raises(ValueError, match=r"weight: expected \(out, in\), in a multiple of 16"):
        PackedProduct(torch.randn(32, 97))
    with pytest.raises(ValueError, match="precision: expected one of float32"):
        PackedProduct(torch.randn(32, 96), "int4")
