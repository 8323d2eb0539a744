"""Monotonic attention and MoChA against the papers' definitions, written as loops in float64."""

import itertools

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import (
    Additive,
    Alignment,
    Attention,
    Coverage,
    Dot,
    Lengths,
    Monotonic,
    MonotonicChunkwise,
    MultiHead,
    Softmax,
    explain,
)
from regard.errors import RequestError


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def stops(p, previous):
    """Raffel et al. (2017), eq. 8 and 9, term by term: stop at j coming from k."""
    alpha = np.zeros(len(p))
    for j in range(len(p)):
        for k in range(j + 1):
            walked = 1.0
            for passed in range(k, j):
                walked *= 1 - p[passed]
            alpha[j] += previous[k] * walked * p[j]
    return alpha


def walk(energies, start):
    """Algorithm 1: the first key from `start` on whose p is above 1/2; None at the end."""
    return next((j for j in range(start, len(energies)) if sigmoid(energies[j]) > 0.5), None)


def chunks(alpha, u, width, allowed):
    """Chiu and Raffel (2018): a softmax over the chunk of every place where one may stop."""
    beta = np.zeros(len(alpha))
    for k in range(len(alpha)):
        chunk = [j for j in range(max(0, k - width + 1), k + 1) if allowed[j]]
        total = sum(np.exp(u[j]) for j in chunk)
        for j in chunk:
            beta[j] += alpha[k] * np.exp(u[j]) / total
    return beta


def scored(seed=0, batch=2, queries=4, keys=6, spread=2.0):
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(batch, queries, keys, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("width", [0, 1, 2, 3, 9])
def test_the_expected_weights_are_the_papers_sums(width, masked):
    """Width 0 stands for no chunks; a masked key is one with p = 0, and in no chunk."""
    scores = scored()
    mask = torch.rand(2, 1, 6, generator=torch.Generator().manual_seed(3)) > 0.3
    select = (MonotonicChunkwise(width, noise=0.0) if width else Monotonic(noise=0.0)).double()
    select.offset.data.fill_(-0.4)
    found, _ = select(scores, mask=mask if masked else None)
    for row in range(2):
        allowed = mask[row, 0].numpy() if masked else np.ones(6, bool)
        alpha = np.eye(6)[0]
        for i in range(4):
            p = np.where(allowed, sigmoid(scores[row, i].numpy() - 0.4), 0.0)
            alpha = stops(p, alpha)
            expected = chunks(alpha, scores[row, i].numpy(), width, allowed) if width else alpha
            np.testing.assert_allclose(found[row, i].detach().numpy(), expected, atol=1e-12)


def test_the_recurrence_is_the_closed_form():
    """Equation 11 as printed: p · cumprod(1 - p) · cumsum(α' / cumprod(1 - p)), exclusive."""
    scores = scored(seed=9, queries=1)
    previous = torch.softmax(scored(seed=10, queries=1), -1)
    found, _ = Monotonic(noise=0.0).double().align(scores, previous)
    p = sigmoid(scores.numpy())
    passed = np.cumprod(np.concatenate([np.ones((2, 1, 1)), 1 - p[..., :-1]], -1), -1)
    expected = p * passed * np.cumsum(previous.numpy() / passed, -1)
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-13)


def test_the_expected_weights_are_the_mean_over_all_walks():
    """Every sequence of stops with its chance: what equation 9 is the marginal of."""
    p = sigmoid(scored(seed=5, batch=1, queries=3, keys=4)[0].numpy())
    expected = np.zeros((3, 4))
    for walks in itertools.product(range(5), repeat=3):  # 4 stands for the end
        chance, at = 1.0, 0
        for i, stop in enumerate(walks):
            if stop < at:
                chance = 0.0
                break
            chance *= np.prod(1 - p[i, at:stop]) * (p[i, stop] if stop < 4 else 1.0)
            at = stop
        for i, stop in enumerate(walks):
            if stop < 4:
                expected[i, stop] += chance
    select = Monotonic(noise=0.0, evaluation="expected").eval().double()
    found, _ = select(torch.logit(torch.from_numpy(p))[None])
    np.testing.assert_allclose(found[0].detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("width", [0, 3])
@pytest.mark.parametrize("lengths", [[6, 6], [6, 3]])
def test_hard_steps_walk_from_where_the_last_one_stopped(width, lengths):
    layer = Attention(Dot(), select=MonotonicChunkwise(width) if width else Monotonic()).eval()
    ended = 0
    for seed in range(20):
        scores = scored(seed, spread=1.0) - 0.5
        key, value = torch.eye(6).double().expand(2, 6, 6), torch.randn(2, 6, 5).double()
        got = layer(scores, key, value, mask=Lengths(torch.tensor(lengths)), need_weights=True)
        for row, length in enumerate(lengths):
            at = 0
            for i in range(4):
                energies = scores[row, i, :length].numpy()
                at = None if at is None else walk(energies, at)
                expected = np.zeros(6)
                if at is None:
                    ended += 1
                else:
                    stop = np.eye(length)[at]
                    expected[:length] = (
                        chunks(stop, energies, width, np.ones(length, bool)) if width else stop
                    )
                np.testing.assert_allclose(got.weights[row, i].numpy(), expected, atol=1e-12)
                np.testing.assert_allclose(
                    got.context[row, i].numpy(), expected @ value[row].numpy(), atol=1e-12
                )
    assert ended  # some looked at nothing


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("width", [0, 1, 3])
def test_step_by_step_with_its_alignment_is_all_steps_at_once(mode, own, width):
    torch.manual_seed(1)
    chunk = Additive(4, 3, 5) if own else None
    select = MonotonicChunkwise(width, chunk, noise=0.0) if width else Monotonic(noise=0.0)
    score = Additive(4, 3, 6)
    whole = Attention(score, select=select).double()
    steps = Attention(score, select=select, carry=Alignment()).double()
    getattr(whole, mode)()
    getattr(steps, mode)()
    query, key = torch.randn(3, 5, 4).double() * 2, torch.randn(3, 7, 3).double() * 2
    mask = Lengths(torch.tensor([7, 4, 1]))
    expected = whole(query, key, mask=mask, need_weights=True)
    memory, state, found = steps.remember(key, mask=mask), None, []
    for t in range(5):
        got = steps(query[:, t : t + 1], memory, state=state, need_weights=True)
        state = got.state
        found.append(got.weights)
        assert state.value.shape == (3, 1, 7)
    torch.testing.assert_close(torch.cat(found, 1), expected.weights)


def test_the_chunk_may_have_a_score_of_its_own():
    torch.manual_seed(2)
    chunk = Additive(4, 3, 5)
    layer = Attention(Additive(4, 3, 6), select=MonotonicChunkwise(2, chunk, noise=0.0)).double()
    query, key = torch.randn(1, 1, 4).double(), torch.randn(1, 6, 3).double()
    found = layer(query, key, need_weights=True).weights[0, 0].detach().numpy()
    e = layer.scores(query, key)[0, 0].detach().numpy()
    u = chunk(query, chunk.prepare(key))[0, 0].detach().numpy()
    alpha = stops(sigmoid(e), np.eye(6)[0])
    np.testing.assert_allclose(found, chunks(alpha, u, 2, np.ones(6, bool)), atol=1e-12)
    layer(query, key).context.square().sum().backward()
    assert all(p.grad.any() for p in layer.parameters())


def test_noise_is_before_the_sigmoid_and_in_training_alone():
    select = Monotonic(noise=0.7, generator=torch.Generator().manual_seed(4)).double()
    scores = scored(queries=1)
    found, _ = select(scores)
    drawn = torch.empty(2, 1, 6).double().normal_(generator=torch.Generator().manual_seed(4))
    for row in range(2):
        p = sigmoid((scores + 0.7 * drawn)[row, 0].numpy())
        np.testing.assert_allclose(found[row, 0].detach(), stops(p, np.eye(6)[0]), atol=1e-12)
    still = Monotonic(noise=0.7, evaluation="expected").double().eval()
    assert torch.equal(still(scores)[0], still(scores)[0])
    assert not torch.equal(select(scores)[0], select(scores)[0])


@pytest.mark.parametrize("width", [0, 3])
def test_gradients(width):
    select = MonotonicChunkwise(width, noise=0.0) if width else Monotonic(noise=0.0)
    select.double()
    scores = scored(seed=7, queries=3, keys=4, spread=1.0).requires_grad_()
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    mask[0, :, 3] = mask[1, :, 1] = False
    previous = torch.softmax(torch.randn(2, 3, 4).double(), -1).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: select(s, mask=mask)[0], scores)
    assert torch.autograd.gradcheck(lambda s, a: select.align(s, a, mask)[0], (scores, previous))
    assert torch.autograd.gradgradcheck(lambda s: select(s, mask=mask)[0], scores)


@pytest.mark.parametrize("size", [30.0, 1e4])
def test_nothing_underflows_where_products_of_many_vanish(size):
    """Sure stops early on, and a thousand keys: the printed form divides by zero there."""
    generator = torch.Generator().manual_seed(2)
    scores = size * torch.randn(1, 3, 1000, generator=generator)
    select = MonotonicChunkwise(4, noise=0.0)
    scores.requires_grad_()
    weights, _ = select(scores)
    assert weights.isfinite().all()
    assert (weights >= 0).all()
    assert weights.sum(-1).max() <= 1 + 1e-5
    weights.square().sum().backward()
    assert scores.grad.isfinite().all()
    low, _ = select(scores.detach().bfloat16())
    assert low.dtype == torch.bfloat16


def test_heads_walk_by_themselves_and_beams_take_their_alignments_along():
    torch.manual_seed(3)
    inner = Attention(select=Monotonic(noise=0.0), carry=Alignment())
    layer = MultiHead(8, 2, inner)
    query, key = torch.randn(1, 3, 8), torch.randn(1, 6, 8)
    memory = layer.remember(key)
    first = layer(query, memory, need_weights=True)
    assert first.state.value.shape == (1, 2, 3, 6)
    picked = torch.tensor([[2, 2, 0]])
    second = layer(query, memory, state=first.state.select(picked), need_weights=True).weights
    for slot, origin in enumerate(picked[0].tolist()):
        alone = first.state.select(torch.tensor([[origin]]))
        one = layer(query[:, slot : slot + 1], memory, state=alone, need_weights=True).weights
        torch.testing.assert_close(second[:, :, slot], one[:, :, 0])


def test_it_is_explained_and_watched_without_a_second_draw():
    layer = Attention(Dot(), select=Monotonic())
    assert explain(layer)[""].kernel == "reference"
    x = torch.randn(1, 3, 4)
    torch.manual_seed(1)
    plain = layer(x, x)
    torch.manual_seed(1)
    with watch(layer) as seen:
        watched = layer(x, x)
    assert torch.equal(plain.context, watched.context)
    torch.testing.assert_close(seen[""].weights @ x, plain.context)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(RequestError, match="noise of 0 or more, got -1"):
        Monotonic(noise=-1.0)
    with pytest.raises(RequestError, match="chunks of 1 key or more, got 0"):
        MonotonicChunkwise(0)
    for select, carry in ((Monotonic(), Coverage()), (Softmax(), Alignment())):
        with pytest.raises(RequestError, match=r"goes on from an alignment but .* has none"):
            Attention(select=select, carry=carry)


@pytest.mark.nohook  # the checks would refuse it first
def test_another_mode_is_refused():
    with pytest.raises(RequestError, match='training="expected" or "hard", got \'soft\''):
        Monotonic(training="soft")


def test_it_learns_to_read_what_comes_in_order():
    """The i-th step has to say the i-th marked key; training is soft, the test is hard."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)

    def batch(rows):
        marked = torch.zeros(rows, 12, dtype=torch.bool)
        for row in range(rows):
            marked[row, torch.randperm(12, generator=generator)[:4]] = True
        symbols = torch.randint(5, (rows, 12), generator=generator)
        keys = torch.cat([torch.nn.functional.one_hot(symbols, 5), marked[..., None]], -1).float()
        return keys, symbols[marked].view(rows, 4)

    score = Additive(1, 6, 8)
    layer = Attention(score, select=Monotonic(offset=-1.0))
    # A step is not told how far it is; what it starts from is where the last one stopped, so it
    # has to leave that key: the query says "the one behind".
    read = torch.nn.Linear(6, 5)
    parameters = [*layer.parameters(), *read.parameters()]
    optimizer = torch.optim.Adam(parameters, 0.03)
    shift = torch.nn.functional.pad
    for _ in range(150):
        keys, gold = batch(64)
        query = torch.ones(64, 1, 1)
        previous, logits = None, []
        for _ in range(4):
            energies = layer.scores(query, keys)
            start = torch.nn.functional.one_hot(torch.zeros(64, 1, dtype=torch.long), 12).float()
            start = start if previous is None else shift(previous, (1, -1))
            weights, previous = layer.select.align(energies, start)
            logits.append(read(weights @ keys))
        loss = torch.nn.functional.cross_entropy(torch.cat(logits, 1).flatten(0, 1), gold.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    layer.eval()
    keys, gold = batch(200)
    previous, right = None, 0
    for i in range(4):
        start = torch.nn.functional.one_hot(torch.zeros(200, 1, dtype=torch.long), 12).float()
        start = start if previous is None else shift(previous, (1, -1))
        weights, previous = layer.select.align(layer.scores(torch.ones(200, 1, 1), keys), start)
        right += (read(weights @ keys)[:, 0].argmax(-1) == gold[:, i]).sum().item()
    assert right > 0.9 * 800
