"""RAM against its equations in NumPy, pixel by pixel, and what its gradients are."""

import math

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.losses.reinforce import reinforce, reinforced
from regard.models.ram import RAM, gaussian_log_prob, patches
from tests.models.slow import count, numbers, shaken

SIZES = {"side": 3, "scales": 2, "glimpses": 4, "hidden": 5, "glimpse": 6, "core": 7}


def model(**changes):
    torch.manual_seed(1)
    return shaken(RAM(2, 4, **{**SIZES, **changes}))


def drawn(batch=3, high=9, wide=7):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(batch, 2, high, wide, generator=generator, dtype=torch.float64)


def sensed(picture, location, side, scales):
    """ρ, one number at a time; picture (C, H, W)."""
    found = []
    for scale in range(scales):
        wide, step = side * 2**scale, 2**scale
        left = math.floor(picture.shape[2] * (location[0] + 1) / 2 - wide / 2 + 0.5)
        top = math.floor(picture.shape[1] * (location[1] + 1) / 2 - wide / 2 + 0.5)
        for plane in picture:
            for i in range(side):
                for j in range(side):
                    total = 0.0
                    for y in range(top + i * step, top + (i + 1) * step):
                        for x in range(left + j * step, left + (j + 1) * step):
                            if 0 <= y < plane.shape[0] and 0 <= x < plane.shape[1]:
                                total += plane[y, x]
                    found.append(total / step**2)
    return np.array(found)


def relu(x):
    return np.maximum(x, 0)


def looked(p, picture, locations, side, scales):
    """The logits, and before each glimpse the mean of the policy and the baseline."""

    def linear(name, x):
        return p[f"{name}.weight"] @ x + p[f"{name}.bias"]

    state, means, baselines = np.zeros(len(p["past.bias"])), [], []
    for location in locations:
        means.append(linear("locate", state))
        baselines.append(linear("baseline", state)[0])
        h_g = relu(linear("network.seen", sensed(picture, location, side, scales)))
        h_l = relu(linear("network.where", location))
        g = relu(linear("network.of_seen", h_g) + linear("network.of_where", h_l))
        state = relu(linear("past", state) + linear("present", g))
    return linear("answer", state), np.array(means), np.array(baselines)


@pytest.mark.parametrize(("side", "scales"), [(3, 1), (2, 2), (4, 3)])
def test_patches_are_those_of_the_pixels(side, scales):
    picture = drawn()
    location = torch.tensor([[0.0, 0.0], [-1.0, 1.0], [0.37, -0.81]], dtype=torch.float64)
    found = patches(picture, location, side, scales)
    assert found.shape == (3, scales, 2, side, side)
    for row in range(3):
        expected = sensed(picture[row].numpy(), location[row].numpy(), side, scales)
        np.testing.assert_allclose(found[row].flatten().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("high", "wide", "side"), [(28, 28, 8), (9, 11, 3), (60, 40, 12)])
def test_a_glimpse_at_the_middle_is_the_crop_of_the_middle(high, wide, side):
    picture = torch.arange(float(high * wide)).view(1, 1, high, wide)
    y, x = (high - side) // 2, (wide - side) // 2
    crop = picture[..., y : y + side, x : x + side]
    assert torch.equal(patches(picture, torch.zeros(1, 2), side)[:, 0], crop)


@pytest.mark.parametrize("first", ["random", "center", "policy"])
@pytest.mark.parametrize("training", [True, False])
def test_it_computes_the_papers_equations(first, training):
    net, picture = model(first=first), drawn()
    torch.manual_seed(5)
    output = net.train(training)(picture)
    p, extra = numbers(net), output.extra
    choices = SIZES["glimpses"] - (first != "policy")
    assert extra["log_probs"].shape == extra["baselines"].shape == (3, choices)
    for row in range(3):
        places = extra["locations"][row].numpy()
        assert (np.abs(places) <= 1).all()
        logits, means, baselines = looked(p, picture[row].numpy(), places, 3, 2)
        np.testing.assert_allclose(output.logits[row].detach().numpy(), logits, atol=1e-12)
        own = extra["baselines"][row].detach().numpy()
        np.testing.assert_allclose(own, baselines[-choices:], atol=1e-12)
        if not training:  # the mean is looked at, where it is inside of the picture
            np.testing.assert_allclose(places[-choices:], means[-choices:].clip(-1, 1), atol=1e-12)
        if first == "center" or (first == "random" and not training):
            assert (places[0] == 0).all()


def test_the_log_probability_is_that_of_the_sample_before_it_is_cut_off():
    net, picture = model(sigma=3.0, first="center"), drawn(batch=20)
    torch.manual_seed(2)
    extra = net.train()(picture).extra
    torch.manual_seed(2)
    noise = torch.randn(4, 20, 2, dtype=torch.float64)[1:].transpose(0, 1)
    expected = (-(noise**2) / 2 - math.log(3.0) - math.log(2 * math.pi) / 2).sum(-1)
    assert (extra["locations"].abs() == 1).any()
    torch.testing.assert_close(extra["log_probs"].detach(), expected, atol=1e-12, rtol=0)


def test_the_score_function_gives_the_gradient_of_the_expected_reward():
    """E[-(l - 1)^2] of l ~ N(μ, σ²) has the derivative -2 (μ - 1), in each of two directions."""
    torch.manual_seed(4)
    mean = torch.tensor([0.3, -0.5], dtype=torch.float64, requires_grad=True)
    sample = (mean + 0.4 * torch.randn(200_000, 2, dtype=torch.float64)).detach()
    log_probs = gaussian_log_prob(sample, mean.expand_as(sample), 0.4)[:, None]
    reward = -((sample - 1) ** 2).sum(-1)
    baselines = torch.full_like(log_probs, reward.mean())
    policy, squares = reinforce(log_probs, baselines, reward)
    (-policy.mean()).backward()
    torch.testing.assert_close(mean.grad, -2 * (mean.detach() - 1), atol=0.05, rtol=0)
    torch.testing.assert_close(squares.mean(), reward.var(correction=0))


def gradients(net, loss):
    net.zero_grad()
    loss.sum().backward()
    return {n for n, p in net.named_parameters() if p.grad is not None and p.grad.any()}


@pytest.mark.parametrize("gradient", ["core", "policy"])
def test_which_part_learns_from_which_loss(gradient):
    net, picture = model(gradient=gradient).train(), drawn()
    torch.manual_seed(1)
    alone = gradients(net, net(picture).logits.logsumexp(-1))
    assert not any(name.startswith(("locate", "baseline")) for name in alone)
    assert {"network.seen.weight", "past.weight", "present.weight", "answer.weight"} <= alone
    right = torch.tensor([True, False, True])
    found = gradients(net, reinforced(net(picture).extra, right, 1.0))
    policy = {"locate.weight", "locate.bias", "baseline.weight", "baseline.bias"}
    assert policy <= found
    assert (found == policy) == (gradient == "policy")
    assert not any(name.startswith("answer") for name in found)


def test_what_is_not_right_weighs_against_where_it_looked():
    log_probs = torch.zeros(2, 3, requires_grad=True)
    policy, squares = reinforce(log_probs, torch.full((2, 3), 0.25), torch.tensor([1.0, 0.0]))
    policy.sum().backward()
    torch.testing.assert_close(log_probs.grad, torch.tensor([[-0.75] * 3, [0.25] * 3]))
    torch.testing.assert_close(squares, torch.tensor([3 * 0.75**2, 3 * 0.25**2]))
    assert reinforced({}, torch.tensor([True]), 1.0) is None


def test_paths_are_averaged_as_log_probabilities():
    net, picture = model(paths=3), drawn()
    draws, means = net._numbers(picture, False), []
    for noise in draws:
        means.append(net._looked(picture, noise).logits.log_softmax(-1))
    torch.testing.assert_close(net(picture).logits, torch.stack(means).mean(0))
    single = model(paths=1)
    torch.testing.assert_close(single(picture).logits.log_softmax(-1), means[0])
    assert not torch.allclose(means[0], means[1])


def test_random_looks_are_spread_over_the_picture_and_choose_nothing():
    net = model(policy="random").train()
    torch.manual_seed(1)
    extra = net(drawn(batch=500)).extra
    assert set(extra) == {"locations"}
    places = extra["locations"].flatten(0, 1)
    assert places.abs().max() <= 1
    assert places.mean(0).abs().max() < 0.05
    assert (places.var(0) - 1 / 3).abs().max() < 0.03


@pytest.mark.parametrize("training", [True, False])
def test_random_looks_begin_in_the_middle_where_the_first_one_is_fixed_there(training):
    places = model(policy="random", first="center").train(training)(drawn()).extra["locations"]
    assert (places[:, 0] == 0).all()
    assert (places[:, 1:] != 0).all()


def test_the_papers_sizes():
    assert count(RAM, 1, 10) == 209_420 + 257
    assert count(RAM, 1, 10, side=12, scales=3) == 256_524 + 257


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"first": "centre"}, "first has no 'centre'"),
        ({"squash": "relu"}, "squash has no"),
        ({"gradient": "both"}, "gradient has no"),
        ({"policy": "even"}, "policy has no"),
        ({"glimpses": 0}, "glimpses and paths of 1 or more"),
        ({"sigma": 0.0}, "a sigma above 0"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(RequestError, match=said):
        RAM(1, 2, **settings)


def test_what_is_no_picture_is_refused():
    with pytest.raises(RequestError, match="reads pictures"):
        RAM(1, 2)(torch.zeros(2, 3, 8, 8))
