"""Rotary positions against complex numbers, and everything that moves positions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import watch
from regard.attention import (
    Attention,
    Causal,
    Cosine,
    Dot,
    InverseEuclidean,
    Lengths,
    Memory,
    MultiHead,
    NegativeSquaredEuclidean,
    Rotary,
    explain,
    kernels,
)
from regard.errors import RequestError


def turned(x, position, base, dim, pairs):
    """One vector as complex numbers times e^(i p theta)."""
    first = range(0, dim, 2) if pairs == "interleaved" else range(dim // 2)
    out = x.astype(float).copy()
    for t, a in enumerate(first):
        b = a + 1 if pairs == "interleaved" else a + dim // 2
        z = complex(x[a], x[b]) * np.exp(1j * position * base ** (-2 * t / dim))
        out[a], out[b] = z.real, z.imag
    return out


@settings(max_examples=50)
@given(
    pairs=st.sampled_from(["interleaved", "half"]),
    dim=st.sampled_from([None, 2, 4]),
    at=st.sampled_from([0, 3, 1000, "each"]),
    base=st.sampled_from([10.0, 10000.0]),
    seed=st.integers(0, 10**6),
)
def test_rotary_is_a_product_of_complex_numbers(pairs, dim, at, base, seed):
    torch.manual_seed(seed)
    rotary = Rotary(dim, base=base, pairs=pairs)
    query, key = torch.randn(2, 3, 6).double(), torch.randn(2, 5, 6).double()
    first = torch.tensor([2, 7]) if at == "each" else at
    got_query, got_key = rotary.before(query, key, at=first)
    for b in range(2):
        start = [2, 7][b] if at == "each" else at
        for i in range(3):
            expected = turned(query[b, i].numpy(), start + i, base, dim or 6, pairs)
            np.testing.assert_allclose(got_query[b, i].numpy(), expected, atol=1e-10)
        for j in range(5):
            expected = turned(key[b, j].numpy(), j, base, dim or 6, pairs)
            np.testing.assert_allclose(got_key[b, j].numpy(), expected, atol=1e-10)


@pytest.mark.parametrize(
    "score", [Dot(), Cosine(3.0), InverseEuclidean(), NegativeSquaredEuclidean()], ids=repr
)
def test_only_the_offset_counts(score):
    rotary = Rotary()
    query, key = torch.randn(1, 1, 8).double(), torch.randn(1, 1, 8).double()

    def scored(i, j):
        turned_query, _ = rotary.before(query, key, at=i)
        turned_key, _ = rotary.before(score.prepare(key), key, at=j)
        return score(turned_query, turned_key)

    torch.testing.assert_close(scored(7, 4), scored(1007, 1004))
    assert (scored(7, 4) - scored(7, 5)).abs() > 1e-3


@pytest.mark.parametrize("pairs", ["interleaved", "half"])
def test_a_growing_cache_gives_what_the_whole_gives(pairs):
    layer = MultiHead(16, 2, Attention(position=Rotary(pairs=pairs), mask=Causal()))
    x = torch.randn(3, 7, 16)
    whole = layer(x, x).context
    with torch.inference_mode():
        memory = layer.remember(x[:, :2])
        for t in range(2, 7):
            memory = layer.extend(memory, x[:, t : t + 1])
            step = layer(x[:, t : t + 1], memory).context
            torch.testing.assert_close(step[:, 0], whole[:, t])


@pytest.mark.parametrize("score", [Dot(), Cosine(3.0)], ids=repr)
def test_keys_are_turned_once(score, monkeypatch):
    """When they enter a memory: a step turns one query and one key, and reads the rest."""
    layer = MultiHead(16, 2, Attention(score, position=Rotary(4), mask=Causal()))
    x, rows = torch.randn(3, 9, 16), []
    whole, before = layer(x, x).context, layer.scores(x, x)
    turn = Rotary.turn

    def counted(self, x, first, **how):
        rows.append(x.shape[-2])
        return turn(self, x, first, **how)

    monkeypatch.setattr(Rotary, "turn", counted)
    with torch.inference_mode():
        memory = layer.remember(x[:, :8])
        memory = layer.extend(memory.rows(torch.arange(3)), x[:, 8:])
        found = layer(x[:, 8:], memory).context
        assert rows == [8, 1, 1]
        torch.testing.assert_close(found, whole[:, 8:])
        torch.testing.assert_close(layer.scores(x, memory), before)
        shared = memory.prepared.data_ptr() == memory.key.data_ptr()
        assert shared == isinstance(score, Dot)
    keys, values = layer._key_value(x, None)  # a memory made by hand is turned at each call
    raw = Memory(keys, values, None, score.prepare(keys), heads=True)
    torch.testing.assert_close(layer(x, raw).context, whole)
    assert layer.extend(raw, x[:, :1]).turned is None


def test_a_memory_that_another_position_turned():
    one, other = (Attention(position=Rotary(pairs=p)) for p in ("interleaved", "half"))
    x = torch.randn(1, 5, 8)
    memory, twin = one.remember(x), Attention(position=Rotary())
    assert torch.equal(
        twin(x, twin.extend(memory, x)).context, one(x, one.extend(memory, x)).context
    )
    for layer in (other, Attention()):
        with pytest.raises(
            RequestError, match=r"were turned by Rotary.*call remember of the layer"
        ):
            layer(x, memory)
        with pytest.raises(RequestError, match="were turned by Rotary"):
            layer.extend(memory, x)


class Halved(Rotary):
    """Says something else in `before` than the `turn` that it inherits."""

    def before(self, query, key, *, at=0):
        query, key = super().before(query, key, at=at)
        return query / 2, key


def test_a_position_that_overrides_before_is_asked_at_each_step():
    layer, x = Attention(position=Halved()), torch.randn(2, 5, 8)
    memory = layer.remember(x)
    assert memory.turned is None
    assert torch.equal(layer(x, memory).context, layer(x, x).context)
    plain = Attention(position=Rotary())
    torch.testing.assert_close(layer(x, memory).context, plain(x / 2, x, value=x).context)


def test_rows_at_places_of_their_own():
    """A tensor `at`: what is right for one row alone is right in a batch, with heads, too."""
    x, memory = torch.randn(2, 2, 16), torch.randn(2, 6, 16)
    at = torch.tensor([1, 3])
    for layer in (
        Attention(position=Rotary(), mask=Causal()),
        MultiHead(16, 2, Attention(position=Rotary(), mask=Causal())),  # as many heads as rows
        MultiHead(16, 4, Attention(position=Rotary(), mask=Causal())),
    ):
        both = layer(x, memory, at=at).context
        for b in range(2):
            one = layer(x[b : b + 1], memory[b : b + 1], at=int(at[b])).context
            torch.testing.assert_close(both[b], one[0])


def test_every_kernel_of_the_score_can_do_it():
    layer = Attention(position=Rotary(), mask=Causal())
    assert explain(layer)[""].kernel == "sdpa"
    x = torch.randn(2, 4, 6, requires_grad=True)
    fast = layer(x, x).context
    with kernels("reference"):
        slow = layer(x, x).context
    torch.testing.assert_close(fast, slow)
    with watch(layer) as seen:
        again = layer(x, x).context
    assert torch.equal(again, fast)
    torch.testing.assert_close(seen[""].weights @ x, fast)


def test_gradients():
    layer = Attention(position=Rotary(2), mask=Lengths(torch.tensor([3, 0])))
    x = [torch.randn(2, n, 4).double().requires_grad_() for n in (2, 3, 3)]
    assert torch.autograd.gradcheck(lambda *x: layer(*x).context, x)
    out = layer(*x).context
    assert (out[1] == 0).all()


def test_low_precision_turns_in_fp32():
    x = torch.randn(1, 4, 8).bfloat16()
    got, _ = Rotary().before(x, x, at=5000)
    exact, _ = Rotary().before(x.double(), x.double(), at=5000)
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, exact.bfloat16())
    single, _ = Rotary().before(x.float(), x.float(), at=100_000)
    far, _ = Rotary().before(x.double(), x.double(), at=100_000)
    assert (single - far).abs().max() < 1e-6


@pytest.mark.nohook
def test_refused():
    with pytest.raises(RequestError, match="even number"):
        Rotary(3)
    with pytest.raises(RequestError, match='pairs="interleaved" or "half"'):
        Rotary(pairs="neox")
    with pytest.raises(RequestError, match="even number"):
        Attention(position=Rotary())(torch.randn(1, 2, 5), torch.randn(1, 2, 5))
    with pytest.raises(RequestError, match="at least 8"):
        Attention(position=Rotary(8))(torch.randn(1, 2, 6), torch.randn(1, 2, 6))
