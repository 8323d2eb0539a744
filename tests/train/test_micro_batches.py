from itertools import islice

import numpy as np
import pytest

from regard.data.batch import plan
from regard.errors import RequestError
from regard.recipe.train_section import BatchSettings
from regard.train.micro_batches import Place, Stream


class Numbers:
    """Examples that are their own numbers: a batch is the list of its indices."""

    def __init__(self, count: int = 57) -> None:
        self.sizes = np.random.default_rng(3).integers(1, 20, (count, 2))
        self.texts, self.references = [""] * count, [[""]] * count

    def subset(self, indices):
        return Numbers(len(indices))

    def __len__(self) -> int:
        return len(self.sizes)

    def count(self, indices):
        return int(sum(self.sizes[i, 1] for i in indices))

    def collate(self, indices):
        return list(indices)


EXAMPLES = Numbers()


def stream(**settings) -> Stream:
    return Stream(EXAMPLES, plan, **{"tokens": 60, "seed": 5, **settings})


def test_epochs_follow_each_other_without_a_gap():
    plans = [plan(EXAMPLES.sizes, tokens=60, seed=5, epoch=e) for e in range(3)]
    flat = [batch for one in plans for batch in one]
    assert plans[0] != plans[1]
    # 4 micro-batches a step: steps reach over the ends of epochs, and nothing is left out.
    found = [m.batch for m in islice(stream(accumulate=4), len(flat) // 4 * 4)]
    assert found == flat[: len(found)]


def test_two_processes_see_what_one_sees_that_accumulates_twice_as_much():
    one = list(islice(stream(accumulate=2), 40))
    parts = [list(islice(stream(rank=rank, world=2), 20)) for rank in (0, 1)]
    for step in range(20):
        first, second = one[2 * step : 2 * step + 2]
        assert [parts[0][step].batch, parts[1][step].batch] == [first.batch, second.batch]
        count = EXAMPLES.count(first.batch) + EXAMPLES.count(second.batch)
        assert {m.count for m in (first, second, parts[0][step], parts[1][step])} == {count}
        assert parts[0][step].after == second.after


def test_starting_at_a_place_gives_the_rest():
    whole = list(islice(stream(accumulate=3), 60))
    for cut in (3, 30, 57):
        rest = islice(stream(accumulate=3, start=whole[cut - 1].after), 60 - cut)
        assert [m.batch for m in rest] == [m.batch for m in whole[cut:]]


def test_the_epoch_is_counted_in_micro_batches():
    size = len(plan(EXAMPLES.sizes, tokens=60, seed=5, epoch=0))
    micros = list(islice(stream(), size + 1))
    assert [m.epoch for m in micros[:2]] == [0.0, 1 / size]
    assert micros[size - 1].until == 1.0
    assert micros[size].after == Place(1, 1)


def share(world: int, tokens: int, step: int, start: Place | None = None, count: int = 20):
    """The micro-batches of each step, of all processes, as `train.batch.step_tokens` gives them."""
    settings = BatchSettings(tokens=tokens, step_tokens=step)
    each = settings.accumulated(world)
    ranks = [
        list(islice(stream(
            tokens=settings.budget, whole=settings.whole, accumulate=each, rank=rank, world=world,
            start=start,
        ), each * count))
        for rank in range(world)
    ]  # fmt: skip
    return [[m for own in ranks for m in own[each * n : each * (n + 1)]] for n in range(count)]


@pytest.mark.parametrize(("tokens", "step"), [(20, 60), (30, 120), (60, 60), (25, 110), (7, 7)])
def test_a_whole_step_has_the_same_examples_whoever_shares_it(tokens, step):
    alone = share(1, tokens, step)
    for world in (2, 3, 4, 7):
        together = share(world, tokens, step)
        for one, several in zip(alone, together, strict=True):
            own = [m for m in several if not m.idle]
            seen = sorted(i for m in own for i in m.batch)
            assert seen == sorted(i for m in one for i in m.batch)
            facts = {(m.count, m.after, m.epoch, m.until) for m in one}
            assert len(facts) == 1
            assert {(m.count, m.after, m.epoch, m.until) for m in several} == facts
            assert one[0].count == EXAMPLES.count([i for m in own for i in m.batch])
            assert sorted(m.number for m in several) == list(range(len(several)))
            for micro in several:  # what a process takes at once
                longest = max(max(EXAMPLES.sizes[i]) for i in micro.batch)
                assert len(micro.batch) == 1 or len(micro.batch) * longest <= tokens


def test_parts_are_the_same_where_processes_divide_them():
    """So are the random numbers of each: they follow from the number."""
    alone = [[(m.number, m.batch) for m in step] for step in share(1, 15, 60)]
    for world in (2, 4):
        found = [sorted((m.number, m.batch) for m in step) for step in share(world, 15, 60)]
        assert found == alone


def test_a_whole_step_goes_on_with_other_processes():
    whole = share(1, 20, 60, count=30)
    for cut, world in ((1, 2), (13, 4), (22, 3)):
        rest = share(world, 20, 60, whole[cut - 1][0].after, count=30 - cut)
        for one, several in zip(whole[cut:], rest, strict=True):
            own = sorted(i for m in several if not m.idle for i in m.batch)
            assert own == sorted(i for m in one for i in m.batch)


def test_where_examples_are_fewer_than_processes_some_have_a_copy():
    found = share(4, 7, 7)
    assert any(m.idle for step in found for m in step)
    for step in found:
        assert any(not m.idle for m in step)
        assert all(len(m.batch) == 1 for m in step if m.idle)


def test_a_step_has_one_size():
    settings = BatchSettings(tokens=4096, step_tokens=10000)
    assert (settings.whole, settings.budget) == (3, 3333)
    assert [settings.accumulated(world) for world in (1, 2, 3, 4)] == [3, 2, 1, 1]
    settings = BatchSettings(tokens=500, accumulate=4)
    assert (settings.whole, settings.budget, settings.accumulated(3)) == (None, 500, 4)
    with pytest.raises(
        RequestError, match=r"train\.batch\.accumulate: it is 2, but train\.batch\.s"
    ):
        BatchSettings(accumulate=2, step_tokens=10000)
