"""Batches made ahead: the same ones, in the same order; nothing goes on when they are enough."""

import threading
import time

import pytest

from regard.train.prefetch import ahead


def alive():
    return [t for t in threading.enumerate() if t.name == "regard-batches"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_same_items_in_order(count):
    assert list(ahead(iter(range(50)), count)) == list(range(50))
    assert not alive()


def test_at_most_so_many_wait():
    made = []

    def items():
        for n in range(100):
            made.append(n)
            yield n

    found = ahead(items(), 2)
    assert next(found) == 0
    for _ in range(100):
        if len(made) == 4:  # one given, two waiting, one in the hand of the thread
            break
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(made) == 4
    found.close()
    assert not alive()
    assert len(made) == 4


def test_an_error_comes_where_its_item_would():
    def items():
        yield 1
        raise ValueError("the second")

    found = ahead(items(), 5)
    assert next(found) == 1
    with pytest.raises(ValueError, match="the second"):
        next(found)
    assert not alive()
