"""Biases of the offset, in short sequences in C, against the reference in float64."""

import copy

import pytest
import torch

from regard import native
from regard.attention import (
    ALiBi,
    Attention,
    Causal,
    Directional,
    DistanceMask,
    Lengths,
    RelativeBias,
    RelativeKeys,
    Softmax,
    Window,
    attend,
    explain,
    kernels,
)
from regard.attention._ops.cpu.dots import CALL
from regard.attention.ragged import ragged_is_faster
from regard.errors import RequestError
from tests.attention.test_dots import LEVELS, check_packed, check_twice, relative

pytestmark = pytest.mark.skipif(
    native.unavailable_reason(CALL) is not None, reason="no C functions here"
)

KINDS = {
    "bias": lambda heads: filled(RelativeBias(4, heads=heads)),
    "bias, one for all heads": lambda _: filled(RelativeBias(9)),
    "bias, clip 1": lambda heads: filled(RelativeBias(1, heads=heads)),
    "alibi": ALiBi,
    "distance": lambda _: DistanceMask(0.3),
    "distance, learned": lambda _: DistanceMask(0.3, learned=True),
}
MASKS = {
    "none": None,
    "causal": Causal(),
    "window": Window(5, 3),
    "forward": Directional("forward"),
    "backward": Directional("backward"),
    "lengths": Lengths(torch.tensor([[7], [0], [27]])),
}


def filled(part):
    torch.nn.init.normal_(part.table)
    return part


def gradients(given, position, grad, **parts):
    """The context, and gradients of what was given and of what the position learns."""
    context = attend(*given, position=position, **parts).context
    return context, *torch.autograd.grad(context, (*given, *position.parameters()), grad)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    ("sizes", "at"),
    [((3, 4, 27, 27, 16, 16), 0), ((3, 2, 33, 40, 8, 12), 7), ((3, 1, 2, 27, 4, 4), -3)],
)
def test_outputs_and_gradients_against_float64(level, kind, mask, sizes, at):
    torch.manual_seed(1)
    batch, heads, queries, keys, size, width = sizes
    position = KINDS[kind](heads)
    given = [
        torch.randn(batch, heads, n, of, requires_grad=True)
        for n, of in ((queries, size), (keys, size), (keys, width))
    ]
    grad = torch.randn(batch, heads, queries, width)
    with native.at_level(level), kernels("dots"):
        found = gradients(given, position, grad, mask=MASKS[mask], at=at)
    exact = [x.detach().double().requires_grad_() for x in given]
    wide = copy.deepcopy(position).double()
    with kernels("reference"):
        expected = gradients(exact, wide, grad.double(), mask=MASKS[mask], at=at)
    assert relative(found[0].detach(), expected[0].detach()) < 3e-6
    for one, other in zip(found[1:], expected[1:], strict=True):
        assert one.shape == other.shape
        assert relative(one, other) < 2e-5 or (one - other).abs().max() < 3e-6


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_biases_come_on_top_of_relative_keys_of_the_same_clip(temperature):
    torch.manual_seed(2)
    score, position = RelativeKeys(8, 3, heads=2), filled(RelativeBias(3, heads=2))
    select = Softmax(temperature)
    given = [torch.randn(2, 2, 11, 8, requires_grad=True) for _ in range(3)]
    grad = torch.randn(2, 2, 11, 8)
    with kernels("dots"):
        found = gradients(given, position, grad, score=score, select=select)
    exact = [x.detach().double().requires_grad_() for x in given]
    wide = copy.deepcopy(position).double(), copy.deepcopy(score).double()
    with kernels("reference"):
        expected = gradients(exact, wide[0], grad.double(), score=wide[1], select=select)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", [None, Causal(), Window(2, 1), Directional("backward")])
def test_packed_sequences_are_one_call_and_as_one_by_one(kind, mask):
    torch.manual_seed(3)
    position = KINDS[kind](2)
    given = {"position": position, **({} if mask is None else {"mask": mask})}
    assert ragged_is_faster(given, 20)
    check_packed((5, 2, 9, 3, 12), given, "reference", position.parameters())


@pytest.mark.parametrize("kind", ["bias", "distance, learned"])
def test_second_derivatives(kind):
    torch.manual_seed(4)
    position = KINDS[kind](2)
    given = [torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3)]
    check_twice((*given, *position.parameters()), given, position=position)


def test_it_is_taken_where_something_learns_and_says_why_not():
    x = torch.randn(2, 2, 5, 4)
    given = {"score": RelativeKeys(4, 2), "position": RelativeBias(3)}
    with pytest.raises(RequestError, match="clipped at different distances"), kernels("dots"):
        attend(x, x, x, **given)
    assert "dots" in str(explain(Attention(position=ALiBi(2)))[""])
    with pytest.raises(RequestError, match="no gradients"), kernels("dots"):
        attend(x, x, x, position=RelativeBias(3).requires_grad_(False))
    with kernels("dots"):  # the table alone learns
        assert attend(x, x, x, position=RelativeBias(3)).context.requires_grad
    with pytest.raises(RequestError, match="for 3 heads, and the scores have"), kernels("dots"):
        attend(x, x, x, position=RelativeBias(3, heads=3))
