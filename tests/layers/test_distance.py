"""The distance-based encoder against its equations in NumPy, and the fact sheet's checks."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import Lengths
from regard.layers.distance import DistanceBlock, DistanceEncoder
from tests.models import slow


def by_hand(block, x, direction, alpha):
    """One sentence (T, D)."""
    p = slow.numbers(block)
    heads = block.attention.heads

    def norm(name, y):
        y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
        return y * p[f"{name}.weight"] + p[f"{name}.bias"]

    parts = [x @ p[f"attention.{name}.weight"].T for name in ("query", "key", "value")]
    split = [np.split(part, heads, 1) for part in parts]
    found = np.zeros_like(parts[2])
    size = found.shape[1] // heads
    for h, (q, k, v) in enumerate(zip(*split, strict=True)):
        for i in range(len(x)):
            seen = range(i) if direction == "forward" else range(i + 1, len(x))
            if seen:
                e = [q[i] @ k[j] / np.sqrt(size) - alpha * abs(i - j) for j in seen]
                a = slow.softmax(np.array(e))
                found[i, h * size : (h + 1) * size] = a @ v[list(seen)]
    h = norm("attention_norm", found @ p["attention.out.weight"].T)
    s_f, h_f = x @ p["stay.weight"].T, h @ p["change.weight"].T
    gate = slow.sigmoid(s_f + h_f + p["bias"])
    g = gate * s_f + (1 - gate) * h_f
    hidden = np.maximum(0, g @ p["feedforward.into.weight"].T + p["feedforward.into.bias"])
    out = hidden @ p["feedforward.out.weight"].T + p["feedforward.out.bias"]
    return norm("norm", g + out)


@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_both_directions_are_the_papers_equations(alpha):
    torch.manual_seed(1)
    net = slow.shaken(DistanceEncoder(6, 2, hidden=7, alpha=alpha, dropout=0.0))
    x, lengths = torch.randn(3, 5, 6).double(), torch.tensor([5, 3, 1])
    found = net(x, Lengths(lengths)).detach().numpy()
    for row, length in enumerate(lengths.tolist()):
        for block, way, part in ((net.forth, "forward", 0), (net.back, "backward", 6)):
            want = by_hand(block, x[row, :length].numpy(), way, alpha)
            np.testing.assert_allclose(found[row, :length, part : part + 6], want, atol=1e-9)


def test_parameters_at_the_papers_size():
    """Per block: four projections, the gate with its bias, FFN 1200, two norms."""
    d, hidden = 300, 1200
    block = 4 * d**2 + (2 * d**2 + d) + (2 * d * hidden + hidden + d) + 4 * d
    assert slow.count(DistanceEncoder) == 2 * block == 2 * 1_263_000
    # What the public re-implementation has beyond the equations (see DistanceBlock).
    bias_behind_heads, norm_of_heads, norm_in_gate = d, 2 * (d // 5), 2 * d
    assert block + bias_behind_heads + norm_of_heads + norm_in_gate == 1_264_020
    # The rest of the model, as in the fact sheet: both come to the published 4.7 million.
    rest = 722_400 + 1_441_803
    assert [round((2 * n + rest) / 1e6, 1) for n in (block, 1_264_020)] == [4.7, 4.7]
    assert not any(
        "out.bias" in name
        for name, _ in DistanceEncoder().named_parameters()
        if "attention" in name
    )


def test_a_larger_alpha_looks_nearer_and_at_last_at_the_neighbor():
    spread = []
    for alpha in (0.0, 0.5, 1.5, 5.0, 50.0):
        block = DistanceBlock(4, 1, "forward", alpha=alpha, dropout=0.0)
        torch.nn.init.zeros_(block.attention.query.weight)
        with watch(block) as seen:
            block(torch.randn(1, 8, 4))
        weights = seen["attention"].steps[0][0, 0, -1]
        spread.append(float((weights * (7 - torch.arange(8))).sum()))
    assert spread[0] == pytest.approx(4.0)  # uniform over the seven earlier ones
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] == pytest.approx(1.0)


@pytest.mark.slow
def test_without_direction_and_distance_it_is_a_bag_of_words():
    """The fact sheet's E5: one A and one B in 16 symbols, adjacent or at least 4 apart."""

    def batch(length, rows=128):
        x = torch.randint(2, 12, (rows, length))
        near, swapped = torch.rand(2, rows) < 0.5
        first = torch.randint(0, length - 5, (rows,))
        far = 4 + (torch.rand(rows) * (length - first - 4)).long()
        places = torch.stack([first, first + torch.where(near, 1, far)], 1)
        x.scatter_(1, places, torch.stack([swapped, ~swapped], 1).long())
        return x, near.long()

    def accuracy(alpha):
        torch.manual_seed(0)
        embed, read = torch.nn.Embedding(12, 32), torch.nn.Linear(32, 2)
        net = DistanceBlock(32, 2, "forward", alpha=alpha, dropout=0.0)
        net.attention.attention.mask = None
        parts = torch.nn.ModuleList([embed, net, read])
        optimizer = torch.optim.Adam(parts.parameters(), lr=2e-3)
        for _ in range(400):
            x, y = batch(16)
            loss = torch.nn.functional.cross_entropy(read(net(embed(x)).amax(1)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = []
        for length in (16, 32):
            x, y = batch(length, 500)
            with torch.no_grad():
                found.append((read(net(embed(x)).amax(1)).argmax(-1) == y).float().mean().item())
        return found

    with_distance, without = accuracy(1.5), accuracy(0.0)
    assert min(with_distance) > 0.95
    assert without[0] < 0.6
