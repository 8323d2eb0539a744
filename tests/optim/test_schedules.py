import math

import pytest
import torch

from regard.errors import RequestError
from regard.optim import schedules
from regard.optim.optimizers import OPTIMIZERS
from regard.optim.optimizers import build as build_optimizer
from regard.optim.schedules import Point


def at(step: int, epoch: float = 0.0, progress: float = 0.0) -> Point:
    return Point(step, epoch, progress)


def test_inverse_sqrt_is_the_papers_formula():
    rate = schedules.build({"name": "inverse-sqrt", "warmup": 4000, "dim": 512})
    for step in (1, 10, 3999, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert math.isclose(rate(at(step)), expected, rel_tol=1e-12)
    # Vaswani et al. 2017, section 5.3: the base model's peak is 7.0e-4.
    assert math.isclose(rate(at(4000)), 6.987e-4, rel_tol=1e-3)


def test_inverse_sqrt_by_its_peak_is_the_same_curve_scaled():
    paper = schedules.build({"name": "inverse-sqrt", "warmup": 400, "dim": 64})
    peak = schedules.build({"name": "inverse-sqrt", "warmup": 400})
    assert peak(at(400)) == 1.0
    for step in (1, 399, 401, 9999):
        ratio = paper(at(step)) / paper(at(400))
        assert math.isclose(peak(at(step)), ratio, rel_tol=1e-12)


def test_linear_and_cosine_end_where_they_should():
    for name in ("linear", "cosine"):
        rate = schedules.build({"name": name, "warmup": 10, "final": 0.1})
        assert math.isclose(rate(at(5)), 0.5)  # half of the warm-up
        assert math.isclose(rate(at(99, progress=0.5)), 0.55)  # half way between 1 and 0.1
        assert math.isclose(rate(at(99, progress=1.0)), 0.1)


def test_constant_and_halving():
    assert schedules.build({"name": "constant"})(at(7)) == 1.0
    # Luong et al. 2015: after 5 epochs the rate is halved every epoch.
    rate = schedules.build({"name": "halving", "start": 5, "every": 1})
    found = [rate(at(1, epoch)) for epoch in (0.0, 4.9, 5.0, 5.9, 6.0, 9.5)]
    assert found == [1.0, 1.0, 0.5, 0.5, 0.25, 0.03125]


def test_plateau_goes_by_the_losses_on_dev():
    losses = [5.0, 4.0, 4.5, 4.2, 4.2, 3.9]  # the third and the fifth are not below the last

    def factors(**settings):
        rate = schedules.build({"name": "plateau", "factor": 0.5, **settings})
        return [rate(Point(1, 0.0, 0.0, losses[:n])) for n in range(7)]

    assert factors() == [1, 1, 1, 0.5, 0.5, 0.25, 0.25]
    assert factors(sticky=True) == [1, 1, 1, 0.5, 0.25, 0.125, 0.0625]  # ConvS2S
    assert factors(threshold=0.9) == [1, 1, 1, 0.5, 0.25, 0.125, 0.0625]  # 4.2 is not < 0.9 * 4.5
    made = schedules.build({"name": "plateau", "sticky": True, "least": 4e-4})
    # Gehring et al. 2017: from 0.25, by ten each epoch, until below 1e-4.
    assert [bool(schedules.ended(made, [2.0, 3.0] + [1.0] * n)) for n in range(4)] == [
        False,
        False,
        False,
        True,
    ]
    assert 0.25 * made(Point(1, 0.0, 0.0, [2.0, 3.0, 1.0, 1.0, 1.0])) < 1e-4
    assert not schedules.ended(schedules.build({"name": "constant"}), [1.0, 2.0])


def test_nesterov_is_its_formula():
    """Two steps of Sutskever et al. (2013) as PyTorch has it: v = μ v + g; w -= lr (g + μ v)."""
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    settings = {"name": "sgd", "lr": 0.25, "momentum": 0.99, "nesterov": True}
    optimizer = build_optimizer(settings, [weight])
    w, v = [1.0, -2.0], [0.0, 0.0]
    for gradient in ([0.3, -1.0], [0.5, 2.0]):
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
        v = [0.99 * a + g for a, g in zip(v, gradient, strict=True)]
        w = [x - 0.25 * (g + 0.99 * a) for x, g, a in zip(w, gradient, v, strict=True)]
        assert weight.tolist() == pytest.approx(w)
    with pytest.raises(RequestError, match="expected a momentum above 0"):
        build_optimizer({"name": "sgd", "nesterov": True}, [weight])


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(RequestError, match="did you mean 'linear'"):
        schedules.build({"name": "liner"})
    with pytest.raises(RequestError, match="did you mean 'adamw'"):
        build_optimizer({"name": "adamww"}, [torch.nn.Parameter(torch.zeros(1))])


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_one_step_of_every_optimizer_is_its_formula(name):
    start = torch.linspace(-1, 1, 5)
    gradient = torch.tensor([0.3, -2.0, 0.01, 1.0, -0.5])
    weight = torch.nn.Parameter(start.clone())
    weight.grad = gradient.clone()
    build_optimizer({"name": name, "lr": 0.1}, [weight]).step()
    w, g = start.double(), gradient.double()
    # The first step, where the bias-corrected moments are g and g².
    adam = g / (g.abs() + 1e-8)
    # Zeiler 2012, algorithm 1, from E[g²] = E[dx²] = 0 with rho 0.95 and eps 1e-6.
    adadelta = math.sqrt(1e-6) / (0.05 * g**2 + 1e-6).sqrt() * g
    expected = {
        "sgd": w - 0.1 * g,
        "adam": w - 0.1 * adam,
        "adamw": w * (1 - 0.1 * 0.01) - 0.1 * adam,
        "adadelta": w - 0.1 * adadelta,
    }
    torch.testing.assert_close(weight.detach().double(), expected[name], rtol=1e-5, atol=1e-7)


def test_adam_takes_the_papers_betas_and_eps():
    weight = torch.nn.Parameter(torch.ones(2))
    settings = {"name": "adam", "lr": 1, "betas": [0.9, 0.98], "eps": 1e-9}
    made = build_optimizer(settings, [weight])
    assert tuple(made.defaults["betas"]) == (0.9, 0.98)
    assert (made.defaults["lr"], made.defaults["eps"]) == (1.0, 1e-9)
