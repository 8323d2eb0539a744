"""The checks of shapes wrap each function that names a shape, and no other."""

import importlib
import sys
from dataclasses import dataclass

import jaxtyping
import pytest
import torch

from tests.shapes import CHECKED, MANY, SHAPES, _once, in_turns, only_shapes

TOY = """
from dataclasses import dataclass
from collections.abc import Callable, Sequence
from jaxtyping import Float, Int
from torch import Tensor

Rows = Float[Tensor, "n 3"]

def bare(x: Float[Tensor, "n 3"]): return x
def given_back(x) -> Float[Tensor, "n 3"]: return x
def same(x: Float[Tensor, " n"], y: Float[Tensor, " n"]): return x
def aliased(x: Rows): return x
def quoted(x: "Float[Tensor, 'n 3']"): return x
def optional(x: "Float[Tensor, 'n 3'] | None"): return x
def inside(x: Sequence[Rows]): return x

class Owner:
    def __init__(self, x): self.x = x
    def method(self, x: Rows): return x
    @classmethod
    def of_class(cls, x: Rows): return x
    @staticmethod
    def static(x: Rows): return x
    @property
    def prop(self) -> Rows: return self.x

@dataclass
class Kept:
    x: Rows

def without(x: int) -> str: return x
"""
RIGHT, WRONG = torch.ones(2, 3), torch.ones(2, 4)


@dataclass
class Plain:
    x: object


@dataclass(slots=True)
class Slotted:
    x: object


@dataclass(frozen=True)
class Case:
    """What turns ask of a test."""

    parent: str
    given: str | None
    name: str

    @property
    def originalname(self):
        if self.given is None:
            raise AttributeError("originalname")
        return self.given


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A module that is imported as `make test` imports those of the package."""
    (tmp_path / "toy_of_shapes.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    if not hasattr(jaxtyping.jaxtyped, "whole"):  # these tests run without the hook, too
        monkeypatch.setattr(jaxtyping, "jaxtyped", jaxtyping.jaxtyped)
        only_shapes()
    with jaxtyping.install_import_hook("toy_of_shapes", "beartype.beartype"):
        yield importlib.import_module("toy_of_shapes")
    del sys.modules["toy_of_shapes"]


def calls(toy, x):
    """Each form in which a function can name a shape."""
    owner = toy.Owner(x)
    yield from (toy.bare, toy.given_back, toy.aliased, toy.quoted, toy.optional, toy.Kept)
    yield from (owner.method, toy.Owner.of_class, toy.Owner.static)
    yield lambda x: toy.inside([x])
    yield lambda x: owner.prop
    yield lambda x: toy.same(x[:, 0], x[0] if x is WRONG else x[:, 0])


def test_every_shape_is_checked(toy):
    for call in calls(toy, RIGHT):
        call(RIGHT)
    for call in calls(toy, WRONG):
        with pytest.raises((jaxtyping.TypeCheckError, TypeError)):
            call(WRONG)


def test_a_function_without_shapes_is_left_as_it_is(toy):
    assert toy.without("no number") == "no number"
    assert not hasattr(toy.without, "__wrapped__")


def counted(function):
    """The function whose checks are counted, and the results that were checked."""
    checks = []
    return _once(lambda found, args, kwargs: checks.append(found), function), checks


def test_a_call_of_the_same_form_is_checked_once():
    """Of other shapes, types, numbers or kinds of modules it is checked again."""
    once, checks = counted(lambda x: x)
    layers = torch.nn.Linear(2, 2), torch.nn.ReLU()
    sources = Plain(RIGHT), Slotted(RIGHT)
    forms = [RIGHT, WRONG, RIGHT.double(), 3, 4, 3.0, True, None, "a", (RIGHT,), [RIGHT], {"x": 1}]
    for given in [*forms, *layers, *sources, (RIGHT, WRONG), {"x": 2}]:
        before = len(checks)
        once(given)
        once(given)
        assert len(checks) == before + 1, given
    other, own = counted(lambda x: x)
    other(RIGHT)
    assert len(own) == 1  # of another function
    once(x=RIGHT)
    assert len(checks) == before + 2  # by another name


def test_a_result_of_another_form_is_checked():
    results = [RIGHT, WRONG, RIGHT, (RIGHT,), WRONG]
    once, checks = counted(lambda x: results.pop(0))
    for _ in range(5):
        once(RIGHT)
    assert [getattr(found, "shape", None) for found in checks] == [(2, 3), (2, 4), None]


def test_a_collection_whose_items_are_unknown_is_checked_each_time():
    once, checks = counted(lambda x: x)
    for _ in range(2):
        once({1, 2})
    assert len(checks) == 2


def test_forms_are_forgotten_when_they_are_many(monkeypatch):
    monkeypatch.setattr("tests.shapes.MANY", len(CHECKED) + 1)
    kept = set(CHECKED)
    once, checks = counted(lambda x: x)
    for number in (3, 4, 3):
        once(number)
    assert checks == [3, 4, 3]
    assert len(CHECKED) == 2
    CHECKED.update(kept)
    assert len(CHECKED) < MANY


def test_traced_sizes_are_never_compared():
    """A recorder of decoders notes what is compared; such calls are checked each time."""

    class Traced(int):
        __hash__ = int.__hash__

        def __eq__(self, other):
            raise AssertionError("compared")

    class TracedTensor(torch.Tensor):
        @property
        def shape(self):
            raise AssertionError("asked")

    once, checks = counted(lambda x: None)
    for given in (Traced(3), RIGHT.as_subclass(TracedTensor)):
        once(given)
        once(given)
    assert len(checks) == 4
    for _ in range(2):
        with torch.overrides.TorchFunctionMode():
            once(RIGHT)
    assert len(checks) == 6


def test_what_was_wrong_is_wrong_again(toy):
    toy.bare(RIGHT)
    for _ in range(2):
        with pytest.raises(jaxtyping.TypeCheckError):
            toy.bare(WRONG)


def test_cases_take_turns_and_each_test_has_one_that_checks(request):
    def cases(parent, test, letters):
        return [Case(parent, test, f"{test}[{letter}]") for letter in letters]

    alone = Case("file", None, "alone")
    items = [*cases("file", "one", "abcdefg"), *cases("file", "two", "abcdefg")]
    items += [*cases("file", "few", "ab"), alone, *cases("class", "one", "ab")]
    off = list(in_turns(items))
    assert [item.name for item in items if item not in off] == [
        "one[a]",
        "one[d]",
        "one[g]",
        "two[b]",
        "two[e]",
        "few[a]",
        "alone",
        "one[a]",
    ]
    items = request.session.items
    on = {*items} - {*in_turns(items)}
    assert {item.nodeid.partition("[")[0] for item in on} == {
        item.nodeid.partition("[")[0] for item in items
    }


def test_a_test_whose_turn_it_is_not_checks_nothing(toy, monkeypatch):
    once, checks = counted(lambda x: x)
    monkeypatch.setattr(SHAPES, "checked", False)
    assert once(RIGHT) is RIGHT
    assert toy.bare(WRONG) is WRONG
    assert checks == []
    monkeypatch.setattr(SHAPES, "checked", True)
    once(RIGHT)
    with pytest.raises(jaxtyping.TypeCheckError):
        toy.bare(WRONG)
    assert len(checks) == 1
