"""What a tape is for: values are recalled by their keys (the fact sheet's small check)."""

import pytest
import torch
from torch.nn import functional as F

from regard import watch
from regard.models.lstmn_lm import LSTMNLanguage

FIRST, VALUES = 4, 4  # below are padding and the like; then pairs, then keys


def lists(rows, pairs, keys, generator):
    """Pairs of a key and a value, a word each; then one of the keys: its value is asked for."""
    some = torch.rand(rows, keys, generator=generator).argsort(1)[:, :pairs]
    values = torch.randint(VALUES, (rows, pairs), generator=generator)
    at = torch.randint(pairs, (rows, 1), generator=generator)
    asked = FIRST + VALUES * keys + some.gather(1, at)
    text = torch.cat([FIRST + VALUES * some + values, asked], 1)
    return text, values.gather(1, at)[:, 0], at[:, 0]


def recalled(updates, pairs, keys, hidden, rate=3e-3):
    """How often the value is right, and how much weight its pair has when it is asked for."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    net = LSTMNLanguage(FIRST + (VALUES + 1) * keys, embed=hidden, hidden=hidden)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for _ in range(updates):
        text, values, _ = lists(64, pairs, keys, generator)
        loss = F.cross_entropy(net(text, 1).logits[:, 0], FIRST + values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    text, values, at = lists(500, pairs, keys, generator)
    with torch.no_grad(), watch(net) as seen:
        right = net(text, 1).logits[:, 0].argmax(1) == FIRST + values
    weights = seen["layers.0.tape"].steps[-1][:, 0]  # (B, 1 + pairs), the first is before all
    own = weights.gather(1, 1 + at[:, None])
    return right.double().mean().item(), own.mean().item()


@pytest.mark.slow
def test_a_tape_recalls_the_value_of_a_key_in_seconds():
    """250 updates: right 1.00, and 0.77 of the weight; 0.33 if it looked at all slots alike."""
    right, own = recalled(250, 2, 3, 16, 2e-2)
    assert right > 0.9
    assert own > 0.5


@pytest.mark.slow
def test_a_tape_recalls_the_value_of_a_key():
    """600 updates: right 0.98, and 0.49 of the weight; 0.25 if it looked at all slots alike."""
    right, own = recalled(600, 3, 4, 32, 1e-2)
    print(right, own)
    assert right > 0.9
    assert own > 0.4
