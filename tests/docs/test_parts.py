"""The page of all parts has all parts, and what it says of kernels and sums is so."""

import inspect
import re

import pytest
import torch

from regard import attention
from regard.attention import Attention, Dense, FeatureSoftmax, FeatureSum, Hard, explain
from regard.attention._kernels.dispatch import table as kernel_table
from tests.attention import combine
from tests.repo.tree import TOP

PAGE = (TOP / "docs" / "parts.md").read_text(encoding="utf-8")
ROWS = {
    row[1]: [cell.strip() for cell in row[0].strip().strip("|").split(" | ")]
    for row in re.finditer(r"^\| `(\w+)` \|.*\|$", PAGE, re.MULTILINE)
}
NO_PARTS = {
    *("Attended", "Attention", "CarryState", "Explanation", "Memory", "MultiHead"),
    *("Ragged", "Record", "Seen"),  # what parts are given to, and what comes back
}


def parts():
    """Every public class that is a part."""
    for name in attention.__all__:
        part = getattr(attention, name)
        abstract = getattr(part, "_is_protocol", False) or inspect.isabstract(part)
        if inspect.isclass(part) and not abstract and name not in NO_PARTS:
            yield name


def made():
    """The parts by class, with the slot each belongs in."""
    tables = {
        "score": combine.SCORES,
        "position": combine.POSITIONS,
        "select": combine.SELECTS,
        "read": combine.READS,
        "carry": combine.CARRIES,
    }
    for slot, table in tables.items():
        for make in table.values():
            part = make()
            if part is not None:
                yield slot, part
    yield from (("mask", mask) for mask in (*(make() for make in combine.MASKS.values()), SEEN))


SEEN = Dense(torch.ones(5, 5, dtype=torch.bool))


def test_every_part_is_on_the_page_and_nothing_else():
    assert set(ROWS) == set(parts())


def test_every_kernel_has_a_row_on_the_page_of_the_operation():
    page = (TOP / "docs" / "operation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z]+)` \|", page.split("## Kernels")[1], re.MULTILINE)
    assert rows == [
        kernel.name for kernel in kernel_table()
    ]  # in the order in which they are asked


def test_every_part_is_combined_in_the_tests():
    joined = {"Block", "Lengths", "Window"}  # with others, by &
    assert {type(part).__name__ for _, part in made()} >= set(parts()) - joined


@pytest.mark.nohook  # which kernel there is does not depend on the checks
@pytest.mark.parametrize(
    ("slot", "part"), [pytest.param(*one, id=type(one[1]).__name__) for one in made()]
)
def test_the_kernel_is_the_one_that_is_taken(slot, part):
    name = type(part).__name__
    if name not in ROWS or name in ("LocationAware", "Window"):
        pytest.skip("it goes with a carry, or stands in a conjunction")
    given = {slot: part}
    if getattr(part, "per_feature", False):
        wide = {"score": combine.SCORES["feature additive"]()}
        given = {**wide, "select": FeatureSoftmax(), "read": FeatureSum(), **given}
    if name == "Gather":
        given["select"] = Hard()
    if name == "Alignment":
        given["select"] = attention.Monotonic()
    if getattr(part, "feature_dim", 0) and slot == "score":
        given["carry"] = attention.Coverage()
    assert explain(Attention(**given))[""].kernel in ROWS[name][-1]


@pytest.mark.parametrize("name", [n for n in ROWS if hasattr(getattr(attention, n), "sums")])
def test_the_sums_are_those_that_are_declared(name):
    assert ROWS[name][2] == getattr(attention, name).sums
