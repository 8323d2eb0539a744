"""Gated units against loops written from the papers' equations in NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import RequestError
from regard.layers.embed import Embed
from regard.layers.layout import PackedLayout
from regard.layers.rnn import GRU, BiGRU, Gated

FORMS = [("before", "keep"), ("before", "take"), ("after", "keep"), ("after", "take")]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def slow_step(a, h, weight, reset, update, inside=0.0):
    """One state of one row, as printed; a and the rows of U in the order r, z, n."""
    size = len(h)
    u_r, u_z, u = weight[:size], weight[size : 2 * size], weight[2 * size :]
    r = sigmoid(a[:size] + u_r @ h)
    z = sigmoid(a[size : 2 * size] + u_z @ h)
    if reset == "before":
        new = np.tanh(a[2 * size :] + u @ (r * h))
    else:
        new = np.tanh(a[2 * size :] + r * (u @ h + inside))
    return z * h + (1 - z) * new if update == "keep" else (1 - z) * h + z * new


def numbers(x):
    return x.detach().numpy()


@pytest.mark.parametrize(("reset", "update"), FORMS)
def test_a_sequence_is_the_printed_equation_word_by_word(reset, update):
    torch.manual_seed(1)
    layer = GRU(3, 5, reset=reset, update=update).double()
    nn.init.normal_(layer.input.bias)
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    start = torch.randn(2, 5, dtype=torch.float64)
    states, final = layer(x, state=start)
    weight, bias = numbers(layer.input.weight), numbers(layer.input.bias)
    for row in range(2):
        h = start[row].numpy()
        for t in range(6):
            a = weight @ x[row, t].numpy() + bias
            h = slow_step(a, h, numbers(layer.recurrent.weight), reset, update)
            np.testing.assert_allclose(numbers(states[row, t]), h, atol=1e-12)
        np.testing.assert_allclose(numbers(final[row]), h, atol=1e-12)


@pytest.mark.parametrize(
    ("reset", "update", "zero"),
    [
        pytest.param(*form, zero, marks=() if n % 2 == zero else pytest.mark.slow)
        for n, form in enumerate(FORMS)
        for zero in (False, True)
    ],
)
def test_the_written_out_gradient_is_the_true_one(reset, update, zero):
    torch.manual_seed(2)
    unit = Gated(4, reset=reset, update=update).double()

    def make(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    state = None if zero else make(2, 4)
    inside = make(2, 4) if reset == "after" else None

    def run(inputs, state, inside, weight):
        return torch.func.functional_call(unit, {"weight": weight}, (inputs, state, inside))

    unit.forward = unit.sequence
    weight = unit.weight.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(run, (make(2, 3, 12), state, inside, weight))


def test_a_step_is_the_sequence_of_one_over_any_batch_axes():
    unit = Gated(4, reset="after").double()
    inputs = torch.randn(2, 3, 12, dtype=torch.float64)
    state, inside = torch.randn(2, 2, 3, 4, dtype=torch.float64)
    out = unit(inputs, state, inside)
    for b in range(2):
        for k in range(3):
            expected = slow_step(
                inputs[b, k].numpy(), state[b, k].numpy(), numbers(unit.weight),
                "after", "keep", inside[b, k].numpy(),
            )  # fmt: skip
            np.testing.assert_allclose(numbers(out[b, k]), expected, atol=1e-12)


def test_after_is_the_gated_unit_of_pytorch():
    torch.manual_seed(3)
    ours, theirs = GRU(3, 5, reset="after"), nn.GRU(3, 5, batch_first=True)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.input.weight)
        theirs.weight_hh_l0.copy_(ours.recurrent.weight)
        theirs.bias_ih_l0.copy_(ours.input.bias)
        theirs.bias_hh_l0.zero_()
    x = torch.randn(4, 7, 3)
    torch.testing.assert_close(ours(x)[0], theirs(x)[0], atol=1e-6, rtol=0)


def gates(reset, update, r, z):
    """A unit with random weights of the candidate, r and z held at 0 or 1 by large inputs."""
    torch.manual_seed(4)
    unit = Gated(4, reset=reset, update=update).double()
    with torch.no_grad():
        unit.weight[:8] = 0
    inputs = torch.randn(2, 1000, 12, dtype=torch.float64)
    for gate, value in ((slice(0, 4), r), (slice(4, 8), z)):
        if value is not None:
            inputs[..., gate] = 1e3 if value else -1e3
    return unit, inputs, torch.randn(2, 4, dtype=torch.float64)


def test_thing_2_the_two_resets_agree_at_r_1_and_differ_else():
    for r, same in ((1, True), (None, False)):
        before, inputs, state = gates("before", "keep", r, None)
        after, _, _ = gates("after", "keep", r, None)
        inputs = inputs[:, :5]
        found = torch.allclose(before.sequence(inputs, state), after.sequence(inputs, state))
        assert found is same


@pytest.mark.parametrize(("update", "z"), [("keep", 1), ("take", 0)])
@pytest.mark.parametrize("reset", ["before", "after"])
def test_thing_2_z_keeps_the_state_in_cho_and_takes_the_new_one_in_bahdanau(reset, update, z):
    unit, inputs, state = gates(reset, update, None, z)
    states = unit.sequence(inputs, state)
    assert torch.equal(states[:, -1], state)  # exactly, after 1000 steps
    unit, inputs, _ = gates(reset, update, 1, 1 - z)
    new = torch.tanh(inputs[:, 0, 8:] + state @ unit.weight[8:].T)
    torch.testing.assert_close(unit.sequence(inputs, state)[:, 0], new)


@pytest.mark.parametrize("reset", ["before", "after"])
def test_thing_2_both_updates_are_one_family(reset):
    torch.manual_seed(5)
    keep, take = Gated(4, reset=reset, update="keep"), Gated(4, reset=reset, update="take")
    turned = torch.ones(12)
    turned[4:8] = -1
    with torch.no_grad():
        take.weight.copy_(keep.weight * turned[:, None])
    inputs, state = torch.randn(3, 6, 12), torch.randn(3, 4)
    torch.testing.assert_close(keep.sequence(inputs, state), take.sequence(inputs * turned, state))


@pytest.mark.parametrize("backward", [False, True])
def test_padding_is_never_read(backward):
    torch.manual_seed(6)
    layer = GRU(3, 5, backward=backward).double()
    x, lengths = torch.randn(3, 6, 3, dtype=torch.float64), torch.tensor([6, 2, 4])
    states, final = layer(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        words = x[row : row + 1, :length]
        if backward:
            reverse, last = GRU.forward(layer_ahead(layer), words.flip(1))
            alone = reverse.flip(1)
        else:
            alone, last = layer(words)
        torch.testing.assert_close(states[row : row + 1, :length], alone)
        torch.testing.assert_close(final[row : row + 1], last)
        assert states[row, length:].eq(0).all()


def layer_ahead(layer):
    """The same unit, reading forward."""
    ahead = GRU(3, 5).double()
    ahead.load_state_dict(layer.state_dict())
    return ahead


def test_both_directions_and_the_states_at_their_ends():
    torch.manual_seed(7)
    layer = BiGRU(3, 5, reset="before", update="take")
    x, lengths = torch.randn(2, 4, 3), torch.tensor([4, 2])
    states, end, beginning = layer(x, lengths)
    assert states.shape == (2, 4, 10)
    torch.testing.assert_close(end, torch.stack([states[0, 3, :5], states[1, 1, :5]]))
    torch.testing.assert_close(beginning, states[:, 0, 5:])


def test_one_bias_a_gate():
    count = sum(p.numel() for p in BiGRU(7, 11).parameters())
    assert count == 2 * (3 * 11 * 7 + 3 * 11**2 + 3 * 11)


@pytest.mark.parametrize("reset", ["before", "after"])
def test_bfloat16_keeps_its_state_in_single_precision(reset):
    torch.manual_seed(8)
    layer, x = GRU(8, 16, reset=reset), torch.randn(4, 9, 8)
    exact = layer(x)[0]
    with torch.autocast("cpu", torch.bfloat16):
        states, _ = layer(x)
    assert states.dtype == torch.bfloat16  # for its readers
    assert (states - exact).abs().max() < 0.02
    states.square().sum().backward()
    found = layer.recurrent.weight.grad.clone()
    layer.zero_grad()
    exact.square().sum().backward()
    torch.testing.assert_close(found, layer.recurrent.weight.grad, atol=0.3, rtol=0.05)


def test_the_recurrent_matrices_start_orthogonal():
    for block in Gated(6).weight.detach().chunk(3):
        torch.testing.assert_close(block @ block.T, torch.eye(6), atol=1e-5, rtol=0)


def test_a_wrong_word_is_answered_with_the_right_one():
    with pytest.raises(RequestError, match="no reset of a GRU is called 'befor'; did you mean 'be"):
        Gated(4, reset="befor")
    with pytest.raises(RequestError, match='expected reset="after"'):
        Gated(2)(torch.zeros(1, 6), torch.zeros(1, 2), torch.zeros(1, 2))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_words_are_read_as_their_vectors(dropout):
    embed, layer = Embed(5, 3, dropout=dropout).double(), BiGRU(3, 4).double()
    ids, lengths = torch.randint(1, 5, (3, 6)), torch.tensor([6, 2, 4])
    torch.manual_seed(9)
    found = layer.words(embed, ids, lengths)
    torch.manual_seed(9)
    for one, other in zip(found, layer(embed(ids), lengths), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("reset", "update"), FORMS)
def test_a_loop_is_the_step_and_all_its_gradients(reset, update):
    torch.manual_seed(10)
    unit = Gated(4, reset=reset, update=update).double()
    inputs, state, context, weights = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        for shape in ((3, 2, 12), (2, 4), (3, 2, 5), (12, 5))
    )

    def by_loop():
        loop, h, out = unit.loop(weights, torch.float64), state, []
        for a, c in zip(inputs, context, strict=True):
            h = loop(a, c + h.sum(-1, keepdim=True), h)  # what is looked at depends on the state
            out.append(h)
        return torch.stack(out)

    def by_steps():
        h, out = state, []
        for a, c in zip(inputs, context, strict=True):
            h = unit(a + (c + h.sum(-1, keepdim=True)) @ weights.T, h)
            out.append(h)
        return torch.stack(out)

    leaves, factor = [inputs, state, context, weights, unit.weight], torch.randn(3, 2, 4)
    found, expected = by_loop(), by_steps()
    torch.testing.assert_close(found, expected)
    expected = torch.autograd.grad((expected * factor).sum(), leaves)
    # A kept graph may go back again, in part first: no pass may count what another has left.
    torch.autograd.grad((found * factor).sum(), [inputs], retain_graph=True)
    for _ in range(2):
        again = torch.autograd.grad((found * factor).sum(), leaves, retain_graph=True)
        torch.testing.assert_close(again, expected)
    first = torch.autograd.grad(found[0].sum(), weights)[0]
    torch.testing.assert_close(first, torch.autograd.grad(by_steps()[0].sum(), weights)[0])


def test_a_loop_with_frozen_weights_still_goes_back_to_the_state():
    unit = Gated(4).requires_grad_(False)
    state = torch.randn(2, 4, requires_grad=True)
    loop = unit.loop(torch.randn(12, 5), torch.float32)
    loop(torch.randn(2, 12), torch.randn(2, 5), state).sum().backward()
    assert state.grad.any()


def test_a_second_derivative_is_refused_aloud():
    x = torch.randn(2, 5, 4, requires_grad=True)
    states = GRU(4, 6)(x, torch.tensor([5, 3]))[0]
    (first,) = torch.autograd.grad(states.pow(2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="outside autograd"):
        torch.autograd.grad(first.sum() + x.sum(), x)


@pytest.mark.parametrize(("reset", "update"), FORMS)
def test_sequences_without_padding_are_the_same(reset, update):
    """Values and all gradients; items that are not real may stand anywhere."""
    torch.manual_seed(5)
    layer = BiGRU(3, 4, reset=reset, update=update).double()
    real = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0]]) > 0
    embed = Embed(9, 3).double()
    ids = torch.randint(1, 9, real.shape)
    layout, weight = PackedLayout(real), torch.randn(*real.shape, 8, dtype=torch.float64)
    packed = layout.put(layer.packed(layout.take(embed(ids)), layout))
    words = layout.put(layer.packed_words(embed, layout.take(ids), layout))
    gradients = []
    for found in (packed, words):
        gradients.append(
            torch.autograd.grad((found * weight).sum(), [*layer.parameters(), embed.weight])
        )
    expected, total = torch.zeros_like(packed), 0.0
    for row, there in enumerate(real):
        if there.any():
            alone = layer(embed(ids[row : row + 1, there]))[0][0]
            expected[row, there] = alone.detach()
            total = total + (alone * weight[row, there]).sum()
    gradients.append(torch.autograd.grad(total, [*layer.parameters(), embed.weight]))
    torch.testing.assert_close(packed, expected, atol=1e-14, rtol=0)
    torch.testing.assert_close(words, expected, atol=1e-14, rtol=0)
    for other in gradients[:2]:
        for one, true in zip(other, gradients[2], strict=True):
            torch.testing.assert_close(one, true, atol=1e-12, rtol=0)
