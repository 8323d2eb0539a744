"""What a tape is for: values are recalled by their keys (the fact sheet's small check)."""

import pytest
import torch
from torch.nn import functional as F

from regard.attention import watch
from regard.models.lstmn_lm import LSTMNLanguage

FIRST = 4  # below are padding and the like; then keys, then values


def lists(rows, pairs, keys, generator):
    """Keys and their values, then one of the keys again: the value of it is asked for."""
    some = torch.rand(rows, keys, generator=generator).argsort(1)[:, :pairs]
    values = torch.randint(keys, (rows, pairs), generator=generator)
    text = torch.stack([FIRST + some, FIRST + keys + values], 2).flatten(1)
    at = torch.randint(pairs, (rows, 1), generator=generator)
    return torch.cat([text, FIRST + some.gather(1, at)], 1), values.gather(1, at)[:, 0], at[:, 0]


def recalled(updates, pairs, keys, hidden, rate=3e-3):
    """How often the value is right, and how much weight its pair has when it is asked for."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    net = LSTMNLanguage(FIRST + 2 * keys, embed=hidden, hidden=hidden)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for _ in range(updates):
        text, values, _ = lists(64, pairs, keys, generator)
        loss = F.cross_entropy(net(text, 1).logits[:, 0], FIRST + keys + values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    text, values, at = lists(500, pairs, keys, generator)
    with torch.no_grad(), watch(net) as seen:
        right = net(text, 1).logits[:, 0].argmax(1) == FIRST + keys + values
    weights = seen["layers.0.tape"].steps[-1][:, 0]  # (B, 1 + 2 pairs), the first is before all
    own = weights.gather(1, 1 + 2 * at[:, None] + torch.arange(2)).sum(1)
    return right.double().mean().item(), own.mean().item()


@pytest.mark.slow
def test_a_tape_recalls_the_value_of_a_key():
    right, own = recalled(1500, 4, 8, 48)
    print(right, own)
    assert right > 0.5
