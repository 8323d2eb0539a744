"""LSTM stacks against loops in NumPy."""

import numpy as np
import pytest
import torch

from regard.layers.bilstm import BiLSTM
from regard.layers.layout import PackedLayout
from regard.layers.lstm import LSTM, lstm_cell


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def slow_stack(layer, x, h, c):
    """All states of the top layer for one row (T, E); h and c (L, H)."""
    stack = {k: v.detach().numpy() for k, v in layer.stack.named_parameters()}
    out = []
    for value in x:
        for k in range(layer.layers):
            gates = stack[f"weight_ih_l{k}"] @ value + stack[f"weight_hh_l{k}"] @ h[k]
            if f"bias_ih_l{k}" in stack:
                gates = gates + stack[f"bias_ih_l{k}"] + stack[f"bias_hh_l{k}"]
            i, f, g, o = np.split(gates, 4)
            c[k] = sigmoid(f) * c[k] + sigmoid(i) * np.tanh(g)
            h[k] = sigmoid(o) * np.tanh(c[k])
            value = h[k].copy()
        out.append(value)
    return np.stack(out), h, c


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("lengths", [[6, 6, 6], [6, 1, 4]])
def test_a_stack_is_the_equations_and_padding_is_never_read(bias, lengths):
    torch.manual_seed(1)
    layer = LSTM(3, 4, 2, bias=bias).double()
    x = torch.randn(3, 6, 3, dtype=torch.float64)
    start = tuple(torch.randn(2, 3, 2, 4, dtype=torch.float64))
    states, (h, c) = layer(x, torch.tensor(lengths), start)
    for row, length in enumerate(lengths):
        begin = [part[row].numpy().copy() for part in start]
        top, last_h, last_c = slow_stack(layer, x[row, :length].numpy(), *begin)
        np.testing.assert_allclose(states[row, :length].detach().numpy(), top, atol=1e-12)
        np.testing.assert_allclose(h[row].detach().numpy(), last_h, atol=1e-12)
        np.testing.assert_allclose(c[row].detach().numpy(), last_c, atol=1e-12)
        assert states[row, length:].eq(0).all()


@pytest.mark.parametrize("bias", [False, True])
def test_steps_are_the_sequence(bias):
    torch.manual_seed(2)
    layer = LSTM(5, 4, 3, bias=bias).double()
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    states, (last_h, last_c) = layer(x)
    h, c = ([torch.zeros(2, 4, dtype=torch.float64) for _ in range(3)] for _ in range(2))
    for t in range(6):
        parts = layer.project(x[:, t, :2], slice(2)) + layer.project(x[:, t, 2:], slice(2, None))
        h, c = layer.step(parts, h, c)
        torch.testing.assert_close(h[-1], states[:, t])
    torch.testing.assert_close(torch.stack(h, 1), last_h)
    torch.testing.assert_close(torch.stack(c, 1), last_c)


def test_the_cell_has_the_true_gradient():
    gates = torch.randn(3, 16, dtype=torch.float64, requires_grad=True)
    c = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lstm_cell, (gates, c))


def test_no_bias_leaves_4n_times_inputs_and_n():
    layer = LSTM(5, 7, 2)
    count = sum(p.numel() for p in layer.parameters())
    assert count == 4 * 7 * (5 + 7) + 4 * 7 * (7 + 7)


@pytest.mark.parametrize("layers", [1, 2])
def test_sequences_without_padding_have_the_states_of_those_with_it(layers):
    torch.manual_seed(1)
    lengths = torch.tensor([2, 5, 1, 5])
    layout = PackedLayout(torch.arange(5) < lengths[:, None])
    x = torch.randn(4, 5, 3, dtype=torch.float64)
    stack = LSTM(3, 4, layers, bias=True).double()
    states = stack(x, lengths)[0]
    assert torch.allclose(layout.put(stack.packed(layout.take(x), layout)), states, atol=1e-12)
    both = BiLSTM(3, 4, bias=True).double()
    found = layout.put(both.packed(layout.take(x), layout))
    assert torch.allclose(found, both(x, lengths), atol=1e-12)


@pytest.mark.parametrize("lengths", [None, [5, 2]])
@pytest.mark.parametrize("train", [True, False])
def test_autocast_on_a_processor_without_bfloat16_is_float32(lengths, train, monkeypatch):
    """PyTorch's LSTM under autocast fails there."""
    monkeypatch.setattr("regard.layers.lstm.has_bf16", lambda: False)
    torch.manual_seed(1)
    layer, x = LSTM(3, 4, layers=2).train(train), torch.randn(2, 5, 3)
    lengths = None if lengths is None else torch.tensor(lengths)
    start = torch.randn(2, 2, 4), torch.randn(2, 2, 4)
    expected, _ = layer(x, lengths, start)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = tuple(s.bfloat16() for s in start)
        found, (h_found, _) = layer(x.bfloat16(), lengths, rough)
        exact, _ = layer(x, lengths, start)
    assert found.dtype == h_found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=0.05, rtol=0.05)
    assert torch.equal(exact, expected)
    exact.sum().backward()
    assert layer.stack.weight_ih_l1.grad.isfinite().all()
