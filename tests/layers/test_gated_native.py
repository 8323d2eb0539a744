"""All steps of a gated unit in C against the same in float64, at each level of instructions."""

import itertools

import pytest
import torch

from regard import native
from regard.layers import _gated
from regard.layers._gated import recurrence
from regard.native import at_level
from regard.native import gated as c

pytestmark = pytest.mark.skipif(native.library() is None, reason=f"no C: {native.missing()}")

FORMS = list(itertools.product((True, False), (True, False)))  # before, keep
SIZES = (7, 7, 5, 5, 2, 1)


def problem(hidden, packed=False, begun=True, inside=False, before=True, rows=7, steps=6):
    """Inputs of all steps, the first state, U, and what stands inside."""
    torch.manual_seed(hidden)
    shape = (sum(SIZES),) if packed else (steps, rows)
    state = torch.randn(rows, hidden) if begun else None
    within = torch.randn(rows, hidden) if inside and not before else None
    return torch.randn(*shape, 3 * hidden), state, torch.randn(3 * hidden, hidden) / 2, within


def run(given, before, keep, sizes=None, dtype=torch.float32):
    """States, and gradients of all that has some."""
    given = [None if x is None else x.to(dtype).requires_grad_() for x in given]
    states = recurrence(*given, before=before, keep=keep, sizes=sizes)
    owed = torch.randn(states.shape, generator=torch.Generator().manual_seed(9)).to(dtype)
    wanted = [x for x in given if x is not None]
    return [states.detach(), *torch.autograd.grad(states, wanted, owed)]


def close(got, right):
    for x, y in zip(got, right, strict=True):
        limit = 3e-6 * float(y.abs().max().clamp_min(1))
        torch.testing.assert_close(x.double(), y, rtol=0, atol=limit)


@pytest.mark.parametrize("level", ["AVX-512", "AVX2", "portable"])
@pytest.mark.parametrize(("before", "keep"), FORMS)
@pytest.mark.parametrize("hidden", [1, 16, 37])
def test_values_and_gradients(level, before, keep, hidden):
    for begun, inside in ((True, True), (False, False)):
        given = problem(hidden, begun=begun, inside=inside, before=before)
        assert c.supported(*given[:3], given[3])
        right = run(given, before, keep, dtype=torch.float64)
        with at_level(level):
            close(run(given, before, keep), right)


@pytest.mark.parametrize(("before", "keep"), FORMS)
def test_sequences_without_padding(before, keep):
    given = problem(19, packed=True, begun=False)
    right = run(given, before, keep, SIZES, torch.float64)
    close(run(given, before, keep, SIZES), right)


@pytest.mark.parametrize(("before", "keep"), FORMS)
def test_threads_change_no_bit(before, keep):
    given, found = problem(64, rows=90, steps=20), []
    threads = torch.get_num_threads()
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            found.append(run(given, before, keep)[:3])  # what the weights get is PyTorch's product
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_row_does_not_depend_on_its_neighbors():
    inputs, state, weight, _ = problem(24)
    together = recurrence(inputs, state, weight)
    for i in range(7):
        alone = recurrence(inputs[:, i : i + 1], state[i : i + 1], weight)
        assert torch.equal(together[:, i : i + 1], alone)


def test_inputs_of_any_strides():
    inputs, state, weight, _ = problem(12)
    right = recurrence(inputs, state, weight)
    turned = inputs.transpose(0, 1).contiguous().transpose(0, 1)
    columns = inputs.mT.contiguous().mT
    wide = torch.cat([inputs, inputs], -1)[..., :36]
    for x in (turned, columns, wide):
        assert not x.is_contiguous()
        assert torch.equal(recurrence(x, state.mT.contiguous().mT, weight), right)
    one = inputs[:1].expand(6, 7, 36)  # a step has no stride
    assert torch.equal(recurrence(one, state, weight), recurrence(one.clone(), state, weight))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, 13, 25])
def test_numbers_that_are_none_are_seen(value, place):
    given = problem(12, begun=False)
    given[0][2, 3, place] = value
    states = recurrence(*given)
    right = recurrence(*(None if x is None else x.double() for x in given))
    assert torch.equal(states.isnan(), right.isnan())
    assert torch.allclose(states.double(), right, rtol=0, atol=1e-5, equal_nan=True)


def test_what_c_does_not_run(monkeypatch):
    inputs, state, weight, _ = problem(12)
    assert c.supported(inputs, state, weight, None)
    assert not c.supported(inputs.double(), state, weight, None)
    assert not c.supported(inputs, state.half(), weight, None)
    assert not c.supported(inputs, state, torch.randn(3 * 400, 400), None)

    def never(*_):
        raise AssertionError("called")

    monkeypatch.setattr(c, "forward", never)
    recurrence(inputs[: _gated.STEPS - 1], state, weight)  # few steps are not worth the packing
    with torch.autocast("cpu", dtype=torch.bfloat16):
        recurrence(inputs, state, weight)
    with pytest.raises(AssertionError, match="called"):
        recurrence(inputs, state, weight)


def test_wrong_sizes_are_refused():
    inputs, _, weight, _ = problem(8, packed=True, begun=False)
    with pytest.raises(IndexError, match="lengths, offsets or spans"):
        c.forward(inputs, None, weight, None, c.Unit(True, True, [2, 3, *[4] * 5, 2]))
    with pytest.raises(IndexError, match="lengths, offsets or spans"):  # fewer inputs than words
        c.forward(inputs[:-1], None, weight, None, c.Unit(True, True, SIZES))
