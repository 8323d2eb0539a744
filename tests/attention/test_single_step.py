"""Steps of a decoder by the fast path: equal to the reference, and not taken where it must not."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from regard import native, watch
from regard.attention import (
    Additive,
    Attention,
    Causal,
    Coverage,
    Lengths,
    Memory,
    Softmax,
    WeightedSum,
    kernels,
    single_step,
)
from regard.errors import RequestError

pytestmark = pytest.mark.skipif(
    native.unavailable_reason("regard_additive_step") is not None, reason="no C kernels here"
)
LENGTHS = torch.tensor([7, 0, 4])


@pytest.fixture
def layer() -> Attention:
    torch.manual_seed(1)
    return Attention(score=Additive(6, 5, hidden=33), select=Softmax(0.7))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of a layer with a memory took the fast path."""
    found: list[bool] = []
    short = single_step.fast_step

    def spy(*arguments: object) -> object:
        step = short(*arguments)  # type: ignore[arg-type]
        found.append(step is not None)
        return step

    monkeypatch.setattr("regard.attention.module.fast_step", spy)
    return found


def memory_of(layer: Attention, mask: object = LENGTHS) -> Memory:
    key = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(2))
    return layer.remember(key, torch.cat([key, key.exp()], -1), mask)  # type: ignore[arg-type]


def query_of(queries: int = 1, seed: int = 3) -> Tensor:
    return torch.randn(3, queries, 6, generator=torch.Generator().manual_seed(seed))


def truth(layer: Attention, query: Tensor, memory: Memory) -> Tensor:
    with kernels("reference"):
        return layer(query, memory).context


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mask", [None, LENGTHS])
@pytest.mark.parametrize("queries", [1, 4])
@torch.no_grad()
def test_steps_are_those_of_the_reference(
    layer: Attention, taken: list[bool], mask: Tensor | None, queries: int
) -> None:
    memory = memory_of(layer, mask)
    for seed in range(3):
        query = query_of(queries, seed)
        same(layer(query, memory).context, truth(layer, query, memory))
    assert taken == [True, False] * 3
    if mask is not None:
        assert not layer(query, memory).context[1].any()  # nothing to look at


@torch.no_grad()
def test_forced_kernels_and_watchers_between_steps(layer: Attention, taken: list[bool]) -> None:
    memory, query = memory_of(layer), query_of()
    first = layer(query, memory).context
    with kernels("streaming"):
        same(layer(query, memory).context, first)
    with pytest.raises(RequestError), kernels("sdpa"):
        layer(query, memory)
    with watch(layer) as seen:
        same(layer(query, memory).context, first)
    assert seen[""].weights.shape == (3, 1, 7)
    assert layer(query, memory, need_weights=True).weights is not None
    same(layer(query, memory).context, first)
    assert taken == [True, False, False, False, True]


def test_gradients_between_steps(layer: Attention, taken: list[bool]) -> None:
    memory, query = memory_of(layer), query_of().requires_grad_()
    with torch.no_grad():
        quiet = layer(query, memory).context
    loud = layer(query, memory).context
    same(loud, quiet)
    (grad,) = torch.autograd.grad(loud.square().sum(), query)
    (expected,) = torch.autograd.grad(truth(layer, query, memory).square().sum(), query)
    same(grad, expected)
    with torch.inference_mode():
        same(layer(query, memory).context, quiet)
    assert taken == [True, True, False, True]


def test_steps_that_are_learnt_from_give_all_gradients(layer: Attention, taken: list[bool]) -> None:
    """Short steps, steps that show their weights, and queries of four, over one memory."""
    key = torch.randn(3, 7, 5, requires_grad=True)
    query = query_of().requires_grad_()
    wanted = (query, key, *layer.parameters())

    def gradients() -> tuple[Tensor, ...]:
        memory = layer.remember(key, mask=LENGTHS)
        state = layer(query, memory).context
        for turn in range(20):
            grown = torch.nn.functional.pad(state, (0, 1)) + query
            if turn == 7:
                state = state + layer(grown, memory, need_weights=True).context
            elif turn == 9:
                state = state + layer(grown.expand(3, 4, 6), memory).context.mean(1, keepdim=True)
            else:
                state = state + layer(grown, memory).context
        return torch.autograd.grad(state.square().sum(), wanted)

    found = gradients()
    assert taken == [True] * 9 + [False] + [True] * 10  # one shows weights: that one does not ask
    with kernels("reference"):
        for a, b in zip(found, gradients(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * b.abs().max().item())


def test_watchers_change_no_bit_of_steps_that_are_learnt_from(
    layer: Attention, taken: list[bool]
) -> None:
    key, query = torch.randn(3, 7, 5), query_of()

    def gradients() -> tuple[Tensor, ...]:
        memory = layer.remember(key, mask=LENGTHS)
        contexts = [layer(query * turn, memory).context for turn in range(11)]
        return torch.autograd.grad(torch.cat(contexts).square().sum(), tuple(layer.parameters()))

    alone = gradients()
    with watch(layer) as seen:
        watched = gradients()
    assert all(torch.equal(a, b) for a, b in zip(alone, watched, strict=True))
    assert seen[""].weights.shape == (11, 3, 1, 7)
    same(
        seen[""].weights[3],
        layer(query * 3, layer.remember(key, mask=LENGTHS), need_weights=True).weights,
    )
    assert taken == [True] * 22


def test_learning_steps_of_unusual_layers_are_done_by_attend(taken: list[bool]) -> None:
    key, query = torch.randn(3, 7, 5, requires_grad=True), query_of()
    hooked = Attention(score=Additive(6, 5, 8))
    seen = []
    hooked.score.query.register_forward_hook(lambda *_: seen.append(1))  # type: ignore[union-attr]
    hooked(query, hooked.remember(key))
    dropping = Attention(score=Additive(6, 5, 8), read=WeightedSum(dropout=0.5))
    dropping(query, dropping.remember(key))
    fixed = Attention(score=Additive(6, 5, 8)).requires_grad_(False)
    fixed(query, fixed.remember(key.detach()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fixed(query, fixed.remember(key))
    assert seen == [1]
    assert taken == [False] * 4


@torch.no_grad()
def test_parts_and_parameters_that_change_between_steps(
    layer: Attention, taken: list[bool]
) -> None:
    memory, query = memory_of(layer), query_of()
    assert isinstance(layer.score, Additive)
    layer(query, memory)

    def again(short: bool) -> None:
        taken.clear()
        found = layer(query, memory).context
        assert taken == [short]
        same(found, truth(layer, query, memory))

    layer.score.v.mul_(3)
    again(True)
    layer.score.v = nn.Parameter(layer.score.v + 1)
    again(True)
    layer.score.query.weight.data = layer.score.query.weight * 2
    again(True)
    layer.select = Softmax(2.0)
    again(True)
    memory.value.add_(1)
    again(True)
    layer.mask = Causal()
    again(False)
    layer.mask = None
    again(True)
    layer.read = WeightedSum(scale="length")
    again(False)
    layer.read = WeightedSum(dropout=0.5)
    layer.eval()
    again(True)
    layer.train()
    taken.clear()
    layer(query, memory)
    assert taken == [False]
    layer.read = WeightedSum()
    layer.carry = Coverage()
    again(False)


@torch.no_grad()
def test_one_memory_of_two_layers(layer: Attention) -> None:
    other = copy.deepcopy(layer)
    assert isinstance(other.score, Additive)
    other.score.v.neg_()
    memory, query = memory_of(layer), query_of()
    for _ in range(2):
        for one in (layer, other):
            same(one(query, memory).context, truth(one, query, memory))


@torch.no_grad()
def test_memories_that_come_of_one_that_was_stepped_over(
    layer: Attention, taken: list[bool]
) -> None:
    memory, query = memory_of(layer), query_of()
    layer(query, memory)
    for made in (
        copy.deepcopy(memory),
        pickle.loads(pickle.dumps(memory)),
        memory.rows(torch.tensor([2, 0, 0])),
        memory.select(torch.tensor([1, 1, 2])),
        layer.extend(memory_of(layer, None), torch.ones(3, 2, 5), torch.ones(3, 2, 10)),
    ):
        taken.clear()
        same(layer(query, made).context, truth(layer, query, made))
        assert taken[0] or made.mask is None  # a cache has room between its rows
    with pytest.raises(RequestError, match="does not take queries of 5"):
        layer(query[..., :-1], memory)  # what does not fit is refused as ever


@torch.no_grad()
def test_types_transforms_and_broadcasts_go_the_long_road(
    layer: Attention, taken: list[bool]
) -> None:
    memory, query = memory_of(layer, None), query_of()
    expected = layer(query, memory).context
    taken.clear()
    wide = layer(query[:1], memory).context
    same(wide[0], expected[0])
    mapped = torch.func.vmap(lambda q: layer(q, memory).context)(torch.stack([query, query]))
    same(mapped[1], expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(query, memory).context.dtype == torch.bfloat16
    layer.double()
    layer(query.double(), memory.to(torch.float64))
    assert taken == [False] * 4
    some = Lengths(torch.tensor([7, 3, 1], dtype=torch.int32))
    same(layer.float()(query, memory_of(layer, some)).context[0], expected[0])


@pytest.mark.nohook
@torch.no_grad()
def test_compiled(layer: Attention) -> None:
    memory, query = memory_of(layer), query_of()
    expected = layer(query, memory).context
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    same(compiled(query, memory).context, expected)
    same(layer(query, memory).context, expected)
