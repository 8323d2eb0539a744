"""Noisy top-k gating and the mixture against the paper's equations, token by token."""

import math

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.layers.experts import Experts, NoisyTopK, squared_variation


def softplus(x):
    return np.log1p(np.exp(x))


def gate_of(experts=5, k=2, dim=4):
    torch.manual_seed(1)
    gate = NoisyTopK(dim, experts, k).double()
    with torch.no_grad():
        gate.gate.normal_()
        gate.noise.normal_()
    return gate


@pytest.mark.parametrize("training", [True, False])
def test_gates_importance_and_load_are_the_papers(training):
    gate = gate_of().train(training)
    x = torch.randn(7, 4, dtype=torch.float64)
    real = torch.tensor([True] * 5 + [False] * 2)
    torch.manual_seed(3)
    found = gate(x, real)
    torch.manual_seed(3)
    noise = torch.randn(7, 5, dtype=torch.float64).numpy() if training else np.zeros((7, 5))
    wg, wn = gate.gate.detach().numpy(), gate.noise.detach().numpy()
    importance, load = np.zeros(5), np.zeros(5)
    for n in range(7):
        clean, spread = x[n].numpy() @ wg, softplus(x[n].numpy() @ wn)
        h = clean + noise[n] * spread
        top = np.argsort(-h)[:2]
        weights = np.exp(h[top]) / np.exp(h[top]).sum()
        assert found.experts[n].tolist() == top.tolist()
        np.testing.assert_allclose(found.weights[n].detach(), weights, atol=1e-12)
        if not real[n]:
            continue
        importance[top] += weights
        for i in range(5):
            bar = np.sort(np.delete(h, i))[::-1][1]  # the 2nd best of the others
            load[i] += 0.5 * (1 + math.erf((clean[i] - bar) / spread[i] / math.sqrt(2)))
    np.testing.assert_allclose(found.importance.detach(), importance, atol=1e-9)
    np.testing.assert_allclose(found.load.detach(), load, atol=1e-9)


def test_it_starts_with_all_experts_alike():
    gate = NoisyTopK(6, 8, 2).train()
    assert not gate.gate.any()
    assert not gate.noise.any()
    torch.manual_seed(1)
    found = gate(torch.randn(4000, 6))
    counts = found.experts.flatten().bincount(minlength=8)
    assert (counts - 1000).abs().max() < 150  # sd 27
    assert squared_variation(found.importance) < 0.01
    assert squared_variation(found.load) < 0.01


def test_every_expert_has_a_gradient_through_load_only_where_noise_could_choose_it():
    gate = gate_of().train()
    found = gate(torch.randn(9, 4, dtype=torch.float64))
    squared_variation(found.load).backward()
    assert gate.gate.grad.any(0).all()
    assert gate.noise.grad.any(0).all()


@pytest.mark.parametrize("squash", [True, False])
def test_the_mixture_is_the_weighted_sum_of_the_chosen_experts(squash):
    torch.manual_seed(2)
    layer = Experts(4, 6, 5, 2, squash=squash).double().eval()
    with torch.no_grad():
        layer.gates.gate.normal_()
    x = torch.randn(3, 4, 4, dtype=torch.float64)
    y, penalty = layer(x)
    gates = layer.gates(x.view(-1, 4))
    for n, row in enumerate(x.view(-1, 4).numpy()):
        total = np.zeros(4)
        for expert, weight in zip(gates.experts[n], gates.weights[n], strict=True):
            a, b = (m[expert].detach().numpy() for m in (layer.into, layer.out))
            total += float(weight) * (np.maximum(row @ a, 0) @ b)
        total = 1 / (1 + np.exp(-total)) if squash else total
        np.testing.assert_allclose(y.view(-1, 4)[n].detach(), total, atol=1e-12)
    expected = sum(v.var(correction=0) / v.mean() ** 2 for v in (gates.importance, gates.load))
    torch.testing.assert_close(penalty, expected)


def test_the_penalty_spreads_what_an_unfair_gate_sends_to_few():
    torch.manual_seed(4)
    layer = Experts(6, 4, 8, 2).train()
    with torch.no_grad():
        layer.gates.gate[:, :2] += 0.7  # the first two are favored
    x = torch.rand(256, 6)
    optimizer = torch.optim.Adam(layer.gates.parameters(), 0.02)
    before = layer.gates(x).experts.flatten().bincount(minlength=8).float()
    for _ in range(100):
        _, penalty = layer(x)
        optimizer.zero_grad()
        penalty.backward()
        optimizer.step()
    after = layer.gates(x).experts.flatten().bincount(minlength=8).float()
    assert squared_variation(before) > 0.5
    assert squared_variation(after) < 0.1


def test_padding_is_worked_on_but_not_counted_and_all_experts_may_be_chosen():
    gate = gate_of(k=5).eval()
    x = torch.randn(3, 4, dtype=torch.float64)
    found = gate(x, torch.tensor([True, True, False]))
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(3).double())
    assert float(found.importance.detach().sum()) == pytest.approx(2.0)
    assert found.load.tolist() == [2.0] * 5


def test_more_chosen_than_there_are_is_refused():
    with pytest.raises(RequestError, match="from 1 to experts, which is 4, got 5"):
        NoisyTopK(3, 4, 5)
