"""Blocks and documents, position by position."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import Attention, Block, Causal, Documents, Lengths, MultiHead, Window
from regard.errors import RequestError

CPU = torch.device("cpu")


@given(
    size=st.integers(1, 5),
    left=st.sampled_from([None, 0, 1, 2]),
    right=st.sampled_from([None, 0, 1]),
    queries=st.integers(1, 7),
    keys=st.integers(1, 9),
    at=st.integers(0, 6),
)
def test_block_counts_blocks(size, left, right, queries, keys, at):
    got = Block(size, left, right).dense(queries, keys, at=at, device=CPU)
    each = Block(size, left, right).dense(queries, keys, at=torch.tensor([at, at + 1]), device=CPU)
    for i in range(queries):
        for j in range(keys):
            own, other = (at + i) // size, j // size
            expected = (left is None or other >= own - left) and (
                right is None or other <= own + right
            )
            assert got[i, j] == expected
            assert each[0, i, j] == expected
    assert torch.equal(
        each[1], Block(size, left, right).dense(queries, keys, at=at + 1, device=CPU)
    )


def test_the_causal_blocks_that_people_expect():
    def drawn(mask):
        return mask.dense(6, 6, at=0, device=CPU).int().tolist()

    assert drawn(Block(3) & Causal()) == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 1, 1, 1],
    ]
    assert drawn(Block(2, left=None))[2:4] == [[1, 1, 1, 1, 0, 0]] * 2
    assert drawn(Block(2, left=1) & Causal())[4] == [0, 0, 1, 1, 1, 0]
    assert drawn(Block(1)) == torch.eye(6).int().tolist()
    assert drawn(Block(2) | Window(0, 1))[1] == [1, 1, 1, 0, 0, 0]


def test_blocks_attend_as_if_cut_apart():
    layer = MultiHead(8, 2, Attention(mask=Block(3)))
    x = torch.randn(2, 6, 8)
    whole = layer(x, x).context
    for start in (0, 3):
        part = x[:, start : start + 3]
        torch.testing.assert_close(whole[:, start : start + 3], layer(part, part).context)


def test_packed_documents_attend_as_if_alone():
    ids = torch.tensor([[0, 0, 0, 1, 1, -1], [4, 4, 4, 4, 4, 4]])
    x = torch.randn(2, 6, 8, requires_grad=True)
    for layer in (
        Attention(mask=Documents(ids)),
        Attention(mask=Causal() & Documents(ids)),
        MultiHead(8, 2, Attention(mask=Documents(ids))),
        MultiHead(8, 2, Attention(mask=Documents(ids) & Causal())),
    ):
        alone = layer.attention if isinstance(layer, MultiHead) else layer
        whole = layer(x, x).context
        mask, alone.mask = alone.mask, Causal() if "Causal" in repr(alone.mask) else None
        torch.testing.assert_close(whole[:1, :3], layer(x[:1, :3], x[:1, :3]).context)
        torch.testing.assert_close(whole[:1, 3:5], layer(x[:1, 3:5], x[:1, 3:5]).context)
        torch.testing.assert_close(whole[1:], layer(x[1:], x[1:]).context)
        alone.mask = mask
        assert (whole[0, 5] == 0).all()
        (grad,) = torch.autograd.grad(whole.sum(), x)
        assert grad.isfinite().all()


def test_documents_of_a_cached_step_and_of_rows_at_places_of_their_own():
    ids = torch.tensor([[0, 0, 1, 1, 1], [2, 3, 2, 3, 2]])
    whole = Documents(ids).dense(5, 5, at=0, device=CPU)
    for t in range(5):
        step = Documents(ids).dense(1, t + 1, at=t, device=CPU)
        assert torch.equal(step[:, 0], whole[:, t, : t + 1])
    each = Documents(ids).dense(2, 5, at=torch.tensor([1, 3]), device=CPU)
    assert torch.equal(each, torch.stack([whole[0, 1:3], whole[1, 3:5]]))
    one = Documents(ids[0]).dense(2, 5, at=torch.tensor([1, 3]), device=CPU)
    assert torch.equal(one, torch.stack([whole[0, 1:3], whole[0, 3:5]]))


def test_documents_between_two_packed_rows():
    mask = Documents(torch.tensor([[0, 0, 1]]), queries=torch.tensor([[1, 0]]))
    expected = [[[False, False, True], [True, True, False]]]
    assert mask.dense(2, 3, at=1, device=CPU).tolist() == expected  # `at` is K - Q by default
    later = Documents(torch.tensor([[0, 0, 1]]), queries=torch.tensor([[1, 0, 1]]))
    assert later.dense(1, 3, at=2, device=CPU).tolist() == [[[False, False, True]]]


def test_documents_follow_rows_and_hypotheses():
    ids = torch.tensor([[[0, 0], [0, 1]], [[1, 1], [2, -1]]])  # (batch, beam, key)
    mask = Documents(ids, ids[..., :1])
    index = torch.tensor([[1, 1], [1, 0]])
    picked = mask.select(index)
    assert torch.equal(picked.ids, torch.stack([ids[0, [1, 1]], ids[1, [1, 0]]]))
    assert torch.equal(picked.queries, picked.ids[..., :1])
    assert torch.equal(mask.rows(torch.tensor([1])).ids, ids[1:])
    assert mask.over_heads(2).dense(1, 2, at=0, device=CPU).shape == (2, 2, 1, 1, 2)
    assert torch.equal(mask.to("cpu").ids, ids)
    shared = Documents(ids[0, 0])
    assert shared.rows(torch.tensor([0])).ids.shape == (2,)
    assert shared.over_heads(1).dense(2, 2, at=0, device=CPU).shape == (2, 2)


def test_documents_in_a_memory():
    layer = MultiHead(8, 2)
    x = torch.randn(3, 4, 8)
    ids = torch.tensor([[0, 0, 1, 1]] * 3)
    memory = layer.remember(x, mask=Documents(ids))
    expected = layer(x, x, mask=Documents(ids)).context
    torch.testing.assert_close(layer(x, memory).context, expected)
    rows = torch.tensor([2, 0])
    torch.testing.assert_close(layer(x[rows], memory.rows(rows)).context, expected[rows])
    both = layer(x, memory, mask=Lengths(torch.tensor([4, 3, 0]))).context
    torch.testing.assert_close(both[0], expected[0])
    assert (both[2] == 0).all()


def test_refused():
    with pytest.raises(RequestError, match="size of at least 1"):
        Block(0)
    with pytest.raises(RequestError, match="left >= 0"):
        Block(2, left=-1)
    with pytest.raises(RequestError, match="each of 4 keys, got 3"):
        Documents(torch.tensor([0, 0, 1])).dense(1, 4, at=0, device=CPU)
    with pytest.raises(RequestError, match=r"Documents\(ids, queries=...\)"):
        Documents(torch.tensor([0, 0, 1])).dense(5, 3, at=-2, device=CPU)
