"""Feature-wise attention: the parts against the paper's equations, in loops of their own."""

import math

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import (
    Attention,
    Directional,
    FeatureAdditive,
    FeaturePerceptron,
    FeatureSoftmax,
    FeatureSum,
    Lengths,
    MultiHead,
    Softmax,
    SourceToToken,
    Window,
    attend,
    explain,
    kernels,
)
from regard.attention._kernels import features as kernel
from regard.errors import RequestError
from tests.attention.noting import noted


def slow_features(scores, value, allowed=None, temperature=1.0):
    """scores(b, i, j) -> (D,), value (B, K, D), allowed(b, i, j) -> bool: context and weights."""
    batch, queries, keys = scores.shape[:3]
    context = np.zeros((batch, queries, value.shape[-1]))
    weights = np.zeros((batch, queries, keys, value.shape[-1]))
    for b in range(batch):
        for i in range(queries):
            seen = [j for j in range(keys) if allowed is None or allowed(b, i, j)]
            for d in range(value.shape[-1]):
                powers = [math.exp(scores[b, i, j, d] / temperature) for j in seen]
                for j, power in zip(seen, powers, strict=True):
                    weights[b, i, j, d] = power / math.fsum(powers)
                    context[b, i, d] += weights[b, i, j, d] * value[b, j, d]
    return context, weights


def token2token(layer, query, key):
    """c tanh([W1 k_j + W2 q_i + b] / c), a pair at a time (Shen et al. 2018, 3.2)."""
    first, second = layer.key.weight.numpy(), layer.query.weight.numpy()
    bias, c = layer.key.bias.numpy(), layer.scale
    out = np.zeros((*query.shape[:2], key.shape[1], len(bias)))
    for b in range(query.shape[0]):
        for i in range(query.shape[1]):
            for j in range(key.shape[1]):
                inside = first @ key[b, j] + second @ query[b, i] + bias
                out[b, i, j] = c * np.tanh(inside / c)
    return out


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def draws(*shapes):
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def feature_wise(score, **parts):
    return Attention(score, select=FeatureSoftmax(), read=FeatureSum(), **parts)


MASKS = {
    "none": (None, None),
    "lengths": (Lengths(torch.tensor([4, 0])), lambda b, i, j: j < (4, 0)[b]),
    "forward": (Directional("forward"), lambda b, i, j: j < i + 2),  # at = K - Q = 2
    "backward": (Directional("backward"), lambda b, i, j: j > i + 2),
}


@pytest.mark.parametrize("kind", sorted(MASKS))
@pytest.mark.parametrize("temperature", [1.0, 0.4])
@torch.no_grad()
def test_token2token_is_the_papers_equation(kind, temperature):
    mask, allowed = MASKS[kind]
    query, key, value = draws((2, 3, 4), (2, 5, 6), (2, 5, 7))
    layer = Attention(
        FeatureAdditive(4, 6, 7, scale=2.5).double(),
        select=FeatureSoftmax(temperature),
        read=FeatureSum(),
        mask=mask,
    )
    layer.score.key.bias.normal_()
    expected, weights = slow_features(
        token2token(layer.score, query.numpy(), key.numpy()), value.numpy(), allowed, temperature
    )
    for name in ("reference", "features"):
        with kernels(name):
            torch.testing.assert_close(layer(query, key, value).context.numpy(), expected)
    got = layer(query, key, value, need_weights=True)
    assert got.weights.shape == (2, 3, 5, 7)
    torch.testing.assert_close(got.weights.numpy(), weights)


@torch.no_grad()
def test_the_perceptron_is_the_papers_equation():
    """z_i = W^T sigma(W1 x_i + W2 q + b1) + b (3.1)."""
    query, key, value = draws((2, 3, 4), (2, 5, 6), (2, 5, 7))
    score = FeaturePerceptron(4, 6, 7, hidden=9).double()
    for bias in (score.key.bias, score.out.bias):
        bias.normal_()
    w1, w2, w = (m.weight.numpy() for m in (score.key, score.query, score.out))
    expected = np.zeros((2, 3, 5, 7))
    for b in range(2):
        for i in range(3):
            for j in range(5):
                hidden = w1 @ key[b, j].numpy() + w2 @ query[b, i].numpy() + score.key.bias.numpy()
                expected[b, i, j] = w @ elu(hidden) + score.out.bias.numpy()
    torch.testing.assert_close(score(query, score.prepare(key)).numpy(), expected)
    context, _ = slow_features(expected, value.numpy())
    torch.testing.assert_close(feature_wise(score)(query, key, value).context.numpy(), context)


@torch.no_grad()
def test_source2token_is_the_papers_equation():
    """f(x_i) = W^T sigma(W1 x_i + b1) + b (3.3): a sentence to one vector."""
    (key,) = draws((2, 5, 6))
    score = SourceToToken(6, 6, hidden=4, activation=torch.nn.ReLU()).double()
    w1, w, b1, b = (
        t.numpy() for t in (score.key.weight, score.out.weight, score.key.bias, score.out.bias)
    )
    scores = np.zeros((2, 1, 5, 6))
    for row in range(2):
        for j in range(5):
            hidden = np.maximum(w1 @ key[row, j].numpy() + b1, 0)
            scores[row, 0, j] = w @ hidden + b
    context, _ = slow_features(scores, key.numpy(), lambda b, i, j: j < (3, 5)[b])
    layer = feature_wise(score)
    got = layer(key[:, :1], key, mask=Lengths(torch.tensor([3, 5]))).context
    torch.testing.assert_close(got.numpy(), context)
    memory = layer.remember(key, mask=torch.tensor([3, 5]))
    torch.testing.assert_close(layer(torch.zeros(2, 1, 1).double(), memory).context, got)


@torch.no_grad()
def test_the_vector_form_has_one_number_a_key():
    (key,) = draws((2, 5, 6))
    layer = Attention(SourceToToken(6, hidden=4).double())
    score = layer.score
    context = np.zeros((2, 1, 6))
    for row in range(2):
        e = [
            (score.out.weight.numpy() @ elu(score.key.weight.numpy() @ key[row, j].numpy())).item()
            for j in range(5)
        ]
        p = np.exp(e) / np.exp(e).sum()
        context[row, 0] = sum(p[j] * key[row, j].numpy() for j in range(5))
    torch.testing.assert_close(layer(key[:, :1], key).context.numpy(), context)
    assert layer(key[:, :2], key, need_weights=True).weights.shape == (2, 2, 5)
    assert not score.per_feature
    assert SourceToToken(6, 6).per_feature


def test_the_start_is_glorot_with_zero_biases():
    score = FeatureAdditive(300, 300, 300)
    assert (score.key.bias == 0).all()
    assert score.query.bias is None
    assert score.key.weight.std().item() == pytest.approx(math.sqrt(2 / 600), rel=0.05)
    assert sum(p.numel() for p in score.parameters()) == 2 * 300**2 + 300
    # Fact sheet: source2token at 600 features has 721,200 parameters.
    assert sum(p.numel() for p in SourceToToken(600, 600).parameters()) == 721_200


@pytest.mark.parametrize(
    "score", [FeatureAdditive(3, 4, 2), FeaturePerceptron(3, 4, 2), SourceToToken(4, 2)]
)
@pytest.mark.parametrize("mask", [None, Lengths(torch.tensor([0, 3])), Directional("forward")])
def test_gradients_of_the_reference(score, mask):
    layer = feature_wise(score.double(), mask=mask)
    inputs = [x.requires_grad_() for x in draws((2, 2, 3), (2, 4, 4), (2, 4, 2))]

    def run(query, key, value, *_):
        with kernels("reference"):
            return layer(query, key, value, at=1).context

    assert torch.autograd.gradcheck(run, (*inputs, *layer.parameters()))


@torch.no_grad()
def test_scores_never_leave_the_bound():
    score = FeatureAdditive(4, 4, 4, scale=3.0)
    x = 100 * torch.randn(1, 20, 4)
    assert score(x, score.prepare(x)).abs().max() <= 3.0
    gentle = FeatureAdditive(4, 4, 4, scale=1e4)
    x = torch.randn(1, 5, 4)
    linear = gentle.query(x)[:, :, None] + gentle.prepare(x)[:, None]
    torch.testing.assert_close(gentle(x, gentle.prepare(x)), linear, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_heads_have_features_of_their_own():
    layer = MultiHead(8, 2, feature_wise(FeatureAdditive(4, 4, 4))).double()
    x = torch.randn(2, 5, 8).double()
    with kernels("reference"):
        whole = layer(x, x, mask=Lengths(torch.tensor([5, 2])), need_weights=True)
    assert whole.weights.shape == (2, 2, 5, 5, 4)
    torch.testing.assert_close(whole.weights.sum(-2), torch.ones(2, 2, 5, 4).double())
    assert (whole.weights[1, :, :, 2:] == 0).all()
    fast = layer(x, x, mask=Lengths(torch.tensor([5, 2])))
    torch.testing.assert_close(fast.context, whole.context)
    assert fast.weights is None


@pytest.mark.parametrize("mask", [None, Directional("forward"), Window(1, 1)])
def test_watching_sees_every_feature_and_changes_nothing(mask):
    layer = feature_wise(FeatureAdditive(4, 4, 4), mask=mask)
    x = torch.randn(2, 5, 4, requires_grad=True)

    def run():
        x.grad = None
        context = layer(x, x).context
        context.square().sum().backward()
        return context.detach(), x.grad.clone()

    plain = run()
    with watch(layer) as seen:
        watched = run()
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    weights = seen[""].weights
    assert weights.shape == (2, 5, 5, 4)
    torch.testing.assert_close((weights * x.detach()[:, None]).sum(2), plain[0])


def test_watching_a_growing_past_fills_up_the_keys():
    layer = feature_wise(FeatureAdditive(4, 4, 4))
    x = torch.randn(2, 3, 4)
    with torch.no_grad(), watch(layer) as seen:
        for t in range(1, 4):
            layer(x[:, t - 1 : t], x[:, :t])
    record = seen[""]
    assert record.weights.shape == (3, 2, 1, 3, 4)
    assert (record.weights[0, :, :, 1:] == 0).all()
    torch.testing.assert_close(record.weights.sum(-2), torch.ones(3, 2, 1, 4))
    assert record.of(1).shape == (1, 3, 3, 4)
    trail = torch.tensor([[1, 0]] * 3)
    torch.testing.assert_close(record.along(trail), record.of(1))


def test_the_choice_and_its_reasons():
    assert explain(feature_wise(FeatureAdditive(4, 4, 4)))[""].kernel == "features"
    other = explain(feature_wise(SourceToToken(4, 4)))[""]
    assert other.kernel == "reference"
    assert ("features", "SourceToToken is not FeatureAdditive") in other.passed_over
    with_weights = explain(feature_wise(FeatureAdditive(4, 4, 4)), need_weights=True)[""]
    assert with_weights.kernel == "reference"
    far = feature_wise(FeatureAdditive(4, 4, 4, scale=50.0))
    over = dict(explain(far)[""].passed_over)
    assert over["features"] == "its scores reach 50 and it sums exponentials up to e^20"
    sharp = Attention(FeatureAdditive(4, 4, 4), select=FeatureSoftmax(0.1), read=FeatureSum())
    assert explain(sharp)[""].kernel == "reference"


def test_what_makes_no_sense_is_refused():
    x = torch.randn(2, 3, 4)
    with pytest.raises(RequestError, match="FeatureSoftmax and FeatureSum"):
        Attention(FeatureAdditive(4, 4, 4))(x, x)
    with pytest.raises(RequestError, match="FeatureSoftmax"):
        Attention(select=FeatureSoftmax(), read=FeatureSum())(x, x)
    layer = feature_wise(FeatureAdditive(4, 4, 3))
    for name in ("reference", "features"):
        with kernels(name), pytest.raises(RequestError, match=r"got 4\s+and 3"):
            layer(x, x)
    with pytest.raises(RequestError, match="temperature above 0"):
        FeatureSoftmax(0.0)
    with pytest.raises(RequestError, match="scale above 0"):
        FeatureAdditive(4, 4, 4, scale=0.0)
    with pytest.raises(RequestError, match="feature axis"):
        FeatureSoftmax()(torch.randn(2, 3, 3), query=x)


def test_the_softmax_is_over_keys_for_each_feature():
    scores = torch.randn(2, 3, 5, 4)
    weights, log_prob = FeatureSoftmax(0.5)(scores)
    assert log_prob is None
    torch.testing.assert_close(weights, torch.softmax(scores * 2, 2))
    mask = torch.rand(2, 3, 5) > 0.5
    mask[0, 0] = False
    weights, _ = FeatureSoftmax()(scores, mask=mask)
    assert (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(2)[0, 0], torch.zeros(4))
    one, _ = FeatureSoftmax()(scores[..., :1], mask=mask)
    plain, _ = Softmax()(scores[..., 0], mask=mask)
    torch.testing.assert_close(one[..., 0], plain)


def test_dropped_weights_of_features():
    query, key, value = (torch.randn(2, n, 4) for n in (3, 64, 64))
    score, read = FeatureAdditive(4, 4, 4), FeatureSum(dropout=0.25)
    parts = {"score": score, "select": FeatureSoftmax(), "read": read}
    plain = attend(query, key, value, **parts | {"read": FeatureSum()}, need_weights=True)
    with kernels("features"), pytest.raises(RequestError, match="it drops no weights"):
        attend(query, key, value, **parts)
    torch.manual_seed(2)
    dropped = attend(query, key, value, **parts, need_weights=True)
    torch.testing.assert_close(dropped.weights, plain.weights)  # those before dropout
    torch.manual_seed(2)
    torch.testing.assert_close(attend(query, key, value, **parts).context, dropped.context)
    assert not torch.allclose(dropped.context, plain.context)
    again = [x.repeat(100, 1, 1) for x in (query, key, value)]
    many = sum(attend(*again, **parts).context.unflatten(0, (100, 2)).mean(0) for _ in range(20))
    many = many / 20
    torch.testing.assert_close(many, plain.context, atol=0.03, rtol=0.1)
    one = read(torch.ones(1, 1, 4000, 2), torch.ones(1, 4000, 2)) / 4000  # the share kept / 0.75
    torch.testing.assert_close(one, torch.ones(1, 1, 2), atol=0.05, rtol=0)
    read.eval()
    with kernels("features"):
        torch.testing.assert_close(attend(query, key, value, **parts).context, plain.context)
    assert repr(read) == "FeatureSum(dropout=0.25)"
    assert repr(FeatureSum()) == "FeatureSum()"


@pytest.mark.parametrize(("keys", "form"), [(1 << 15, "plain"), ((1 << 15) + 1, "triton")])
def test_small_calls_on_a_gpu_are_plain(monkeypatch, keys, form):
    """As additive scores: up to 2^21 features of pairs."""
    called = []
    monkeypatch.setattr(kernel.triton, "supports", lambda *_: True)
    monkeypatch.setattr(kernel.triton, "feature_attention", noted(called, "triton"))
    monkeypatch.setattr(kernel.eager, "features", noted(called, "plain"))
    query, key = torch.empty(1, 4, 16), torch.empty(1, keys, 16)
    kernel.feature_attention(query, key, key, scale=5.0, bound=5.0)
    assert called == [form]
