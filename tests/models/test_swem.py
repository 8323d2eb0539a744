"""SWEM: pools of word vectors against loops in NumPy, and the cosine of a pair."""

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.models.swem import POOLS, SWEM, SWEMPair

POOLED = {
    "mean": lambda x, n: x.mean(0),
    "max": lambda x, n: x.max(0),
    "concat": lambda x, n: np.concatenate([x.mean(0), x.max(0)]),
    "hier": lambda x, n: np.max([x[i : i + n].mean(0) for i in range(max(len(x) - n, 0) + 1)], 0),
}


@pytest.mark.parametrize("window", [1, 2, 3, 9])
@pytest.mark.parametrize("pool", POOLS)
def test_each_pool_is_that_of_a_loop_over_the_words(pool, window):
    x = torch.randn(4, 6, 5, dtype=torch.float64)
    lengths = torch.tensor([6, 3, 1, 0])
    found = POOLS[pool](x, lengths, window)
    for row, size, own in zip(x.numpy(), lengths.tolist(), found.numpy(), strict=True):
        wanted = POOLED[pool](row[:size], window) if size else np.zeros(own.shape)
        np.testing.assert_allclose(own, wanted, rtol=1e-12, atol=1e-14)


def test_a_pair_is_compared_by_cosine_distance_and_product():
    model = SWEMPair(20, 3, 2, embed=4).double()
    first, second = torch.tensor([[4, 5, 6]]), torch.tensor([[7, 8, 0]])
    words = model.embed.weight.detach().numpy()
    u, v = words[[4, 5, 6]].mean(0), words[[7, 8]].mean(0)
    cosine = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
    read = np.concatenate([[cosine], abs(u - v), u * v, [0, 0]])  # no features were given
    head = model.head.output
    wanted = head.weight.detach().numpy() @ read + head.bias.detach().numpy()
    np.testing.assert_allclose(model(first, second).logits[0].detach().numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pool": "mena"}, "SWEM has no pool 'mena': did you mean 'mean'"),
        ({"window": 0}, "SWEM expected a window of 1 word or more, got 0"),
    ],
)
def test_other_pools_and_windows_are_refused(settings, said):
    with pytest.raises(RequestError, match=said):
        SWEM(9, 2, **settings)
