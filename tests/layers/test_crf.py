"""Linear-chain conditional random fields against all paths, one by one, in float64."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import RequestError
from regard.layers.crf import (
    FORBIDDEN,
    Chain,
    LinearChain,
    constrained,
    k_best,
    log_partition,
    marginals,
    path_score,
    viterbi,
)


def paths(emissions, chain, length):
    """Every path of one sentence and its score, from the definition, in NumPy."""
    moves, start, end = (x.detach().double().numpy() for x in chain)
    e = emissions.detach().double().numpy()
    found = {}
    for y in itertools.product(range(len(start)), repeat=length):
        score = sum(e[t, c] for t, c in enumerate(y))
        score += sum(moves[a, b] for a, b in itertools.pairwise(y))
        found[y] = score + (start[y[0]] + end[y[-1]] if length else 0.0)
    return found


def made(tags=3, steps=4, lengths=(4, 1, 0, 2), dtype=torch.float64, spread=2.0, seed=0):
    draw = torch.Generator().manual_seed(seed)
    sizes = ((len(lengths), steps, tags), (tags, tags), (tags,), (tags,))
    emissions, *chain = (
        spread * torch.randn(size, generator=draw, dtype=torch.float64) for size in sizes
    )
    return emissions.to(dtype), Chain(*(x.to(dtype) for x in chain)), torch.tensor(lengths)


sentences = {
    "tags": st.integers(1, 4),
    "lengths": st.lists(st.integers(0, 4), min_size=1, max_size=3),
    "spread": st.sampled_from([0.1, 2.0, 60.0]),
    "seed": st.integers(0, 10**6),
    "dtype": st.sampled_from([torch.float64, torch.float32]),
}


@settings(max_examples=60, deadline=None)
@given(**sentences)
def test_sums_and_scores_are_those_of_all_paths(tags, lengths, spread, seed, dtype):
    steps = max(lengths) + seed % 2
    emissions, chain, many = made(tags, steps, lengths, dtype, spread, seed)
    total, shares = log_partition(emissions, chain, many), marginals(emissions, chain, many)
    best, score = viterbi(emissions, chain, many)
    assert total.dtype == shares.dtype == score.dtype == dtype
    near = {"rtol": 1e-12, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 1e-6, "atol": 2e-4}
    for i, length in enumerate(lengths):
        every = paths(emissions[i], chain, length)
        values = np.array(list(every.values()))
        log_z = values.max() + np.log(np.exp(values - values.max()).sum())
        np.testing.assert_allclose(total[i], log_z, **near)
        expected = np.zeros((steps, tags))
        for y, value in every.items():
            for t, c in enumerate(y):
                expected[t, c] += np.exp(value - log_z)
        np.testing.assert_allclose(shares[i], expected, **near)
        np.testing.assert_allclose(score[i], values.max(), **near)
        found = best[i].tolist()
        np.testing.assert_allclose(every[tuple(found[:length])], values.max(), **near)
        assert not any(found[length:])


@settings(max_examples=30, deadline=None)
@given(**sentences, k=st.integers(1, 9))
def test_the_best_few_are_those_of_all_paths(tags, lengths, spread, seed, dtype, k):
    emissions, chain, many = made(tags, max(lengths), lengths, dtype, spread, seed)
    found, scores = k_best(emissions, chain, many, k)
    for i, length in enumerate(lengths):
        every = paths(emissions[i], chain, length)
        right = sorted(every.values(), reverse=True)[:k]
        there = min(k, len(every))
        np.testing.assert_allclose(scores[i, :there], right, rtol=1e-6, atol=1e-4)
        taken = [tuple(y[:length].tolist()) for y in found[i, :there]]
        assert len(set(taken)) == there
        np.testing.assert_allclose([every[y] for y in taken], right, rtol=1e-6, atol=1e-4)
        assert (scores[i, there:] == -torch.inf).all()
        assert not found[i, there:].any()
        assert not found[i, :, length:].any()
    best, score = viterbi(emissions, chain, many)
    assert torch.equal(score, scores[:, 0])
    if spread > 1:
        assert torch.equal(best, found[:, 0])


def leaves(**how):
    emissions, chain, lengths = made(**how)
    return [x.requires_grad_() for x in (emissions, *chain)], lengths


def test_gradients_are_exact_and_can_be_differentiated_again():
    inputs, lengths = leaves(tags=3, spread=1.0)
    tags = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 0], [0, 0, 0, 0], [1, 1, 9, -1]])

    def loss(emissions, *chain):
        many = Chain(*chain)
        return log_partition(emissions, many, lengths) - path_score(emissions, many, tags, lengths)

    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)

    def shares(emissions, *chain):
        return marginals(emissions, Chain(*chain), lengths)

    assert torch.autograd.gradcheck(shares, inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_gradient_of_the_sum_are_the_marginals_and_expected_counts(dtype):
    inputs, lengths = leaves(tags=5, steps=9, lengths=(9, 1, 0, 5, 8), dtype=dtype)
    emissions, chain = inputs[0], Chain(*inputs[1:])
    weight = torch.tensor([1.0, -2.0, 3.0, 0.0, 0.5], dtype=dtype)
    total = (log_partition(emissions, chain, lengths) * weight).sum()
    of_emissions, of_moves, of_start, of_end = torch.autograd.grad(total, inputs)
    shares = marginals(emissions.detach(), chain, lengths)
    torch.testing.assert_close(of_emissions, shares * weight[:, None, None], rtol=1e-5, atol=1e-6)
    real = torch.tensor([0, 1, 3, 4])
    first, last = shares[real, 0], shares[real, lengths[real] - 1]
    torch.testing.assert_close(of_start, (first * weight[real, None]).sum(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(of_end, (last * weight[real, None]).sum(0), rtol=1e-5, atol=1e-6)
    moves = (lengths - 1).clamp_min(0).to(dtype)
    torch.testing.assert_close(of_moves.sum(), (moves * weight).sum(), rtol=1e-5, atol=1e-5)
    # A weight of a move shifts the score of every path by how often the path takes it.
    step = 1e-6
    if dtype == torch.float64:
        for a, b in ((0, 1), (3, 3)):
            near = chain.transitions.detach().clone()
            near[a, b] += step
            moved = log_partition(emissions, chain._replace(transitions=near), lengths)
            slope = ((moved * weight).sum() - total) / step
            torch.testing.assert_close(of_moves[a, b], slope, rtol=1e-4, atol=1e-5)


def test_padding_may_hold_anything():
    emissions, chain, lengths = made(tags=4, steps=6, lengths=(6, 2, 0, 5))
    other = emissions.clone()
    other[torch.arange(6) >= lengths[:, None]] = torch.nan
    for function in (log_partition, marginals, viterbi, lambda *x: k_best(*x, 3)):
        first, second = function(emissions, chain, lengths), function(other, chain, lengths)
        for a, b in zip(
            *(x if isinstance(x, tuple) else (x,) for x in (first, second)), strict=True
        ):
            assert torch.equal(a, b)
    tags = torch.randint(0, 4, (4, 6))
    assert torch.equal(
        path_score(emissions, chain, tags, lengths), path_score(other, chain, tags, lengths)
    )
    other.requires_grad_()
    log_partition(other, chain, lengths).sum().backward()
    assert (other.grad[torch.arange(6) >= lengths[:, None]] == 0).all()


def test_sentences_without_words():
    chain = LinearChain(3)()
    for steps in (0, 2):
        emissions = torch.randn(2, steps, 3, requires_grad=True)
        lengths = torch.zeros(2, dtype=torch.long)
        total = log_partition(emissions, chain, lengths)
        assert (total == 0).all()
        total.sum().backward()
        assert not path_score(emissions, chain, torch.zeros(2, steps).long(), lengths).any()
        assert marginals(emissions, chain, lengths).shape == (2, steps, 3)
        tags, score = viterbi(emissions, chain, lengths)
        assert tags.shape == (2, steps)
        assert not score.any()
        tags, scores = k_best(emissions, chain, lengths, 2)
        assert tags.shape == (2, 2, steps)
        assert scores.tolist() == [[0.0, -torch.inf]] * 2
    none = torch.empty(0, 4, 3)
    assert log_partition(none, chain, torch.empty(0).long()).shape == (0,)
    assert viterbi(none, chain, torch.empty(0).long())[0].shape == (0, 4)


def test_half_precision_is_computed_in_float32():
    emissions, chain, lengths = made(tags=5, steps=30, lengths=(30, 12), dtype=torch.bfloat16)
    wide = Chain(*(x.float() for x in chain))
    for function in (log_partition, marginals, lambda *x: viterbi(*x)[1]):
        assert torch.equal(
            function(emissions, chain, lengths), function(emissions.float(), wide, lengths)
        )
    emissions.requires_grad_()
    log_partition(emissions, chain, lengths).sum().backward()
    assert emissions.grad.dtype == torch.bfloat16


def test_what_is_forbidden_is_never_taken():
    torch.manual_seed(4)
    names = ["O", "B-A", "I-A", "B-B", "I-B"]
    first = torch.tensor([not n.startswith("I") for n in names])
    moves = torch.tensor(
        [[not b.startswith("I") or a[1:] == b[1:] for b in names] for a in names]
    )  # fmt: skip
    chain = constrained(LinearChain(5)(), (moves, first, torch.ones(5, dtype=torch.bool)))
    emissions, lengths = 30 * torch.randn(300, 7, 5), torch.randint(1, 8, (300,))
    tags, score = viterbi(emissions, chain, lengths)
    for row, length in zip(tags.tolist(), lengths.tolist(), strict=True):
        assert first[row[0]]
        assert all(moves[a, b] for a, b in itertools.pairwise(row[:length]))
    assert (score > FORBIDDEN / 2).all()
    chances = marginals(emissions, chain, lengths)
    assert (chances[:, 0, ~first] == 0).all()
    emissions.requires_grad_()
    log_partition(emissions, chain, lengths).sum().backward()
    torch.testing.assert_close(emissions.grad, chances, rtol=1e-4, atol=1e-5)


def test_a_chain_is_learned():
    torch.manual_seed(0)
    layer = LinearChain(3)
    assert (layer.transitions.abs() <= 0.1).all()
    assert not layer.start.any()
    tags = torch.tensor([[0, 1, 2, 0, 1, 2, 0, 1]])  # words say nothing; each tag gives the next
    emissions, lengths = torch.zeros(1, 8, 3), torch.tensor([8])
    step = torch.optim.Adam(layer.parameters(), 0.2)
    for _ in range(60):
        step.zero_grad()
        chain = layer()
        loss = log_partition(emissions, chain, lengths) - path_score(
            emissions, chain, tags, lengths
        )
        loss.sum().backward()
        step.step()
    assert torch.equal(viterbi(emissions, layer(), lengths)[0], tags)
    assert loss < 0.1


@pytest.mark.nohook  # which refuses sizes first
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda e, c, n: log_partition(e, c._replace(end=c.end[:2]), n), r"a chain of 3 tags"),
        (lambda e, c, n: log_partition(e, c, n[:2]), r"one length for each of 4 sentences"),
        (lambda e, c, n: viterbi(e, c, n + 1), r"lengths from 0 to 4, .* got 5"),
        (lambda e, c, n: marginals(e, c, n - 1), r"lengths from 0 to 4, .* got -1"),
        (lambda e, c, n: k_best(e, c, n, 0), r"k of 1 or more, got 0"),
        (lambda e, c, n: path_score(e, c, torch.full((4, 4), -1), n), r"tags 0 to 2, got -1"),
        (lambda e, c, n: path_score(e, c, torch.full((4, 4), 3), n), r"tags 0 to 2, got 3"),
        (lambda e, c, n: path_score(e, c, torch.zeros(4, 3).long(), n), r"tags \(4, 4\), got"),
        (lambda e, c, n: constrained(c, (c[0] > 0, c[1][:1] > 0, c[2] > 0)), r"allowed start"),
        (lambda e, c, n: LinearChain(0), r"one tag or more, got num_tags=0"),
    ],
)
def test_what_does_not_fit_is_refused(call, said):
    with pytest.raises(RequestError, match=said):
        call(*made())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_marginals_and_paths_in_inference_mode_are_those_outside(dtype):
    emissions, chain, lengths = made(dtype=dtype)
    expected, best = marginals(emissions, chain, lengths), viterbi(emissions, chain, lengths)
    with torch.inference_mode():
        own, weights = emissions + 0, Chain(*(x + 0 for x in chain))
        assert torch.equal(marginals(own, weights, lengths + 0), expected)
        assert torch.equal(viterbi(own, weights, lengths + 0)[0], best[0])
