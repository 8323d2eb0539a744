"""CTC decoding against all paths, enumerated."""

import math
from itertools import groupby, pairwise, product

import pytest
import torch

from regard.decode.ctc import best_path, prefix_search


def every_text(log_probs):
    """The probability of each text: the sum over its paths."""
    frames, symbols = log_probs.shape
    found = {}
    for path in product(range(symbols), repeat=frames):
        text = tuple(s for s, _ in groupby(path) if s)
        total = sum(float(log_probs[t, s]) for t, s in enumerate(path))
        found[text] = found.get(text, 0.0) + torch.tensor(total).double().exp().item()
    return found


def drawn(seed, frames=5, symbols=6):
    logits = torch.randn(
        frames, symbols, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    logits[:, 1:3] = -torch.inf  # start and end are no symbols
    return (2 * logits).log_softmax(-1)


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=pytest.mark.slow if n > 2 else ()) for n in range(6)]
)
def test_a_wide_search_finds_the_likeliest_texts_and_their_probabilities(seed):
    log_probs = drawn(seed)
    right = every_text(log_probs)
    found = prefix_search(log_probs, 500)
    assert tuple(found[0].tokens) == max(right, key=right.get)
    for one in found[:20]:
        assert one.log_prob == pytest.approx(math.log(right[tuple(one.tokens)]), abs=0.02)
    scores = [one.log_prob for one in found]
    assert scores == sorted(scores, reverse=True)


def test_the_best_path_may_give_another_text():
    log_probs = torch.tensor([[0.6, 0.0, 0.0, 0.4], [0.6, 0.0, 0.0, 0.4]]).log()
    assert best_path(log_probs).tokens == []  # 0.36 of one path
    (found, *_) = prefix_search(log_probs, 5)
    assert found.tokens == [3]  # 0.64 of three
    assert found.log_prob == pytest.approx(math.log(0.64), abs=1e-6)


def test_repeats_need_a_blank_between_them():
    sure = torch.full((5, 5), -20.0)
    for t, symbol in enumerate((4, 4, 0, 4, 3)):
        sure[t, symbol] = 0.0
    found = best_path(sure.log_softmax(-1))
    assert found.tokens == [4, 4, 3]
    assert found.frames[1:] == [3, 4]
    assert prefix_search(sure.log_softmax(-1), 4)[0].tokens == [4, 4, 3]


def test_a_symbol_is_in_the_frame_where_it_is_likeliest():
    """Not in the first one where it is possible."""
    probabilities = torch.tensor([[0.989, 0.01, 0.001], [0.979, 0.02, 0.001], [0.01, 0.98, 0.01]])
    probabilities = torch.cat([probabilities, torch.tensor([[0.5, 0.01, 0.49], [0.01, 0, 0.99]])])
    logs = torch.full((5, 5), -torch.inf)
    logs[:, [0, 3, 4]] = probabilities.log()
    assert best_path(logs).frames == [2, 4]
    (found, *_) = prefix_search(logs, 5)
    assert found.tokens == [3, 4]
    assert found.frames == [2, 4]  # 0.51 · 0.99 that the 4 begins in frame 4, 0.49 in frame 3


@pytest.mark.parametrize("seed", range(6))
def test_each_symbol_has_a_frame_behind_that_of_the_one_before(seed):
    for one in prefix_search(drawn(seed), 30):
        assert len(one.frames) == len(one.tokens)
        assert all(a < b for a, b in pairwise(one.frames))


def test_no_frames_give_no_text():
    assert prefix_search(torch.zeros(0, 5), 3) == [([], 0.0, [])]
    assert best_path(torch.zeros(0, 5)).tokens == []
