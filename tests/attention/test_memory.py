"""Memories: made once, appended to, re-ordered, moved."""

import pytest
import torch

from regard.attention import Additive, Attention, Causal, Cosine, Lengths, Memory, MultiHead
from regard.errors import RequestError

LAYERS = {
    "additive": lambda: Attention(Additive(8, 8, 5)),
    "cosine": lambda: Attention(Cosine()),
    "heads": lambda: MultiHead(8, 2),
    "additive heads": lambda: MultiHead(8, 2, Attention(Additive(4, 4, 5))),
}


@pytest.fixture(params=sorted(LAYERS))
def layer(request):
    torch.manual_seed(0)
    return LAYERS[request.param]().double()


def test_remembering_first_is_the_same_as_giving_keys(layer):
    query, key, value = (torch.randn(3, n, 8).double() for n in (2, 5, 5))
    for mask in (None, Lengths(torch.tensor([5, 2, 0])), torch.rand(3, 2, 5) > 0.5):
        memory = layer.remember(key, value, mask)
        direct = layer(query, key, value, mask=mask)
        torch.testing.assert_close(layer(query, memory).context, direct.context)


def test_masks_of_remember_in_every_form(layer):
    query, key = torch.randn(2, 3, 8).double(), torch.randn(2, 5, 8).double()
    lengths = torch.tensor([5, 2])
    bools = torch.arange(5) < lengths[:, None]
    expected = layer(query, key, mask=Lengths(lengths)).context
    for mask in (Lengths(lengths), lengths, bools, bools[:, None].expand(2, 3, 5)):
        torch.testing.assert_close(layer(query, layer.remember(key, mask=mask)).context, expected)
    with pytest.raises(RequestError, match="bool tensor"):
        layer.remember(key, mask=bools.float())


@pytest.mark.parametrize("grad", [True, False])
def test_a_growing_memory_equals_the_causal_whole(layer, grad):
    x = torch.randn(2, 3, 20, 8).double()  # (B, beam, T, D)
    whole = layer(x, x, mask=Causal()).context
    with torch.set_grad_enabled(grad):
        memory = layer.remember(x[:, :, :1])
        steps = [layer(x[:, :, :1], memory).context]
        for t in range(1, 20):
            memory = layer.extend(memory, x[:, :, t : t + 1])
            steps.append(layer(x[:, :, t : t + 1], memory).context)
    assert len(memory) == 20
    torch.testing.assert_close(torch.cat(steps, 2), whole)


def test_appending_twice_to_an_old_memory_is_refused(layer):
    x = torch.randn(1, 4, 8).double()
    with torch.no_grad():
        old = layer.remember(x)
        for _ in range(3):  # into fresh room, into spare room
            new = layer.extend(old, x[:, :1])
            if old._room is not None:
                with pytest.raises(RequestError, match="already extended"):
                    layer.extend(old, x[:, 1:2])
            old = new
        branch = layer.extend(old.rows(torch.tensor([0])), x[:, 1:2])  # a copy may go its own way
        again = layer.extend(old, x[:, 2:3])
    assert len(branch) == len(again) == len(old) + 1
    assert not torch.equal(branch.key, again.key)


def test_an_old_memory_stays_as_it_was(layer):
    x = torch.randn(1, 6, 8).double()
    with torch.no_grad():
        first = layer.remember(x[:, :3])
        before = first.key.clone()
        second = layer.extend(first, x[:, 3:4])
        layer.extend(second, x[:, 4:5])
    assert (len(first), len(second)) == (3, 4)
    assert torch.equal(first.key, before)


def test_select_follows_beams_and_rows_keep_sentences(layer):
    x = torch.randn(2, 3, 4, 8).double()  # (B, beam, T, D)
    query = torch.randn(2, 3, 1, 8).double()
    lengths = torch.tensor([[4, 3, 2], [1, 2, 4]])
    memory = layer.remember(x, mask=Lengths(lengths))
    index = torch.tensor([[2, 2, 0, 1], [1, 0, 0, 0]])
    picked = layer(query[:, :1].expand(2, 4, 1, 8), memory.select(index)).context
    for b in range(2):
        for j in range(4):
            i = index[b, j]
            one = layer.remember(x[b, i], mask=Lengths(lengths[b, i]))
            torch.testing.assert_close(picked[b, j], layer(query[b, 0], one).context)
    kept = layer(query[1:], memory.rows(torch.tensor([1]))).context
    torch.testing.assert_close(kept, layer(query, memory).context[1:])
    with pytest.raises(RequestError, match="select expected an index with 2 axes"):
        memory.select(torch.tensor([0]))


def test_moving_and_casting(layer):
    key = torch.randn(2, 5, 8).double()
    memory = layer.remember(key, mask=Lengths(torch.tensor([5, 2]))).to(torch.float32)
    out = layer.float()(torch.randn(2, 1, 8), memory)
    assert out.context.dtype == torch.float32
    meta = memory.to("meta")
    assert meta.key.is_meta
    assert isinstance(meta, Memory)


def test_a_masked_memory_is_not_appended_to():
    layer = Attention()
    memory = layer.remember(torch.randn(1, 3, 4), mask=Lengths(torch.tensor([2])))
    with pytest.raises(RequestError, match="without a mask"):
        layer.extend(memory, torch.randn(1, 1, 4))


def test_a_cache_keeps_its_room_and_its_shared_tensors_when_it_is_reordered() -> None:
    layer = MultiHead(8, 2)
    with torch.no_grad():
        x = torch.randn(2, 3, 7, 8)  # (batch, beam, time, dim)
        index = torch.tensor([[2, 0, 0], [1, 1, 2]])
        cache, kept = layer.remember(x[:, :, :1]), x[:, :, :1]
        for t in range(1, 7):
            cache = layer.extend(cache, x[:, :, t : t + 1])
            assert cache.prepared is cache.key  # a dot product prepares nothing
            kept = torch.cat([kept, x[:, :, t : t + 1]], 2)
            branch = cache.select(index)
            assert branch.prepared is branch.key
            kept = kept.gather(2 - 1, index[..., None, None].expand(-1, -1, *kept.shape[2:]))
            true = layer.remember(kept)
            assert torch.allclose(branch.key, true.key, atol=1e-6)
            assert torch.allclose(branch.value, true.value, atol=1e-6)
            cache = branch
            if t == 4:
                cache, kept = cache.rows(torch.tensor([1])), kept[1:]
                x, index = x[1:], index[1:]
        assert len(cache) == 7
