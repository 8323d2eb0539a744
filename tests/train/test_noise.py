"""Noise of gradients, and the schedule that falls exponentially."""

import math

import pytest
import torch
from torch import nn

from regard.optim.schedules import Point, build
from regard.train.gradients import add_noise


def noisy(scale=0.1, step=3, seed=1, size=20_000):
    layer = nn.Linear(size, 1)
    layer.weight.grad = torch.ones_like(layer.weight)
    add_noise(layer.parameters(), scale, step, seed)
    assert layer.bias.grad is None
    return layer.weight.grad - 1


def test_noise_has_its_size_and_is_cut_at_two_deviations():
    found, deviation = noisy(), 0.1 / math.sqrt(4)
    assert found.abs().max() <= 2 * deviation * (1 + 1e-5)
    # the deviation of a normal distribution that is cut at 2 is 0.8796 of it
    assert float(found.std()) == pytest.approx(0.8796 * deviation, rel=0.03)
    assert abs(float(found.mean())) < 0.03 * deviation


def test_noise_follows_from_seed_and_step_alone():
    first = noisy()
    layer = nn.Linear(50, 1)
    layer.weight.grad = torch.ones_like(layer.weight)
    state = torch.get_rng_state()
    add_noise(layer.parameters(), 0.1, 3, 1)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(noisy(), first)
    assert not torch.equal(noisy(step=4) * math.sqrt(5 / 4), first)
    assert not torch.equal(noisy(seed=2), first)
    assert not noisy(scale=0.0).any()


def test_exponential_falls_by_its_factor():
    schedule = build({"name": "exponential", "factor": 0.75, "every": 100})
    rates = [schedule(Point(step, 0.0, 0.0)) for step in (1, 101, 201)]
    assert rates == pytest.approx([1.0, 0.75, 0.5625])
