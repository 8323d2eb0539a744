"""The checks of MA-CNN: maps part from each other, and find the parts of composed pictures.

The fast one groups eight given channels, each a blob at one of three places that move with the
class. The slow one learns from labels alone on pictures of 112 x 112 with three parts at places
that move: stripes, checks and rings, whose width is the class.
"""

from itertools import permutations

import pytest
import torch

from regard.data.dataset import Batch
from regard.models.ma_cnn import (
    MACNN,
    ChannelGrouping,
    channel_grouping_loss,
    distance_loss,
    part_maps,
)
from regard.protocols import Inputs
from regard.tasks.labels.images import Images

SIDE, PART = 112, 24


def blobs(count, seed, side=12, channels=8):
    """Channels (count, 8, 12, 12): blobs of three places, which move with one of three classes."""
    generator = torch.Generator().manual_seed(seed)
    homes = torch.tensor([[2, 2], [9, 3], [5, 9]])
    move = torch.randint(3, (count, 1), generator=generator) - 1
    y, x = torch.arange(side)[:, None], torch.arange(side)
    made = []
    for channel in range(channels):
        place = homes[channel % 3] + torch.randint(-1, 2, (count, 2), generator=generator)
        place[:, 1:] += move
        far = (y - place[:, :1, None]) ** 2 + (x - place[:, 1:, None]) ** 2
        made.append((2 + torch.rand(count, 1, 1, generator=generator)) * torch.exp(-far / 2))
    return torch.stack(made, 1)


def overlap(maps):
    """Σ min(m_i, m_k) of each pair of parts, (N, N), the mean of the pictures; 0 with itself."""
    pairs = torch.minimum(maps[:, :, None], maps[:, None]).sum((3, 4)).mean(0)
    return pairs - torch.diag(pairs.diagonal())


def grouped(diversity, seed, updates=150):
    """(maps before, maps after) of a grouping that started at random."""
    torch.manual_seed(seed)
    features, net = blobs(64, seed), ChannelGrouping(8, 3, 16)
    optimizer = torch.optim.Adam(net.parameters(), 0.03)
    before = part_maps(features, *net(features)).detach()
    for _ in range(updates):
        loss = channel_grouping_loss(part_maps(features, *net(features)), diversity)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return before, part_maps(features, *net(features)).detach()


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_maps_become_compact_and_part_from_each_other(seed):
    before, after = grouped(2.0, seed)
    assert overlap(before).sum() / 6 > 0.8
    assert overlap(after).sum() / 6 < 0.1
    assert distance_loss(after).mean() < distance_loss(before).mean() / 3


def test_without_diversity_two_maps_are_one():
    _, after = grouped(0.0, 0)
    assert overlap(after).max() > 0.9


def textures():
    """(3 parts, 4 variants, PART, PART): stripes, checks and rings, of four widths each."""
    y, x = torch.arange(PART)[:, None], torch.arange(PART)[None]
    far = ((y - PART / 2) ** 2 + (x - PART / 2) ** 2).sqrt()
    widths = (2, 3, 4, 6)
    made = [
        [((y + 0 * x) // w) % 2 for w in widths],
        [(y // w + x // w) % 2 for w in widths],
        [(far // w) % 2 for w in widths],
    ]
    return torch.stack([torch.stack([one.float() for one in every]) for every in made])


def composed(count, generator):
    """Pictures (count, 1, 112, 112), labels, and the parts' upper left corners.

    Each part has the variant of the label, so that any of them tells it.
    """
    pictures = 0.1 * torch.randn(count, 1, SIDE, SIDE, generator=generator)
    labels = torch.randint(4, (count,), generator=generator)
    homes = torch.tensor([[16, 44], [64, 16], [64, 72]])
    corners = homes + torch.randint(-12, 13, (count, 3, 2), generator=generator)
    known = textures()
    for i, label in enumerate(labels.tolist()):
        for part, (y, x) in enumerate(corners[i].tolist()):
            pictures[i, 0, y : y + PART, x : x + PART] += known[part, label]
    return pictures, labels, corners


def inside(maps, corners):
    """The share of each map that lies in each part, (N, 3): of a map's cell its middle counts."""
    side = SIDE // maps.shape[-1]
    middle = torch.arange(maps.shape[-1]) * side + side / 2
    found = []
    for part in range(3):
        y, x = corners[:, part, :1], corners[:, part, 1:]
        rows, columns = (y <= middle) & (middle < y + PART), (x <= middle) & (middle < x + PART)
        there = rows[:, None, :, None] & columns[:, None, None]
        found.append((maps * there).sum((2, 3)).mean(0))
    return torch.stack(found, 1)


def learned(updates, seed=1, batch=16, lr=2e-3, **settings):
    """(share of right answers, `inside`, the same of the start, overlap) on 200 new pictures."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = MACNN(
        1, 4, parts=3, widths=[8, 16, 24, 24], convolutions=[1, 1, 1, 1], hidden=32, **settings
    )
    optimizer, task = torch.optim.Adam(model.parameters(), lr), Images()
    new, right, corners = composed(200, torch.Generator().manual_seed(99))

    def judged():
        with torch.inference_mode():
            output = model.eval()(new)
        return (output.logits.argmax(-1) == right).float().mean(), output.extra["maps"]

    first = inside(judged()[1], corners)
    model.train()
    for _ in range(updates):
        pictures, labels, _ = composed(batch, generator)
        of = Batch({"image": Inputs(pictures), "label": labels}, list(range(batch)), batch)
        loss = task.loss(model, of, 0)[0] / batch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracy, maps = judged()
    return accuracy, inside(maps, corners), first, overlap(maps)


def best(shares):
    """The mean share of a map in its part, where each part has one map."""
    return max(
        sum(shares[i, p].item() for i, p in enumerate(o)) / 3 for o in permutations(range(3))
    )


def test_pictures_say_where_their_parts_are():
    _, labels, corners = composed(3, torch.Generator().manual_seed(1))
    again, same, _ = composed(3, torch.Generator().manual_seed(1))
    assert torch.equal(labels, same)
    for i in range(3):
        for y, x in corners[i].tolist():
            assert again[i, 0, y : y + PART, x : x + PART].mean() > 0.3
    whole = torch.full((3, 1, 14, 14), 1 / 196)
    assert inside(whole, corners).numpy() == pytest.approx(9 / 196, rel=1e-5)  # 3 x 3 cells each


@pytest.mark.slow
def test_parts_of_composed_pictures_are_found():
    """Three maps, each mostly in parts; one picture in twenty would be in a part by chance."""
    accuracy, shares, first, together = learned(400, gradient="joint", diversity=10.0)
    assert accuracy > 0.95
    assert best(first) < 0.1
    assert best(shares) > 0.3
    assert together.max() < 0.2
