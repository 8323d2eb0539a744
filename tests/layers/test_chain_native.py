"""Linear chains in C beside PyTorch: every instruction set, long, large, extreme."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import native
from regard.layers import _crf_native, crf
from regard.layers.crf import Chain, constrained, log_partition, marginals, viterbi

pytestmark = pytest.mark.skipif(native.library() is None, reason="no compiled library")
LEVELS = ("portable", "AVX2", "AVX-512")


def made(tags, lengths, dtype, spread=2.0, seed=0):
    draw = torch.Generator().manual_seed(seed)
    sizes = ((len(lengths), max(lengths), tags), (tags, tags), (tags,), (tags,))
    parts = [spread * torch.randn(size, generator=draw, dtype=torch.float64) for size in sizes]
    return [x.to(dtype).requires_grad_() for x in parts], torch.tensor(lengths)


def sums(inputs, lengths, weight=None):
    """The sums and their gradients."""
    found = log_partition(inputs[0], Chain(*inputs[1:]), lengths)
    weight = torch.ones_like(found) if weight is None else weight
    return (found.detach(), *torch.autograd.grad(found, inputs, weight))


def in_float64(inputs, lengths, weight=None):
    """The same in PyTorch's own operators and in float64."""
    own = [x.detach().double().requires_grad_() for x in inputs]
    found = crf._log_partition(*own, lengths)
    weight = torch.ones_like(found) if weight is None else weight.double()
    return (found.detach(), *torch.autograd.grad(found, own, weight))


@pytest.fixture
def asked(monkeypatch):
    """How often C was asked, and how often it declined."""
    count = {"sums": 0, "declined": 0}

    def counted(*given):
        found = _crf_native.total(*given)
        count["sums"] += 1
        count["declined"] += found is None
        return found

    monkeypatch.setattr(crf, "total", counted)
    return count


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tags", [1, 3, 16, 17, 40, 130])
def test_sums_gradients_and_paths_are_those_of_pytorch(level, dtype, tags, asked, monkeypatch):
    inputs, lengths = made(tags, [33, 1, 0, 20, 17, 32], dtype, seed=tags)
    weight = torch.tensor([1.0, -2.0, 0.3, 0.0, 1.0, 3.0], dtype=dtype)
    with native.at_level(level):
        found = sums(inputs, lengths, weight)
        best = viterbi(inputs[0], Chain(*inputs[1:]), lengths)
    assert asked == {"sums": 1, "declined": 0}
    near = 1e-12 if dtype == torch.float64 else 1e-5
    for a, b in zip(found, in_float64(inputs, lengths, weight), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=near, atol=near)
    monkeypatch.setattr(crf, "is_native", lambda *_: False)
    plain = viterbi(inputs[0], Chain(*inputs[1:]), lengths)
    assert all(torch.equal(a, b) for a, b in zip(best, plain, strict=True))


def test_the_error_of_long_sentences_is_bounded(asked):
    """log Z within 1e-6 of its size, marginals within 1e-4: the bounds that the docs state."""
    for tags in (5, 60):
        inputs, lengths = made(tags, [2000, 1500], torch.float32, spread=3.0, seed=tags)
        found, right = sums(inputs, lengths), in_float64(inputs, lengths)
        assert ((found[0] - right[0]).abs() <= 1e-6 * right[0].abs()).all()
        assert (found[1] - right[1]).abs().max() <= 1e-4
        torch.testing.assert_close(found[2].double(), right[2], rtol=1e-3, atol=1e-3)
    assert asked == {"sums": 2, "declined": 0}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([5.0, 40.0, 200.0, 3000.0]),
    forbidden=st.floats(0.0, 0.9),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    level=st.sampled_from(LEVELS),
)
def test_extreme_scores_and_forbidden_moves_lose_nothing(seed, spread, forbidden, dtype, level):
    inputs, lengths = made(6, [12, 3, 1, 0], dtype, spread, seed)
    draw = torch.Generator().manual_seed(seed)
    allowed = [torch.rand(x.shape, generator=draw) >= forbidden for x in inputs[1:]]
    with torch.no_grad():
        for x, may in zip(inputs[1:], allowed, strict=True):
            x.masked_fill_(~may, crf.FORBIDDEN)
    with native.at_level(level):
        found = sums(inputs, lengths)
    right = in_float64(inputs, lengths)
    near = 1e-10 if dtype == torch.float64 else 2e-6
    torch.testing.assert_close(found[0].double(), right[0], rtol=near, atol=near)
    # Where PyTorch helps out in float32, its logarithms have the digits of large numbers.
    near = 1e-9 if dtype == torch.float64 else max(1e-4, 1e-5 * spread, 1e-2 * (forbidden > 0))
    for a, b in zip(found[1:], right[1:], strict=True):
        torch.testing.assert_close(a.double(), b, rtol=near, atol=near)


def test_a_way_through_a_word_that_almost_rules_it_out_is_found(asked):
    """Tag 1 is the only way on, and far below tag 0: e^-150 is 0 in float32."""
    chain = Chain(torch.tensor([[-1e4, -1e4], [0.0, 0.0]]), torch.zeros(2), torch.zeros(2))
    emissions = torch.tensor([[[0.0, -150.0], [0.0, 0.0], [0.0, 0.0]]])
    lengths = torch.tensor([2])
    total = log_partition(emissions, chain, lengths)
    torch.testing.assert_close(total, torch.tensor([-150.0 + torch.tensor(2.0).log()]))
    assert asked == {"sums": 1, "declined": 1}
    shares = marginals(emissions, chain, lengths)
    torch.testing.assert_close(shares[0, 0], torch.tensor([0.0, 1.0]))


def test_constraints_as_used_are_computed_in_c(asked):
    names = ["O", *(f"{kind}-{role}" for role in range(30) for kind in "BI")]
    moves = torch.tensor([[b[0] != "I" or a[1:] == b[1:] for b in names] for a in names])
    first = torch.tensor([not n.startswith("I") for n in names])
    inputs, lengths = made(61, [50, 7], torch.float32)
    chain = constrained(Chain(*(x.detach() for x in inputs[1:])), (moves, first, first | True))
    found = sums([inputs[0], *(x.requires_grad_() for x in chain)], lengths)
    assert asked == {"sums": 1, "declined": 0}
    right = in_float64([inputs[0], *chain], lengths)
    torch.testing.assert_close(found[1].double(), right[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("which", range(4))
def test_numbers_that_are_not_finite_give_what_pytorch_gives(wrong, which):
    inputs, lengths = made(3, [4, 2], torch.float32)
    with torch.no_grad():
        inputs[which].view(-1)[1] = wrong
    found = log_partition(inputs[0], Chain(*inputs[1:]), lengths)
    right = crf._log_partition(*inputs, lengths)
    torch.testing.assert_close(found, right, equal_nan=True)


def test_results_do_not_depend_on_threads_or_strides():
    inputs, lengths = made(50, [60] * 40, torch.float32)
    one = sums(inputs, lengths)
    path = viterbi(inputs[0], Chain(*inputs[1:]), lengths)
    was = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert native.threads(40 * 60 * 50 * 64 // 4) == 3
        turned = [x.detach().mT.contiguous().mT.requires_grad_() for x in inputs[:2]]
        other = sums([*turned, *inputs[2:]], lengths)
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
        again = viterbi(inputs[0], Chain(*inputs[1:]), lengths)
        assert all(torch.equal(a, b) for a, b in zip(path, again, strict=True))
    finally:
        torch.set_num_threads(was)


def test_of_equal_paths_the_first_is_taken():
    chain = Chain(torch.zeros(20, 20), torch.zeros(20), torch.zeros(20))
    tags, _ = viterbi(torch.zeros(1, 4, 20), chain, torch.tensor([4]))
    assert not tags.any()


def test_lengths_beyond_the_steps_are_refused_by_c():
    inputs, lengths = made(3, [4, 2], torch.float32)
    own = [x.detach() for x in inputs]
    for many in (lengths + 1, lengths - 3):
        with pytest.raises(IndexError, match="lengths"):
            _crf_native.best_path(*own, many)
        with pytest.raises(IndexError, match="lengths"):
            _crf_native.total(*own, many, crf._log_partition)


@pytest.mark.nohook  # a graph is traced
def test_transforms_and_graphs_use_pytorch():
    inputs, lengths = made(3, [4, 2], torch.float32)
    chain = Chain(*inputs[1:])
    with torch.no_grad():
        plain = log_partition(inputs[0], chain, lengths)
        compiled = torch.compile(log_partition, backend="eager")(inputs[0], chain, lengths)
    torch.testing.assert_close(compiled, plain)
    slopes = torch.func.grad(lambda e: log_partition(e, chain, lengths).sum())(inputs[0])
    torch.testing.assert_close(slopes, marginals(inputs[0], chain, lengths), rtol=1e-4, atol=1e-5)
