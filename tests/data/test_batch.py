import logging
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batch import PairBatch, collate, divided, plan
from regard.data.ragged import RaggedIds

SIZES = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=60).map(
    lambda rows: np.array(rows, np.int64).reshape(-1, 2)
)


@given(
    sizes=SIZES,
    tokens=st.integers(1, 200),
    seed=st.integers(0, 5),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
    rows=st.none() | st.integers(1, 7),
)
def test_every_example_is_in_one_batch_within_the_budget(sizes, tokens, seed, epoch, shuffle, rows):
    batches = plan(sizes, tokens, seed, epoch, shuffle, rows)
    assert sorted(i for batch in batches for i in batch) == list(range(len(sizes)))
    for batch in batches:
        longest = max(max(sizes[i]) for i in batch)
        assert len(batch) * longest <= tokens or len(batch) == 1
        assert rows is None or len(batch) <= rows
    assert batches == plan(sizes, tokens, seed, epoch, shuffle, rows)


def one_by_one(sizes, tokens, seed, epoch, shuffle, rows):
    """Batches as a loop over the examples cuts them: a training that goes on needs the same."""
    if not len(sizes):
        return []
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))
    ties = random.permutation(len(sizes)) if shuffle else np.arange(len(sizes))
    batches, longest = [[]], sizes.max(1)
    for i in np.lexsort((ties, sizes[:, 0], longest)).tolist():
        more = len(batches[-1]) + 1
        if batches[-1] and (more * longest[i] > tokens or (rows is not None and more > rows)):
            batches.append([])
        batches[-1].append(i)
    return [batches[i] for i in random.permutation(len(batches))] if shuffle else batches


@given(
    sizes=st.lists(st.tuples(*[st.sampled_from([0, 1, 2, 7, 40, 300, 70_000])] * 2), max_size=60),
    tokens=st.integers(1, 2000),
    seed=st.integers(0, 5),
    shuffle=st.booleans(),
    rows=st.none() | st.integers(1, 7),
)
def test_the_plan_of_an_epoch_never_changes(sizes, tokens, seed, shuffle, rows):
    told = np.array(sizes, np.int64).reshape(-1, 2)
    asked = (told, tokens, seed, 1, shuffle, rows)
    assert plan(*asked) == one_by_one(*asked)


@given(sizes=SIZES, tokens=st.integers(40, 200))
def test_no_two_neighbors_would_fit_in_one_batch(sizes, tokens):
    batches = plan(sizes, tokens, shuffle=False)
    for one, other in pairwise(batches):
        assert (len(one) + 1) * max(sizes[other[0]]) > tokens


@given(sizes=SIZES, tokens=st.integers(1, 200), parts=st.integers(0, 9))
def test_batches_are_cut_into_parts_of_their_own_rows(sizes, tokens, parts):
    batches = plan(sizes, tokens)[:4]
    parts += len(batches)
    found = divided(batches, sizes, parts)
    assert len(found) == parts
    rows = sum(map(len, batches))
    assert sum(map(bool, found)) == min(rows, parts)
    assert sorted(i for part in found for i in part) == sorted(i for b in batches for i in b)
    left = [part for part in found if part]
    assert found == left + [[]] * (parts - len(left))
    for batch in batches:  # the parts of a batch follow each other, and are as large as each other
        own = [left.pop(0)]
        while sum(map(len, own)) < len(batch):
            own.append(left.pop(0))
        assert {i for part in own for i in part} == set(batch)
        assert max(map(len, own)) - min(map(len, own)) <= 1


def test_the_largest_batch_is_cut_first():
    sizes = np.array([[5, 9], [8, 2], [7, 7], [2, 1], [1, 1]])
    assert divided([[3, 4], [0, 1, 2]], sizes, 2) == [[3, 4], [0, 1, 2]]
    assert divided([[3, 4], [0, 1, 2]], sizes, 3) == [[3, 4], [0, 2], [1]]
    assert divided([[3, 4], [0, 1, 2]], sizes, 4) == [[3, 4], [0], [1], [2]]
    assert divided([[3, 4], [0, 1, 2]], sizes, 6) == [[3], [4], [0], [1], [2], []]


def test_epochs_and_seeds_differ_and_lengths_are_alike():
    sizes = np.random.default_rng(0).integers(1, 50, (2000, 2))
    first = plan(sizes, 500, seed=1, epoch=0)
    assert first != plan(sizes, 500, seed=1, epoch=1)
    assert first != plan(sizes, 500, seed=2, epoch=0)
    assert sorted(map(sorted, first)) != sorted(map(sorted, plan(sizes, 500, seed=1, epoch=1)))
    longest = [sizes[batch].max(1) for batch in first]
    assert sum(x.sum() for x in longest) / sum(len(x) * x.max() for x in longest) > 0.97
    assert longest[0].mean() != longest[1].mean()  # batches themselves come in no order of length
    means = np.array([x.mean() for x in longest])
    assert (np.diff(means) < 0).mean() > 0.3


def test_one_longer_than_the_budget_is_alone_and_told(caplog):
    sizes = np.array([[3, 3], [90, 5], [3, 2]])
    with caplog.at_level(logging.WARNING):
        batches = plan(sizes, 20, shuffle=False)
    assert [1] in batches
    assert "1 of 3 examples are longer than the budget of 20" in caplog.text


def test_one_sided_sizes():
    assert plan(np.array([[5], [2], [2]]), 4, shuffle=False) == [[1, 2], [0]]


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(3, 99), max_size=6), st.lists(st.integers(3, 99), max_size=6)
        ),
        min_size=1,
        max_size=8,
    ),
    st.data(),
)
def test_collate_is_what_a_loop_makes(rows, data):
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=5))
    source, target = RaggedIds.rows([r[0] for r in rows]), RaggedIds.rows([r[1] for r in rows])
    batch = collate(source, target, indices)
    chosen = [rows[i] for i in indices]
    width = max(len(s) for s, _ in chosen) + 1, max(len(t) for _, t in chosen) + 1
    for row, (s, t) in enumerate(chosen):
        assert batch.source[row].tolist() == [*s, 2] + [0] * (width[0] - len(s) - 1)
        assert batch.target_in[row].tolist() == [1, *t] + [0] * (width[1] - len(t) - 1)
        assert batch.target_out[row].tolist() == [*t, 2] + [0] * (width[1] - len(t) - 1)
    assert batch.source_lengths.tolist() == [len(s) + 1 for s, _ in chosen]
    assert batch.count == sum(len(t) + 1 for _, t in chosen)
    assert batch.index == indices
    assert len(batch) == len(indices)


def test_a_batch_moves():
    batch = collate(RaggedIds.rows([[5, 6]]), RaggedIds.rows([[7]]), [0]).to("meta")
    assert isinstance(batch, PairBatch)
    tensors = [batch.source, batch.source_lengths, batch.target_in, batch.target_out]
    assert all(t.device == torch.device("meta") for t in tensors)
    assert batch.count == 2


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=9), st.data())
def test_packed_rows_are_lists(rows, data):
    packed = RaggedIds.rows(rows)
    assert [row.tolist() for row in packed] == rows
    assert packed.sizes.tolist() == [len(row) for row in rows]
    if rows:
        at = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9))
        taken = packed.take(np.array(at, np.int64))
        assert [row.tolist() for row in taken] == [rows[i] for i in at]
        assert packed[-1].tolist() == rows[-1]
        assert [row.tolist() for row in packed[1:]] == rows[1:]
    with pytest.raises(IndexError):
        packed[len(rows)]
