import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard import native
from regard.layers.deferred_logits import DeferredLogits, deferring, project
from regard.losses import smoothed_cross_entropy as module
from regard.losses.smoothed_cross_entropy import smoothed_cross_entropy
from regard.native.gate import Function


def slow(logits: np.ndarray, target: np.ndarray, smoothing: float) -> float:
    """The definition, word by word, in float64."""
    total = 0.0
    for z, gold in zip(logits, target, strict=True):
        if gold == 0:
            continue
        log_p = z - np.log(np.exp(z).sum())
        q = np.full(len(z), smoothing / (len(z) - 1))
        q[gold] = 1 - smoothing
        assert abs(q.sum() - 1) < 1e-12
        total -= float((q * log_p).sum())
    return total


@pytest.fixture(params=[1, 64, 1 << 18], ids=lambda n: f"chunk{n}")
def chunk(request, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", request.param)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_sum_is_the_definitions(smoothing, dtype, chunk):
    logits = 3 * torch.randn(4, 7, 11, dtype=torch.float64)
    target = torch.randint(0, 11, (4, 7))
    want = slow(logits.view(28, 11).numpy(), target.view(28).numpy(), smoothing)
    found = smoothed_cross_entropy(logits.to(dtype), target, smoothing)
    assert found.dtype == dtype
    assert float(found) == pytest.approx(want, rel=1e-12 if dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_is_that_of_finite_differences(smoothing, chunk):
    logits = torch.randn(3, 2, 5, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[1, 0], [4, 2], [0, 3]])
    assert torch.autograd.gradcheck(
        lambda z: 3 * smoothed_cross_entropy(z, target, smoothing), logits
    )
    smoothed_cross_entropy(logits, target, smoothing).backward()
    assert logits.grad is not None
    assert logits.grad[target == 0].abs().max() == 0


@pytest.mark.parametrize("autocast", [False, True])
def test_bfloat16_logits_are_summed_in_float32(autocast):
    logits = (3 * torch.randn(64, 100)).bfloat16().requires_grad_()
    target = torch.randint(0, 100, (64,))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = smoothed_cross_entropy(logits, target, 0.1)
    found.backward()
    assert found.dtype == torch.float32
    numbers = logits.detach().double()
    assert found.item() == pytest.approx(slow(numbers.numpy(), target.numpy(), 0.1), rel=1e-5)
    wide = numbers.requires_grad_()
    F.cross_entropy(
        wide, target, ignore_index=0, reduction="sum", label_smoothing=0.1 * 100 / 99
    ).backward()
    assert logits.grad is not None
    assert logits.grad.dtype == torch.bfloat16
    torch.testing.assert_close(logits.grad.double(), wide.grad, atol=0.004, rtol=0.01)


def test_large_logits_do_not_overflow():
    logits = torch.tensor([[1e4, -1e4, 0.0, 0.0, 9e3]], requires_grad=True)
    found = smoothed_cross_entropy(logits, torch.tensor([4]), 0.0)
    found.backward()
    assert float(found) == pytest.approx(1000.0)
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_log_probabilities_give_the_same(smoothing):
    logits = torch.randn(6, 9, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([1, 0, 8, 3, 0, 2])
    plain = smoothed_cross_entropy(logits, target, smoothing)
    normalized = smoothed_cross_entropy(logits.log_softmax(-1), target, smoothing, normalized=True)
    torch.testing.assert_close(normalized, plain)
    first, second = (torch.autograd.grad(x, logits)[0] for x in (plain, normalized))
    torch.testing.assert_close(first, second)


def test_words_that_cannot_be_reached_are_left_out_of_smoothing():
    log_p = torch.tensor([[0.5, 0.5, 0.0]]).log().requires_grad_()
    found = smoothed_cross_entropy(log_p, torch.tensor([1]), 0.1, normalized=True)
    found.backward()
    assert float(found) == pytest.approx(-(0.9 + 0.05) * np.log(0.5))
    assert log_p.grad is not None
    assert bool(log_p.grad.isfinite().all())


def test_only_the_gradient_is_as_large_as_the_logits():
    """What autograd keeps besides the logits themselves has one number a row."""
    logits = torch.randn(50, 1000, requires_grad=True)
    kept: list[torch.Tensor] = []

    def pack(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        smoothed_cross_entropy(logits, torch.randint(1, 1000, (50,)), 0.1)
    large = [x for x in kept if x.numel() > 100]
    assert all(x.data_ptr() == logits.data_ptr() for x in large)
    assert len(kept) == 3


def deferred(rows=37, size=29, dim=16, dtype=torch.float64, *, bias=True):
    states = torch.randn(rows, dim, dtype=dtype, requires_grad=True)
    weight = torch.randn(size, dim, dtype=dtype, requires_grad=True)
    own = torch.randn(size, dtype=dtype, requires_grad=True) if bias else None
    gold = torch.randint(0, size, (rows,))
    gold[::5] = 0
    return DeferredLogits(states, weight, own), gold


def both(logits, gold, smoothing=0.1, level="AVX-512"):
    """Loss and gradients: put off, and of the logits themselves."""
    leaves = [x for x in logits if x is not None]
    found = []
    for whole in (logits, F.linear(*logits)):
        with native.at_level(level):
            total = smoothed_cross_entropy(whole, gold, smoothing)
            grads = torch.autograd.grad(3 * total, leaves)
        found.append([total.detach(), *grads])
    return found


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bytes_", [1, 1 << 25])
def test_logits_that_are_put_off_give_the_same_loss_and_gradients(bias, bytes_, monkeypatch):
    monkeypatch.setattr(module, "_BYTES", bytes_)
    for one, two in zip(*both(*deferred(200, bias=bias)), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("level", ["portable", "AVX2", "AVX-512"])
@pytest.mark.parametrize("size", [2, 29, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_in_c_is_that_of_torch(level, size, smoothing):
    logits, gold = deferred(65, size, dtype=torch.float32)
    for one, two in zip(*both(logits, gold, smoothing, level), strict=True):
        torch.testing.assert_close(one, two, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("level", ["portable", "AVX2", "AVX-512"])
def test_bfloat16_gradients_are_rounded_to_the_nearest(level):
    z = (4 * torch.randn(9, 77)).bfloat16()
    gold, parts = torch.randint(1, 77, (9,)), (0.9, 0.001)
    wide = z.double()
    exact = wide.softmax(1) - parts[1] - parts[0] * F.one_hot(gold, 77)
    want = wide.logsumexp(1) - parts[0] * wide.gather(1, gold[:, None])[:, 0]
    want -= parts[1] * wide.sum(1)
    with native.at_level(level):
        losses = module._entropy(z, gold, parts, write=True)
    torch.testing.assert_close(losses.double(), want, rtol=1e-6, atol=1e-5)
    near = (z.double() - exact).abs() <= exact.abs() * 2**-8 + 1e-7
    assert near.all()


def test_under_autocast_products_are_of_bfloat16_and_gradients_of_float32():
    logits, gold = deferred(300, 500, 64, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        one, two = both(logits, gold)
    assert {x.dtype for x in one} == {torch.float32}
    for mine, other in zip(one, two, strict=True):
        assert (mine - other).abs().max() <= 0.02 * other.abs().max()


def test_nothing_but_padding_and_nothing_to_learn():
    logits, gold = deferred(6)
    total = smoothed_cross_entropy(logits, torch.zeros_like(gold), 0.1)
    total.backward()
    assert float(total.detach()) == 0.0
    assert logits.states.grad is not None
    assert not logits.states.grad.any()
    with torch.no_grad():
        alone = smoothed_cross_entropy(logits, gold, 0.1)
    assert float(alone) == pytest.approx(float(smoothed_cross_entropy(logits, gold, 0.1)))


def test_gradients_are_made_only_where_they_are_wanted(monkeypatch):
    logits, gold = deferred()
    written = []
    entropy = module._entropy

    def spy(z, gold, parts, *, write):
        written.append(write)
        return entropy(z, gold, parts, write=write)

    monkeypatch.setattr(module, "_entropy", spy)
    with torch.no_grad():
        smoothed_cross_entropy(logits, gold)
    smoothed_cross_entropy(DeferredLogits(*(x.detach() for x in logits)), gold)
    smoothed_cross_entropy(logits, gold)
    assert written == [False, False, True]


def test_without_c_bfloat16_gradients_are_as_exact(monkeypatch):
    monkeypatch.setattr(module, "_ENTROPY", Function("regard_none"))
    z = (4 * torch.randn(9, 77)).bfloat16()
    gold, parts = torch.randint(1, 77, (9,)), (0.9, 0.001)
    exact = z.double().softmax(1) - parts[1] - parts[0] * F.one_hot(gold, 77)
    module._entropy(z, gold, parts, write=True)
    assert ((z.double() - exact).abs() <= exact.abs() * 2**-8 + 1e-7).all()


def test_a_target_that_is_no_word_is_refused():
    logits, gold = deferred(dtype=torch.float32)
    gold[3] = 29
    with pytest.raises((IndexError, RuntimeError), match=r"29|out of"):
        smoothed_cross_entropy(logits, gold)


def test_models_put_their_logits_off_only_where_asked_and_where_they_can():
    layer, x = torch.nn.Linear(4, 6), torch.randn(2, 3, 4)
    assert isinstance(project(layer, x), torch.Tensor)
    with deferring():
        off = project(layer, x)
        assert isinstance(off, DeferredLogits)
        with deferring(False):
            assert isinstance(project(layer, x), torch.Tensor)
        seen = layer.register_forward_hook(lambda *given: None)
        assert isinstance(project(layer, x), torch.Tensor)
        seen.remove()
        assert isinstance(project(torch.nn.Sequential(layer), x), torch.Tensor)
    assert isinstance(project(layer, x), torch.Tensor)


def test_a_second_derivative_is_refused_aloud():
    z = torch.randn(3, 5, requires_grad=True)
    loss = smoothed_cross_entropy(z, torch.tensor([1, 2, 4]), 0.1)
    (first,) = torch.autograd.grad(loss, z, create_graph=True)
    with pytest.raises(RuntimeError, match="outside autograd"):
        torch.autograd.grad(first.sum() + z.sum(), z)
