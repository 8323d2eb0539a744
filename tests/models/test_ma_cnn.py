"""The multi-attention network against its equations in NumPy, and its loss against plain loops."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.data.dataset import Batch
from regard.errors import RequestError
from regard.models.ma_cnn import MACNN, channel_grouping_loss, distance_loss, diversity_loss
from regard.protocols import Inputs
from regard.tasks.labels.images import Images
from tests.models.slow import count, numbers, shaken, sigmoid, softmax

SIZES = {"parts": 3, "widths": [3, 4], "convolutions": [1, 1], "hidden": 5}


def model(**settings):
    torch.manual_seed(1)
    return shaken(MACNN(2, 4, **{**SIZES, **settings}))


def pictures(rows=2):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(rows, 2, 8, 6, generator=generator, dtype=torch.float64)


def read(p, features):
    """(maps (N, H, W), each answer, the answer) of one picture's features (C, H, W)."""
    peaks = features.reshape(len(features), -1).max(1)
    maps, seen = [], []
    for i in range(3):
        path = f"grouping.layers.{i}"
        hidden = np.tanh(p[f"{path}.0.weight"] @ peaks + p[f"{path}.0.bias"])
        *d, b = p[f"{path}.2.weight"] @ hidden + p[f"{path}.2.bias"]
        one = sigmoid(sum(w * f for w, f in zip(d, features, strict=True)) + b)
        maps.append(one / one.sum())
        seen.append(np.array([(maps[-1] * f).sum() for f in features]))
    seen.append(features.mean((1, 2)))
    each = [p[f"answers.{i}.weight"] @ s + p[f"answers.{i}.bias"] for i, s in enumerate(seen)]
    return np.stack(maps), each, p["answer.weight"] @ np.concatenate(seen) + p["answer.bias"]


def grouping(maps, diversity, margin):
    """One place after the other."""
    total, (parts, high, wide) = 0.0, maps.shape
    for i, own in enumerate(maps):
        t_y, t_x = divmod(int(own.argmax()), wide)
        for y in range(high):
            for x in range(wide):
                away = ((y - t_y) ** 2 + (x - t_x) ** 2) / max(high, wide) ** 2
                other = max(maps[k, y, x] for k in range(parts) if k != i)
                total += own[y, x] * (away + diversity * (other - margin))
    return total


def test_it_computes_the_papers_equations():
    net, picture = model().train(), pictures()
    p, output, features = numbers(net), net(picture), net.features(picture)
    penalties = []
    for row in range(2):
        maps, each, answer = read(p, features[row].detach().numpy())
        extra = {name: value.detach().numpy() for name, value in output.extra.items()}
        np.testing.assert_allclose(extra["maps"][row], maps, atol=1e-12)
        np.testing.assert_allclose(extra["auxiliary"][row], np.stack(each), atol=1e-12)
        np.testing.assert_allclose(output.logits[row].detach().numpy(), answer, atol=1e-12)
        penalties.append(grouping(maps, 2.0, 0.02))
    assert float(output.extra["penalty"].detach()) == pytest.approx(np.mean(penalties), abs=1e-12)


def test_equal_maps_are_in_each_others_way():
    maps = torch.softmax(torch.randn(2, 1, 12, dtype=torch.float64), -1).view(2, 1, 3, 4)
    same = maps.expand(-1, 3, -1, -1)
    found = diversity_loss(same, 0.5)
    torch.testing.assert_close(found, ((maps**2).sum((2, 3)) - 0.5).expand(2, 3))


def test_peak_and_maximum_are_constants_in_the_gradient():
    torch.manual_seed(3)
    maps = torch.rand(1, 3, 2, 3, dtype=torch.float64).requires_grad_()
    channel_grouping_loss(maps, 1.5, 0.1).backward()
    own = maps.detach()[0].numpy()
    for i, one in enumerate(own):
        t_y, t_x = divmod(int(one.argmax()), 3)
        for y in range(2):
            for x in range(3):
                other = max(own[k, y, x] for k in range(3) if k != i)
                away = ((y - t_y) ** 2 + (x - t_x) ** 2) / 9
                assert float(maps.grad[0, i, y, x]) == pytest.approx(away + 1.5 * (other - 0.1))


def test_one_part_has_nobody_in_its_way():
    maps = torch.softmax(torch.randn(2, 1, 6), -1).view(2, 1, 2, 3)
    torch.testing.assert_close(channel_grouping_loss(maps, 9.0), distance_loss(maps).mean())


@pytest.mark.parametrize("gradient", ["apart", "joint"])
def test_which_loss_trains_what(gradient):
    net = model(gradient=gradient).train()
    output = net(pictures())
    apart = {
        "penalty": (output.extra["penalty"], "grouping"),
        "answer": (output.logits.square().sum(), "features"),
    }
    for loss, own in apart.values():
        net.zero_grad()
        loss.backward(retain_graph=True)
        for path, parameter in net.named_parameters():
            if path.startswith(("grouping", "features")):
                reached = parameter.grad is not None and bool(parameter.grad.any())
                assert reached == (gradient == "joint" or path.startswith(own)), path


def test_the_task_adds_the_loss_of_each_answer_and_the_grouping_loss():
    net, picture = model().train(), pictures(3)
    labels = torch.tensor([2, 0, 3])
    loss, number = Images().loss(net, Batch({"image": Inputs(picture), "label": labels}, [], 3), 5)
    output = net(picture)
    every = [output.logits, *output.extra["auxiliary"].unbind(1)]
    expected = 3 * float(output.extra["penalty"].detach())
    for logits in every:
        for row, label in enumerate(labels):
            expected -= np.log(softmax(logits[row].detach().numpy())[label])
    assert len(every) == 5
    assert number == 3
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-6)


def enlarged(one, high, wide):
    """Each pixel is a mean of the four places about it, by their nearness."""
    made = np.zeros((high, wide))
    for y in range(high):
        for x in range(wide):
            at = [(y + 0.5) * len(one) / high - 0.5, (x + 0.5) * one.shape[1] / wide - 0.5]
            at = [max(a, 0.0) for a in at]
            for i in range(len(one)):
                for j in range(one.shape[1]):
                    near = max(0, 1 - abs(at[0] - i)) * max(0, 1 - abs(at[1] - j))
                    made[y, x] += near * one[i, j]
            made[y, x] /= sum(
                max(0, 1 - abs(at[0] - i)) * max(0, 1 - abs(at[1] - j))
                for i in range(len(one)) for j in range(one.shape[1])
            )  # fmt: skip
    return made


def test_watched_maps_are_as_large_as_the_picture_and_one_record_for_each_part():
    net = model()
    with watch(net) as seen:
        maps = net(pictures()).extra["maps"]
    record = seen["maps"]
    assert [scope["part"] for scope in record.scopes] == [0, 1, 2]
    for i, weights in enumerate(record.steps):
        for row in range(2):
            expected = enlarged(maps[row, i].detach().numpy(), 8, 6)
            expected /= expected.sum()
            np.testing.assert_allclose(weights[row, 0].view(8, 6).numpy(), expected, atol=1e-6)


def test_a_picture_without_features_has_even_maps():
    net = model().float()
    with torch.no_grad():
        for p in net.features.parameters():
            p.zero_()
    maps = net(torch.zeros(1, 2, 8, 6)).extra["maps"]
    torch.testing.assert_close(maps, torch.full((1, 3, 4, 3), 1 / 12))


def test_the_papers_convolutions():
    """VGG-19's 16 convolutions have 20,024,384 numbers."""
    convolutions = 20_024_384
    grouped = 4 * (513 * 512 + 513 * 513)
    answers = 5 * 513 * 200 + (5 * 512 + 1) * 200
    assert count(MACNN, 3, 200) == convolutions + grouped + answers


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"gradient": "apat"}, "gradient has no 'apat'"),
        ({"parts": 0}, "a part or more"),
        ({"margin": -0.1}, "no negative"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(RequestError, match=said):
        model(**settings)
