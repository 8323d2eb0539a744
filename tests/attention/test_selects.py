"""Every selection against its definition: optimization, loops, counting."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import watch
from regard.attention import (
    Attention,
    Entmax15,
    Gather,
    Hard,
    Identity,
    Lengths,
    OverQueries,
    Sharpen,
    Smooth,
    Softmax,
    Sparsemax,
    TopK,
    attend,
    explain,
    masked_softmax,
)
from regard.errors import RequestError


def simplex_by_bisection(scores, power):
    """w = [(a - 1) e - t]_+^(1 / (a - 1)) with the t that makes it add up to 1, by bisection."""
    e = scores / power
    low, high = e.max() - 1, e.max()
    for _ in range(200):
        t = (low + high) / 2
        if (np.maximum(e - t, 0) ** power).sum() > 1:
            low = t
        else:
            high = t
    return np.maximum(e - (low + high) / 2, 0) ** power


def row_of(select, scores):
    """One row of weights, from the definition."""
    if isinstance(select, Sparsemax):
        return simplex_by_bisection(scores, 1)
    if isinstance(select, Entmax15):
        return simplex_by_bisection(scores, 2)
    if isinstance(select, Smooth):
        w = 1 / (1 + np.exp(-scores))
    elif isinstance(select, Sharpen):
        w = np.exp(select.beta * scores)
    elif isinstance(select, TopK):
        w = np.exp(scores) * np.isin(np.arange(len(scores)), np.argsort(-scores)[: select.k])
    elif isinstance(select, Hard):
        return np.eye(len(scores))[scores.argmax()]
    else:
        return scores
    return w / w.sum()


SELECTS = {
    "sparsemax": Sparsemax(),
    "entmax": Entmax15(),
    "top 1": TopK(1),
    "top 3": TopK(3),
    "sharpen": Sharpen(3.0),
    "smooth": Smooth(),
    "identity": Identity(),
    "hard": Hard().eval(),
}
SOFT = [name for name in SELECTS if name != "hard"]


@given(
    name=st.sampled_from(sorted(SELECTS)),
    batch=st.sampled_from([(), (2,), (2, 3)]),
    queries=st.integers(1, 4),
    keys=st.integers(1, 9),
    spread=st.sampled_from([0.1, 1.0, 20.0]),
    masked=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_select_is_its_definition(name, batch, queries, keys, spread, masked, seed):
    torch.manual_seed(seed)
    select = SELECTS[name]
    scores = spread * torch.randn(*batch, queries, keys, dtype=torch.float64)
    mask = torch.rand(queries, keys) > 0.4 if masked else None
    got, _ = select(scores, mask=mask)
    rows = scores.reshape(-1, keys).numpy()
    expected = np.zeros_like(rows)
    allowed = np.ones_like(rows, dtype=bool)
    if mask is not None:
        allowed = mask.expand(*batch, queries, keys).reshape(-1, keys).numpy()
    for i, row in enumerate(rows):
        if allowed[i].any():
            expected[i, allowed[i]] = row_of(select, row[allowed[i]])
    np.testing.assert_allclose(got.reshape(-1, keys).numpy(), expected, atol=1e-11)
    if select.sums == "over keys":
        np.testing.assert_allclose(expected.sum(-1), allowed.any(-1), atol=1e-11)


@pytest.mark.parametrize("name", SOFT)
@pytest.mark.parametrize("over", [lambda s: s, OverQueries], ids=["keys", "queries"])
def test_gradients(name, over):
    if name == "identity" and over is OverQueries:
        pytest.skip("its weights do not add up to 1 over any axis")
    select = over(SELECTS[name])
    torch.manual_seed(3)
    scores = (2 * torch.randn(2, 4, 5, dtype=torch.float64)).requires_grad_()
    mask = torch.rand(2, 4, 5) > 0.3
    mask[0, 1] = False
    mask[1, :, 2] = False
    assert torch.autograd.gradcheck(lambda s: select(s, mask=mask)[0], scores)
    assert torch.autograd.gradgradcheck(lambda s: select(s, mask=mask)[0], scores)


@pytest.mark.parametrize("name", ["top 1", "top 3", "sharpen", "smooth"])
def test_log_weights_are_logarithms_where_weights_vanish(name):
    select = SELECTS[name]
    scores = torch.randn(3, 6, dtype=torch.float64)
    mask = torch.rand(3, 6) > 0.3
    mask[0] = False
    weights, _ = select(scores, mask=mask)
    torch.testing.assert_close(select.log_weights(scores, mask).exp(), weights)
    far = torch.tensor([[0.0, -1000.0]], requires_grad=True)
    logs = SELECTS["smooth"].log_weights(far) if name == "smooth" else Softmax().log_weights(far)
    assert logs[0, 1] < -990
    logs.sum().backward()
    assert far.grad.isfinite().all()


@pytest.mark.parametrize("name", SELECTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_large_scores_empty_rows_and_low_precision(name, dtype):
    layer = Attention(select=SELECTS[name]).to(dtype)
    x = [(40 * torch.randn(3, n, 4)).to(dtype).requires_grad_() for n in (2, 5, 5)]
    got = layer(*x, mask=Lengths(torch.tensor([0, 5, 2])), need_weights=True)
    assert got.context.dtype == dtype
    assert (got.context[0] == 0).all()
    assert (got.weights[0] == 0).all()
    if SELECTS[name].sums == "over keys":
        torch.testing.assert_close(got.weights[1:].sum(-1), torch.ones(2, 2, dtype=dtype))
    got.context.float().sum().backward()
    for t in x:
        assert t.grad is None or t.grad.isfinite().all()


def test_sparsemax_of_one_score_shared_by_all_is_uniform():
    for select in (Sparsemax(), Entmax15()):
        weights, _ = select(torch.full((2, 7), 1e4))
        torch.testing.assert_close(weights, torch.full((2, 7), 1 / 7))


def test_sparse_weights_have_exact_zeros_and_minus_infinity_is_out_of_reach():
    scores = torch.tensor([[3.0, 2.8, -1.0, -torch.inf]], requires_grad=True)
    for select in (Sparsemax(), Entmax15()):
        weights, _ = select(scores)
        assert (weights[0, 2:] == 0).all()
        assert (weights[0, :2] > 0).all()
        (grad,) = torch.autograd.grad(weights[0, 0], scores)
        assert grad.isfinite().all()
        assert (grad[0, 2:] == 0).all()


def test_smooth_cannot_underflow():
    weights, _ = Smooth()(torch.tensor([[-300.0, -300.0, -400.0]]))
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5, 0.0]]))


def test_sharpen_is_a_softmax_that_the_fused_kernel_can_do():
    layer = Attention(select=Sharpen(2.0))
    assert explain(layer)[""].kernel == "sdpa"
    assert repr(Sharpen(2.0)) == "Sharpen(beta=2.0)"
    x = torch.randn(2, 4, 8)
    torch.testing.assert_close(layer(x, x).context, layer(x, x, need_weights=True).context)
    assert pickle.loads(pickle.dumps(Sharpen(2.0))) == copy.deepcopy(Sharpen(2.0)) == Sharpen(2.0)


def test_top_k_keeps_exactly_k_of_equal_scores():
    weights, _ = TopK(2)(torch.zeros(3, 5))
    assert ((weights > 0).sum(-1) == 2).all()
    mask = torch.tensor([False, True, False, True, True])
    weights, _ = TopK(4)(torch.randn(3, 5), mask=mask)
    assert torch.equal(weights > 0, mask.expand(3, 5))


def test_over_queries_is_the_select_of_the_transposed_scores():
    scores = torch.randn(2, 3, 4, dtype=torch.float64)
    mask = torch.rand(2, 1, 4) > 0.5  # broadcast over the queries
    mask[0, 0, 1] = False
    for inner in (Softmax(0.5), Sparsemax(), TopK(2)):
        got, _ = OverQueries(inner)(scores, mask=mask)
        for b in range(2):
            for j in range(4):
                column = scores[b, :, j]
                expected = inner(column[None])[0][0] if mask[b, 0, j] else torch.zeros(3)
                torch.testing.assert_close(got[b, :, j], expected.double())
    layer = Attention(select=OverQueries())
    assert layer(torch.randn(2, 3, 4), torch.randn(2, 5, 4)).context.shape == (2, 3, 4)


def test_attention_over_attention_is_two_selects_of_one_matrix():
    """Cui et al. 2017: a row softmax averaged over rows, times a column softmax."""
    document, query = torch.randn(1, 6, 4), torch.randn(1, 3, 4)
    scores = Attention().scores(document, query)  # (1, document, query)
    alpha, _ = OverQueries()(scores)
    beta, _ = Softmax()(scores)
    got = (alpha @ beta.mean(-2, keepdim=True).mT).squeeze(-1)
    m = scores[0]
    expected = torch.softmax(m, 0) @ torch.softmax(m, 1).mean(0)
    torch.testing.assert_close(got[0], expected)
    torch.testing.assert_close(got.sum(), torch.ones(()))


def test_hard_samples_with_the_softmax_as_its_distribution():
    scores = torch.tensor([0.0, 1.0, 2.0, -1.0]).expand(20000, 1, 4)
    mask = torch.tensor([True, True, True, False])
    select = Hard(temperature=2.0)
    weights, log_prob = select(scores, mask=mask)
    chances = masked_softmax(scores[0, 0] / 2, mask)
    assert ((weights == 0) | (weights == 1)).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(20000, 1))
    share = weights.mean((0, 1))
    assert (share - chances).abs().max() < 4 * 0.5 / 20000**0.5
    assert share[3] == 0
    torch.testing.assert_close(log_prob, (weights * chances.clamp_min(1e-9).log()).sum(-1))


def test_hard_obeys_seed_generator_and_mode():
    scores = torch.randn(50, 1, 6)
    select = Hard()
    torch.manual_seed(5)
    first = select(scores)[0]
    torch.manual_seed(5)
    assert torch.equal(select(scores)[0], first)
    assert not torch.equal(select(scores)[0], first)
    one, other = (Hard(generator=torch.Generator().manual_seed(9)) for _ in range(2))
    before = torch.get_rng_state()
    assert torch.equal(one(scores)[0], other(scores)[0])
    assert torch.equal(torch.get_rng_state(), before)
    best = torch.nn.functional.one_hot(scores.argmax(-1), 6).float()
    assert torch.equal(select.eval()(scores)[0], best)
    assert torch.equal(Hard("argmax")(scores)[0], best)
    assert not torch.equal(Hard(evaluation="sample").eval()(scores)[0], best)
    layer = Attention(select=Hard(), read=Gather())
    assert not layer.eval().select.training
    assert torch.equal(copy.deepcopy(layer)(scores, scores).context, layer(scores, scores).context)


def test_reinforce_has_the_gradient_of_the_expected_reward():
    """One line of it, averaged over many samples, against the derivative of sum_j p_j r_j."""
    e = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64, requires_grad=True)
    reward = torch.tensor([1.0, 3.0, -2.0], dtype=torch.float64)
    (expected,) = torch.autograd.grad((torch.softmax(e, 0) * reward).sum(), e)
    n = 40000
    weights, log_prob = Hard()(e.expand(n, 1, 3))
    gained = (weights * reward).sum(-1)
    (got,) = torch.autograd.grad((gained * log_prob).mean(), e)
    assert (got - expected).abs().max() < 5 * 3 / n**0.5


def test_hard_attention_reaches_scores_by_its_log_probability_and_values_by_reading():
    query, key, value = (torch.randn(2, n, 4, requires_grad=True) for n in (3, 5, 5))
    mask = Lengths(torch.tensor([5, 0]))
    got = attend(query, key, value, select=Hard(), read=Gather(), mask=mask, need_weights=True)
    assert got.log_prob.shape == (2, 3)
    assert (got.log_prob[1] == 0).all()
    assert (got.log_prob[0] < 0).all()
    got.context.sum().backward(retain_graph=True)
    assert query.grad is None
    torch.testing.assert_close(value.grad, got.weights.sum(1)[..., None].expand(-1, -1, 4))
    got.log_prob.sum().backward()
    assert query.grad.isfinite().all()
    assert query.grad[0].abs().sum() > 0
    assert (query.grad[1] == 0).all()


def test_watching_hard_attention_draws_nothing():
    layer = Attention(select=Hard(), read=Gather())
    x = torch.randn(4, 3, 5)
    torch.manual_seed(2)
    plain = layer(x, x).context
    torch.manual_seed(2)
    with watch(layer) as seen:
        assert torch.equal(layer(x, x).context, plain)
    assert ((seen[""].weights @ x) == plain).all()


@pytest.mark.nohook  # the checks refuse some of these by themselves
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TopK(0), "at least one key"),
        (lambda: Sharpen(0.0), "beta above 0"),
        (lambda: Hard("best"), 'training="sample" or "argmax"'),
        (lambda: Hard(temperature=-1.0), "temperature above 0"),
        (lambda: OverQueries(Hard()), "got Hard"),
        (lambda: OverQueries(OverQueries()), "got OverQueries"),
        (lambda: OverQueries(Identity()), "got Identity"),
    ],
)
def test_refused(make, said):
    with pytest.raises(RequestError, match=said):
        make()
