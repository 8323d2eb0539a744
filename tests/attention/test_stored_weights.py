"""The largest weights of each row, as `topk` gives them, ties and no numbers included."""

import pytest
import torch

from regard.attention.stored_weights import TopKWeights

DRAW = torch.Generator().manual_seed(1)


@pytest.mark.parametrize(
    "weights",
    [
        torch.randn(3, 20, 40, generator=DRAW).mul(3).softmax(-1),
        torch.randn(2, 30, 30, generator=DRAW).softmax(-1).tril(),  # rows with fewer than k
        torch.randint(0, 3, (50, 30), generator=DRAW).float(),
        torch.zeros(2, 5, 20),
        torch.randn(4, 17, generator=DRAW).double(),
        torch.randn(4, 19, generator=DRAW).half(),
        torch.randn(2, 25, 6, generator=DRAW).mT,  # not in order in memory
        torch.zeros(0, 20),
    ],
)
@pytest.mark.parametrize("k", [1, 7, 16])
def test_the_largest_of_each_row_are_kept(weights, k):
    kept = TopKWeights(weights, k)
    best = weights.topk(k, -1).values
    assert torch.equal(kept.values.sort(-1, descending=True).values, best)
    assert torch.equal(weights.gather(-1, kept.places.long()), kept.values)
    assert all(len(set(row)) == k for row in kept.places.reshape(-1, k).tolist())
    torch.testing.assert_close(kept.mass, best.sum(-1))
    dense = kept.dense()
    assert dense.shape == weights.shape
    assert torch.equal(dense[dense != 0], weights[dense != 0])


def test_weights_that_are_no_numbers_stay_so():
    assert TopKWeights(torch.full((3, 30), torch.nan), 4).values.isnan().all()
