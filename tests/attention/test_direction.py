"""Directional masks against the paper's rule, pair by pair."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import (
    Attention,
    Causal,
    Directional,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    Lengths,
    MultiHead,
    Window,
    attend,
    kernels,
)
from regard.errors import RequestError

CPU = torch.device("cpu")


@given(
    direction=st.sampled_from(["forward", "backward"]),
    queries=st.integers(0, 5),
    keys=st.integers(0, 6),
    at=st.integers(-2, 7),
)
def test_forward_looks_back_and_backward_ahead_and_never_at_itself(direction, queries, keys, at):
    allowed = Directional(direction).dense(queries, keys, at=at, device=CPU)
    assert allowed.shape == (queries, keys)
    for i in range(queries):
        for j in range(keys):
            position = at + i
            expected = j < position if direction == "forward" else j > position
            assert bool(allowed[i, j]) == expected


def test_positions_may_differ_between_rows():
    at = torch.tensor([0, 2, 5])
    allowed = Directional("forward").dense(2, 6, at=at, device=CPU)
    for b in range(3):
        one = Directional("forward").dense(2, 6, at=int(at[b]), device=CPU)
        assert torch.equal(allowed[b], one)


def test_the_two_directions_and_the_diagonal_are_everything():
    both = Directional("forward") | Directional("backward")
    diagonal = ~Window(0, 0)
    size = {"at": 0, "device": CPU}
    assert torch.equal(both.dense(5, 5, **size), diagonal.dense(5, 5, **size))
    assert torch.equal(both.dense(5, 5, **size), ~torch.eye(5, dtype=torch.bool))
    strict = Causal() & ~Window(0, 0)
    assert torch.equal(strict.dense(5, 5, **size), Directional("forward").dense(5, 5, **size))
    nothing = Directional("forward") & Directional("backward")
    assert not nothing.dense(5, 5, **size).any()
    no_way_back = ~Directional("forward")
    assert torch.equal(no_way_back.dense(4, 4, **size), torch.ones(4, 4).triu().bool())


def test_it_is_a_value():
    mask = Directional("backward")
    assert mask == Directional("backward")
    assert mask != Directional("forward")
    assert mask.over_heads(1) is mask
    assert mask.to("cpu") is mask
    assert mask.rows(torch.tensor([0])) is mask


def test_other_directions_are_refused():
    with pytest.raises(RequestError, match="got 'sideways'"):
        Directional("sideways")


def feature_wise(mask, dim=6):
    score = FeatureAdditive(dim, dim, dim)
    return Attention(score, select=FeatureSoftmax(), read=FeatureSum(), mask=mask)


@pytest.mark.parametrize("forced", ["features", "reference"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_change_is_felt_on_one_side_only(forced, direction):
    """The pitfall of DiSAN's masks: the wrong triangle."""
    layer = feature_wise(Directional(direction))
    x = torch.randn(1, 7, 6)
    changed = x.clone()
    changed[0, 3] += 1.0
    with kernels(forced), torch.no_grad():
        before, after = layer(x, x).context[0], layer(changed, changed).context[0]
    moved = (before != after).any(-1).tolist()
    # Token 3 itself moves too: its own query changed. The first (last) token reads nothing.
    expected = [i >= 3 for i in range(7)] if direction == "forward" else [i <= 3 for i in range(7)]
    assert moved == expected
    edge = before[0] if direction == "forward" else before[-1]
    assert (edge == 0).all()


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_padding_and_direction_leave_rows_with_nothing(direction):
    lengths = torch.tensor([4, 1, 0])
    layer = feature_wise(Directional(direction) & Lengths(lengths))
    x = torch.randn(3, 4, 6, requires_grad=True)
    context = layer(x, x).context
    for b in range(3):
        for i in range(4):
            seen = [
                j for j in range(int(lengths[b])) if (j < i if direction == "forward" else j > i)
            ]
            assert bool((context[b, i] == 0).all()) == (not seen)
    context.square().sum().backward()
    assert x.grad.isfinite().all()
    assert (x.grad[2] == 0).all()


def test_without_direction_tokens_are_a_bag():
    """With only the diagonal blocked the output follows a shuffle exactly (fact sheet, 12)."""
    layer = feature_wise(~Window(0, 0)).double()
    x = torch.randn(1, 6, 6).double()
    order = torch.randperm(6)
    with torch.no_grad():
        shuffled = layer(x[:, order], x[:, order]).context
        torch.testing.assert_close(shuffled, layer(x, x).context[:, order])
        layer.mask = Directional("forward")
        assert not torch.allclose(
            layer(x[:, order], x[:, order]).context, layer(x, x).context[:, order]
        )


def test_dot_products_take_it_too():
    """Im and Cho (2017): direction in a Transformer's encoder."""
    x = torch.randn(2, 5, 4)
    context = attend(x, x, mask=Directional("backward")).context
    for b in range(2):
        for i in range(4):
            weights = torch.softmax(x[b, i] @ x[b, i + 1 :].T / 2.0, -1)
            torch.testing.assert_close(context[b, i], weights @ x[b, i + 1 :])
        assert (context[b, 4] == 0).all()


@pytest.mark.parametrize("heads", [False, True])
def test_a_cached_step_sees_the_past(heads):
    inner = feature_wise(Directional("forward"), 3 if heads else 6)
    layer = MultiHead(6, 2, inner) if heads else inner
    x = torch.randn(2, 5, 6)
    with torch.no_grad():
        whole = layer(x, x).context
        memory = layer.remember(x[:, :1])
        for t in range(1, 5):
            memory = layer.extend(memory, x[:, t : t + 1])
            step = layer(x[:, t : t + 1], memory).context
            torch.testing.assert_close(step[:, 0], whole[:, t])
