"""Captions of scenes whose regions are known: attention finds them, soft and hard."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard import watch
from regard.models.show_attend_tell import ShowAttendTell
from regard.protocols import BOS, EOS, PAD, Inputs

SIDE, SHAPES, COLORS, NOISE = 6, 4, 5, 0.1
SIZE = SHAPES + COLORS


def scenes(random, count):
    """Regions (n, 36, 9) with four shapes of some colors; captions, and where each shape lies."""
    regions = random.normal(0, NOISE, (count, SIDE * SIDE, SIZE))
    colors = random.integers(0, COLORS, (count, SHAPES))
    places = np.stack([random.permutation(SIDE * SIDE)[:SHAPES] for _ in range(count)])
    for n in range(SHAPES):
        regions[np.arange(count), places[:, n], n] += 1.0
        regions[np.arange(count), places[:, n], SHAPES + colors[:, n]] += 1.0
    out = np.concatenate([colors + 4, np.full((count, 1), EOS)], 1)
    into = np.concatenate([np.full((count, 1), BOS), colors + 4], 1)
    return (
        Inputs(torch.from_numpy(regions).float()),
        torch.from_numpy(into), torch.from_numpy(out), torch.from_numpy(places),
    )  # fmt: skip


def trained(attention, updates, **changes):
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    model = ShowAttendTell(
        1, COLORS + 4, widths=[SIZE], convolutions=[1], embed=16, hidden=48, align=32,
        attention=attention, dropout=0.0, scale=None, **changes,
    )  # fmt: skip
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 3e-3)
    for _ in range(updates):
        given, into, out, _ = scenes(random, 64)
        output = model(given, into)
        loss = F.cross_entropy(output.logits.flatten(0, 1), out.flatten(), ignore_index=PAD)
        loss = loss + output.extra.get("penalty", 0.0)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@torch.no_grad()
def judged(model):
    """(The share of right colors, how often the most weight is on the shape that is named.)"""
    given, into, out, places = scenes(np.random.default_rng(9), 200)
    said = model(given, into).logits[:, :SHAPES].argmax(-1)
    right = float((said == out[:, :SHAPES]).float().mean())
    with watch(model) as seen:
        model(given, into)
    looked = torch.stack([step[:, 0].argmax(-1) for step in seen["attention"].steps], 1)
    return right, float((looked[:, :SHAPES] == places).float().mean())


@pytest.mark.slow
def test_soft_attention_finds_the_regions():
    soft, none = judged(trained("soft", 150, doubly=0.0)), judged(trained("none", 150))
    assert soft[0] > 0.9
    assert soft[1] > 0.9
    assert none[0] < 0.6


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "settings"), [("soft", {"doubly": 1.0}), ("hard", {})])
def test_attention_names_what_it_looks_at(kind, settings):
    right, looked = judged(trained(kind, 1000, **settings))
    assert right > 0.97
    assert looked > 0.97
