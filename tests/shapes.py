"""Which functions are checked while tests run: those whose signature has the shape of a tensor.

jaxtyping's import hook wraps every function of a package, and every call then looks at each
argument twice, which triples the time of tests. All other types are known to mypy. Of calls that
have the same form, the first in each test is checked: a training makes hundreds of them. Arguments
and result are checked together after the call; jaxtyping's own check then says what is wrong.
"""

import inspect
import re
import sys
import weakref
from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from itertools import count
from types import CodeType, NoneType
from typing import Any, get_args

import jaxtyping
from jaxtyping._storage import pop_shape_memo, push_shape_memo

__all__ = ["forget", "only_shapes"]

NAMED = re.compile(r"\b(Float|Int|Integer|Bool|Shaped|Num|UInt8)\[")
"""An annotation in quotes."""
PLAIN = (bool, int, float, complex, str, bytes, NoneType)
CHECKED: set[Hashable] = set()
"""The calls of this test that were right, each as its function and the form of its arguments."""
NUMBERS: dict[int, tuple[weakref.ref[Any], int]] = {}
"""By the id of an object that is no plain value: the object, and its number."""
COUNT = count()
BARE: set[CodeType] = set()
"""Functions without a shape: one that is defined in another one is seen at each of its calls."""


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


def forget() -> None:
    """Check all calls again: a test begins."""
    CHECKED.clear()
    NUMBERS.clear()


def _checked(
    whole: Callable[..., Any], function: Callable[..., Any], typechecker: Callable[..., Any]
) -> Callable[..., Any]:
    """The function, whose arguments and result are checked; the check is made at the first call."""
    made: list[tuple[Callable[..., Any], str]] = []

    def checked(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(_check(whole, function, typechecker))
        check, result = made[0]
        found = function(*args, **kwargs)
        push_shape_memo({})
        try:
            check(*args, **kwargs, **{result: found})
        except Exception as error:
            wrong = error
        else:
            return found
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


def _once(checked: Callable[..., Any], bare: Callable[..., Any]) -> Callable[..., Any]:
    """Checked unless a call of this form was right before."""

    @wraps(bare)
    def call(*args: Any, **kwargs: Any) -> Any:
        if sys.modules["torch"]._C._len_torch_function_stack():  # a recorder may watch each size
            return checked(*args, **kwargs)
        try:
            form = (bare, *map(_form, args), *((name, _form(x)) for name, x in kwargs.items()))
            known = form in CHECKED
        except TypeError:
            return checked(*args, **kwargs)
        if known:
            return bare(*args, **kwargs)
        found = checked(*args, **kwargs)
        CHECKED.add(form)
        return found

    return call


def _form(value: Any) -> Hashable:
    """What a check can tell from another value: shape and dtype, a number, which object."""
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
    if issubclass(kind, PLAIN):
        return (lambda x: (kind, x)) if kind in PLAIN else _refused
    if issubclass(kind, tuple | list):
        return lambda x: (kind, *map(_form, x))
    if issubclass(kind, dict):
        return lambda x: (kind, *((name, _form(one)) for name, one in x.items()))
    if is_dataclass(kind):
        names = [one.name for one in fields(kind)]
        return lambda x: (kind, *(_form(getattr(x, name, None)) for name in names))
    return _number


def _refused(value: Any) -> Hashable:
    """Tensors and numbers that are traced: sizes are symbols, whose comparisons are noted."""
    raise TypeError(f"{type(value).__name__} has no form")


def _number(value: Any) -> int:
    """A number that no other object of this test has; ids are taken again."""
    entry = NUMBERS.get(id(value))
    if entry is None or entry[0]() is not value:
        try:
            entry = weakref.ref(value), next(COUNT)
        except TypeError:  # it is another one at each call
            return next(COUNT)
        NUMBERS[id(value)] = entry
    return entry[1]


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
