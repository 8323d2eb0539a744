from itertools import islice

import numpy as np

from regard.data.batch import plan
from regard.train.stream import Place, Stream


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
