"""Positions against the printed formula."""

import math

import pytest
import torch

from regard.errors import RequestError
from regard.layers.positional_encoding import LearnedPositions, Sinusoid, sinusoid


def test_thing_7_the_paper_interleaves_sines_and_cosines():
    table = sinusoid(50, 12)
    for p in (0, 1, 7, 49):
        for i in range(6):
            angle = p / 10000 ** (2 * i / 12)
            assert table[p, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[p, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_thing_7_the_code_of_the_authors_concatenates_with_another_exponent():
    table = sinusoid(50, 12, "halves")
    for p in (0, 1, 7, 49):
        for i in range(6):
            angle = p * 10000 ** (-i / 5)
            assert table[p, i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[p, 6 + i].item() == pytest.approx(math.cos(angle), abs=1e-6)
    with pytest.raises(RequestError, match="did you mean 'halves'"):
        sinusoid(4, 4, "half")


def test_a_shift_is_a_rotation():
    """PE(p + k) is linear in PE(p), with the same matrix for every p (section 3.5)."""
    table = sinusoid(100, 8).double()
    k, rotation = 5, torch.zeros(8, 8).double()
    for i in range(4):
        w = 10000 ** (-2 * i / 8)
        c, s = math.cos(k * w), math.sin(k * w)
        rotation[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, s], [-s, c]])
    torch.testing.assert_close(table[:-k] @ rotation.T, table[k:], atol=1e-5, rtol=0)


def test_the_table_grows_and_offsets_agree():
    layer = Sinusoid(8, length=4)
    x = torch.zeros(2, 30, 8)
    whole = layer(x)
    torch.testing.assert_close(whole[0], sinusoid(30, 8))
    torch.testing.assert_close(layer(x[:, 20:], at=20), whole[:, 20:])
    assert not layer.state_dict()


def test_odd_sizes():
    assert sinusoid(3, 7).shape == (3, 7)
    assert sinusoid(3, 7, "halves").shape == (3, 7)


def test_learned_positions_end():
    layer = LearnedPositions(4, 6)
    torch.testing.assert_close(layer(torch.zeros(1, 2, 4), at=3)[0], layer.table[3:5])
    with pytest.raises(RequestError, match="end at 6, got position 7"):
        layer(torch.zeros(1, 2, 4), at=5)


@pytest.mark.nohook
def test_the_table_grows_inside_a_compiled_graph():
    """No device is a value of a graph: what asks for one is not asked there."""
    module = Sinusoid(6, length=4)
    run = torch.compile(module, fullgraph=True, backend="eager", dynamic=True)
    try:
        for length in (3, 5, 40):
            x = torch.randn(2, length, 6)
            torch.testing.assert_close(run(x), x + sinusoid(length, 6), atol=1e-6, rtol=0)
    finally:
        torch._dynamo.reset()
