"""The covering arrays of the tests cover every pair, with few cases."""

from itertools import combinations, product

import pytest

from tests.pairwise import covering, pairwise


@pytest.mark.parametrize(
    ("sizes", "most"), [((19, 3, 3), 57), ((3, 3, 3), 12), ((2, 2, 2, 2), 6), ((4, 2), 8)]
)
def test_every_two_options_meet(sizes, most):
    found = covering(sizes)
    for (one, first), (other, second) in combinations(enumerate(sizes), 2):
        met = {(case[one], case[other]) for case in found}
        assert met == set(product(range(first), range(second)))
    assert len(found) <= most
    assert found == covering(sizes)


def test_a_test_gets_options_not_their_numbers():
    mark = pairwise(letter={"a": 1, "b": 2}, number=[7, 8], flag=[True]).mark
    names, cases = mark.args
    assert names == ("letter", "number", "flag")
    assert sorted(case.values for case in cases) == [
        ("a", 7, True), ("a", 8, True), ("b", 7, True), ("b", 8, True)
    ]  # fmt: skip


def test_the_other_combinations_may_be_slow_tests():
    factors = {"letter": "abc", "number": [7, 8], "flag": [True, False]}
    (_, quick), (_, every) = (
        pairwise(others=others, **factors).mark.args for others in (None, pytest.mark.slow)
    )
    assert len(quick) == 6
    assert [one.values for one in every] == [*product("abc", [7, 8], [True, False])]
    assert [one.values for one in every if not one.marks] == [one.values for one in quick]
    assert {mark.name for one in every for mark in one.marks} == {"slow"}


def test_one_factor_makes_no_pairs():
    with pytest.raises(ValueError, match="two factors or more, got 1"):
        covering([3])
