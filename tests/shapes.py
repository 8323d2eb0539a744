"""Which functions are checked while tests run: those whose signature has the shape of a tensor.

jaxtyping's import hook wraps every function of a package, and every call then looks at each
argument twice, which triples the time of tests. All other types are known to mypy. Arguments and
result are checked together after the call; jaxtyping's own check then says what is wrong. A check
looks at shapes, dtypes, types and plain values alone: the form of a call. A form that was right is
right again, and is checked once in a process: a training makes hundreds of calls of few forms.

In a whole run the cases of a test take turns (`in_turns`): to look at the forms of all their calls
is a tenth of the time of tests, and cases of one test call the same functions.
"""

import inspect
import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from functools import partial, wraps
from types import CodeType, NoneType
from typing import Any, get_args

import jaxtyping
import pytest
from jaxtyping._storage import pop_shape_memo, push_shape_memo

__all__ = ["CASES", "SHAPES", "in_turns", "only_shapes"]

NAMED = re.compile(r"\b(Float|Int|Integer|Bool|Shaped|Num|UInt8)\[")
"""An annotation in quotes."""
PLAIN = (bool, int, float, complex, str, bytes, NoneType)
CHECKED: set[Hashable] = set()
"""The forms of calls that were right: of the function, its arguments and its result."""
MANY = 100_000
"""The most forms that are remembered."""
CASES = 3
"""Of so many cases of a test one checks shapes, where they take turns."""
BARE: set[CodeType] = set()
"""Functions without a shape: one that is defined in another one is seen at each of its calls."""


class Shapes:
    """Whether calls are checked now."""

    checked = True


SHAPES = Shapes()


def in_turns(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The tests that check no shapes in a whole run: of each one, two of three cases.

    Each test has a case that checks. Where tests of a file have the same cases, models for example,
    the next test has the next case: each model is checked by every third test.
    """
    tests: dict[tuple[object, object], list[pytest.Item]] = {}
    for item in items:
        tests.setdefault((item.parent, getattr(item, "originalname", item.name)), []).append(item)
    for turn, cases in enumerate(tests.values()):
        every = min(CASES, len(cases))
        yield from (case for at, case in enumerate(cases) if (at - turn) % every)


def only_shapes() -> None:
    """Have jaxtyping's hook leave all other functions as they are."""
    whole = jaxtyping.jaxtyped

    def chosen(function: Any = None, **options: Any) -> Any:
        if function is None:
            return partial(chosen, **options)
        if getattr(function, "__code__", None) in BARE:
            return function
        if not _shaped(function):
            if inspect.isfunction(function):
                BARE.add(function.__code__)
            return function
        if not inspect.isfunction(function) or not options.get("typechecker"):
            return whole(function, **options)
        return _once(_checked(whole, function, options["typechecker"]), function)

    chosen.whole = whole  # type: ignore[attr-defined]
    jaxtyping.jaxtyped = chosen


Check = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
"""Raises where a result, or an argument that gave it, has not the shape of its annotation."""


def _checked(
    whole: Callable[..., Any], function: Callable[..., Any], typechecker: Callable[..., Any]
) -> Check:
    """The check of a function's arguments and result, which is made at the first call."""
    made: list[tuple[Callable[..., Any], str]] = []

    def checked(found: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not made:
            made.append(_check(whole, function, typechecker))
        check, result = made[0]
        push_shape_memo({})
        try:
            check(*args, **kwargs, **{result: found})
        except Exception as error:
            wrong = error
        else:
            return
        finally:
            pop_shape_memo()
        whole(function, typechecker=typechecker)(*args, **kwargs)
        raise wrong

    return checked


def _check(
    whole: Callable[..., Any], function: Callable[..., Any], typechecker: Callable[..., Any]
) -> tuple[Callable[..., Any], str]:
    """jaxtyping's check of a function's arguments and result, and its name for the result."""
    parts: list[Callable[..., Any]] = []

    def kept(part: Callable[..., Any]) -> Callable[..., Any]:
        parts.append(part)
        return part

    whole(function, typechecker=kept)
    own = inspect.signature(function).parameters
    for part in parts:
        more = [name for name in inspect.signature(part).parameters if name not in own]
        if more:
            return typechecker(part), more[0]
    raise RuntimeError("jaxtyping makes no check of a result any more; see its jaxtyped()")


def _once(check: Check, bare: Callable[..., Any]) -> Callable[..., Any]:
    """The function, checked unless a call of this form was right before."""

    @wraps(bare)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not SHAPES.checked:
            return bare(*args, **kwargs)
        form: Hashable = None
        if not sys.modules["torch"]._C._len_torch_function_stack():  # a recorder watches each size
            form = _form_of_call(bare, args, kwargs)
        found = bare(*args, **kwargs)
        if form is None or (both := _with_result(form, found)) is None:
            check(found, args, kwargs)
        elif both not in CHECKED:
            check(found, args, kwargs)
            if len(CHECKED) == MANY:
                CHECKED.clear()
            CHECKED.add(both)
        return found

    return call


def _form_of_call(
    bare: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Hashable:
    """None where an argument has no form."""
    try:
        if kwargs:
            return (bare, *map(_form, args), *((name, _form(x)) for name, x in kwargs.items()))
        return (bare, *map(_form, args))
    except TypeError:
        return None


def _with_result(form: Hashable, found: Any) -> Hashable:
    """None where the result has no form."""
    try:
        return form, _form(found)
    except TypeError:
        return None


def _form(value: Any) -> Hashable:
    """What a check can tell from another value: type, shape and dtype, a number."""
    return FORMS[type(value)](value)


class _Forms(dict[type, Callable[[Any], Hashable]]):
    def __missing__(self, kind: type) -> Callable[[Any], Hashable]:
        self[kind] = form = _form_of(kind)
        return form


FORMS = _Forms()
"""By the type of an argument what its form is."""


def _form_of(kind: type) -> Callable[[Any], Hashable]:
    if hasattr(kind, "shape") and hasattr(kind, "dtype"):
        known = kind.__module__ in ("torch", "torch.nn.parameter", "numpy")
        return (lambda x: (kind, x.shape, x.dtype)) if known else _refused
    if kind in (float, complex):
        return lambda x: kind
    if issubclass(kind, PLAIN):
        return (lambda x: (kind, x)) if kind in PLAIN else _refused
    if issubclass(kind, tuple | list):
        return lambda x: (kind, *map(_form, x))
    if issubclass(kind, dict):
        return lambda x: (kind, *((name, _form(one)) for name, one in x.items()))
    if issubclass(kind, Collection) and not issubclass(kind, sys.modules["torch"].nn.Module):
        return _refused
    return lambda x: kind


def _refused(value: Any) -> Hashable:
    """Of tensors and numbers that are traced, whose comparisons are noted; of other collections."""
    raise TypeError(f"{type(value).__name__} has no form")


def _shaped(function: Any) -> bool:
    """Whether an annotation of a function, of a property's functions or of a class's fields is."""
    if isinstance(function, property):
        return any(_shaped(one) for one in (function.fget, function.fset, function.fdel) if one)
    inner = getattr(function, "__func__", function)
    return any(map(_is_shape, getattr(inner, "__annotations__", {}).values()))


def _is_shape(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return NAMED.search(annotation) is not None
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    inner: Iterable[Any] = annotation if isinstance(annotation, list) else get_args(annotation)
    return any(map(_is_shape, inner))
